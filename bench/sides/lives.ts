import type { Measured } from '../measure/measured.js';
import type { BenchWorld } from '../world/bench-world.js';
import { GrantLoader } from '../world/grant-supply.js';
import { DOMAIN } from '../world/names.js';

/** A life is three calls, and more. */
const FIRST_RATE = 2_000;

/** Whole lives over mutual TLS: `ReserveEffect`, `StartExecution`, `AcknowledgeTerminal`. */
export class LifeSide {
  private readonly grants: GrantLoader;
  /** Of the last round. */
  figures: Readonly<Record<string, number>> = {};

  constructor(
    private readonly world: BenchWorld,
    private readonly callers: number,
  ) {
    this.grants = new GrantLoader(world, DOMAIN, FIRST_RATE);
  }

  async measure(seconds: number): Promise<Measured> {
    const { world, callers } = this;
    const grants = await this.grants.forSeconds(seconds);
    const events = world.events[DOMAIN] ?? [];
    const order = { kind: 'life', callers, seconds, grants, events } as const;
    const round = (): Promise<Measured> => world.load.measure(order);
    const measured = await world.growth.during('a life', () =>
      world.costs.during('a life', ['service', 'postgres'], 'load client', round),
    );
    this.grants.note(measured);
    world.settled += measured.calls;
    this.figures = measured.figures ?? {};
    return measured;
  }
}
