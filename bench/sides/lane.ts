import type { LaneMode } from '../lane/messages.js';
import type { Measured } from '../measure/measured.js';
import type { BenchWorld } from '../world/bench-world.js';
import { GrantLoader } from '../world/grant-supply.js';
import { DOMAIN, UNCHAINED_DOMAIN } from '../world/names.js';

/** What the costs of a call are listed as. */
const NAMES: Readonly<Record<LaneMode, string>> = {
  whole: 'lane',
  unchained: 'lane without chain',
  unlogged: 'lane without log',
  rows: 'rows alone',
};

/** The lane without RPC, in a process of its own together with its callers. */
export class LaneSide {
  private readonly grants: GrantLoader;
  private readonly domainId: string;
  /** Of the last round: its batches. */
  figures: Readonly<Record<string, number>> = {};

  constructor(
    private readonly world: BenchWorld,
    private readonly callers: number,
    private readonly mode: LaneMode = 'whole',
  ) {
    this.domainId = mode === 'whole' ? DOMAIN : UNCHAINED_DOMAIN;
    this.grants = new GrantLoader(world, this.domainId);
  }

  async measure(seconds: number): Promise<Measured> {
    const grants = await this.grants.forSeconds(seconds);
    const { world, callers, mode, domainId } = this;
    const events = world.events[domainId] ?? [];
    const order = { kind: 'reserve', domainId, callers, seconds, grants, events, mode } as const;
    const round = (): Promise<Measured> => world.lane.measure(order);
    const name = NAMES[mode];
    const measured = await world.costs.during(name, ['postgres'], 'its process', round);
    this.grants.note(measured);
    this.figures = measured.figures ?? {};
    return measured;
  }
}
