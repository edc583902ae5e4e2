import type { Costs } from '../measure/costs.js';
import type { Measured } from '../measure/measured.js';
import { GrantLoader } from '../world/grant-supply.js';
import { DOMAIN } from '../world/names.js';
import type { GrowthStore } from './growth-stores.js';

/** The lane without RPC on a database that holds so much already. */
export class StoredSide {
  private readonly grants: GrantLoader;
  /** Of the rounds that counted. */
  readonly rounds: Measured[] = [];
  /** Bytes of WAL that all rounds wrote, and their calls. */
  wal = 0;
  calls = 0;

  constructor(
    private readonly name: string,
    private readonly store: GrowthStore,
    private readonly events: readonly (readonly string[])[],
    private readonly callers: number,
    private readonly costs: Costs,
  ) {
    this.grants = new GrantLoader(store, DOMAIN);
  }

  async measure(seconds: number): Promise<Measured> {
    const { store, events, callers } = this;
    const grants = await this.grants.forSeconds(seconds);
    const order = {
      ...({ kind: 'reserve', domainId: DOMAIN, mode: 'whole' } as const),
      ...{ callers, seconds, grants, events },
    };
    const before = await this.walPosition();
    const measured = await this.costs.during(this.name, ['postgres'], 'its process', () =>
      store.lane.measure(order),
    );
    this.wal += (await this.walPosition()) - before;
    this.calls += measured.calls;
    this.grants.note(measured);
    this.rounds.push(measured);
    return measured;
  }

  private async walPosition(): Promise<number> {
    const { rows } = await this.store.sql.query<{ at: string }>(
      "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn AS at",
    );
    return Number(rows[0]?.at);
  }
}
