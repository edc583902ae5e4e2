import type { Measured } from '../measure/measured.js';
import type { BenchWorld } from '../world/bench-world.js';
import { GrantLoader } from '../world/grant-supply.js';
import { DOMAIN, UNCHAINED_DOMAIN } from '../world/names.js';

/** The lane without RPC, in a process of its own together with its callers. */
export class LaneSide {
  private readonly grants: GrantLoader;
  private readonly domainId: string;
  /** Of the last round: its batches. */
  figures: Readonly<Record<string, number>> = {};

  constructor(
    private readonly world: BenchWorld,
    private readonly callers: number,
    private readonly chain = true,
  ) {
    this.domainId = chain ? DOMAIN : UNCHAINED_DOMAIN;
    this.grants = new GrantLoader(world, this.domainId);
  }

  async measure(seconds: number): Promise<Measured> {
    const grants = await this.grants.forSeconds(seconds);
    const { world, callers, chain, domainId } = this;
    const events = world.events[domainId] ?? [];
    const order = { kind: 'reserve', domainId, callers, seconds, grants, events, chain } as const;
    const round = (): Promise<Measured> => world.lane.measure(order);
    const name = chain ? 'lane' : 'lane without chain';
    const measured = await world.costs.during(name, ['postgres'], 'its process', round);
    this.grants.note(measured);
    this.figures = measured.figures ?? {};
    return measured;
  }
}
