import type { Measured } from '../measure/measured.js';
import type { BenchWorld } from '../world/bench-world.js';
import { GrantLoader } from '../world/grant-supply.js';
import { DOMAIN } from '../world/names.js';

/** What the load is made with, for the report. */
export const LOAD_CLIENT =
  'a process of its own: HTTP/2 frames over node:tls, requests encoded beforehand (bench/load/grpc-connection.ts), ' +
  'one connection for each of four harnesses';

/** What a call over gRPC goes through, and what makes it. */
const TIERS = ['service', 'postgres'];
const LOAD = 'load client';

/** `ReserveEffect` over mutual TLS. */
export class ReserveSide {
  private readonly grants: GrantLoader;

  constructor(
    private readonly world: BenchWorld,
    private readonly callers: number,
    /** Keeps what it reserves, to be started. */
    private readonly keep = false,
  ) {
    this.grants = new GrantLoader(world, DOMAIN);
  }

  async measure(seconds: number): Promise<Measured> {
    return this.run(seconds, await this.grants.forSeconds(seconds));
  }

  /** Exactly so many calls, however long they take up to `seconds`. */
  async measureCalls(count: number, seconds: number): Promise<Measured> {
    return this.run(seconds, await this.grants.load(count));
  }

  private async run(seconds: number, grants: Awaited<ReturnType<GrantLoader['load']>>): Promise<Measured> {
    const { world, callers, keep } = this;
    const events = world.events[DOMAIN] ?? [];
    const order = { kind: 'reserve', callers, seconds, grants, events, keep } as const;
    const round = (): Promise<Measured> => world.load.measure(order);
    const measured = await world.growth.during('ReserveEffect', () =>
      world.costs.during('ReserveEffect', TIERS, LOAD, round),
    );
    this.grants.note(measured);
    return measured;
  }
}

/** A call that does nothing, of the same service with the same client. */
export function measureEmpty(world: BenchWorld, callers: number, seconds: number): Promise<Measured> {
  const round = (): Promise<Measured> => world.load.measure({ kind: 'empty', callers, seconds });
  return world.costs.during('Health/Check', TIERS, LOAD, round);
}

/** `StartExecution` of what was reserved and kept before; ends when that is used up. */
export function measureStart(world: BenchWorld, callers: number, seconds: number): Promise<Measured> {
  const round = (): Promise<Measured> => world.load.measure({ kind: 'start', callers, seconds });
  return world.growth.during('StartExecution', () =>
    world.costs.during('StartExecution', TIERS, LOAD, round),
  );
}
