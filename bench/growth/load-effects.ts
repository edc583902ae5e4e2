import pg from 'pg';
import { DOMAIN, SINK } from '../world/names.js';
import type { ByteTemplate } from './byte-template.js';
import { GROWING_TABLES, type GrowingTable, lifeRowsOf } from './life-rows.js';
import { LifeTemplate } from './life-template.js';
import { LifeClock, type LifeValues, RandomBytes } from './life-values.js';
import { eventName, grantName, insertGrants, publishLoadedEvents } from './parents.js';
import type { LifeState, RealLife } from './real-lives.js';
import { TableWriter } from './table-writer.js';

/** What is loaded. */
export interface LoadPlan {
  readonly effects: number;
  readonly grants: number;
}

/** What a load came to, in seconds. */
export interface LoadTimes {
  readonly rows: number;
  readonly indexes: number;
  readonly all: number;
}

/** How many effects an event has at the most. */
const EFFECTS_PER_EVENT = 1_000;
/** Between two looks at whether the server keeps up. */
const LIVES_PER_TURN = 500;
/** Nonces live as long as a token that carries them could verify: those of the last lives are there, started or not. */
const LIVES_WITH_NONCES = 50_000;
const MICROS_PER_SECOND = 1_000_000;
const FENCES_PER_INCARNATION = 2 ** 40;

/**
 * What is not settled, at most: below the ceilings of a sink (UNKNOWN) and of a domain (pending), as otherwise nothing
 * could be reserved. Of each the share that a domain has which works without rest, or so many.
 */
const LIVE: readonly { readonly state: LifeState; readonly per: number; readonly most: number }[] = [
  { state: 'PREPARED', per: 50, most: 20_000 },
  { state: 'EXECUTING', per: 200, most: 2_000 },
  { state: 'UNKNOWN', per: 1_000, most: 400 },
];
/** Of those that are settled: one in so many failed, or was called off. */
const FAILED_ONE_IN = 12;
const CANCELLED_ONE_IN = 40;

/**
 * Fills the benchmark's domain with effects as the service leaves them, from templates that lived through it: rows, receipts,
 * records and the log, whose chain goes on from the head. Events are published, grants inserted; counters agree with the
 * rows. As superuser; nothing else may use the database.
 *
 * @param lives of each kind and harness, in this database
 */
export async function loadEffects(
  url: string,
  lives: readonly RealLife[],
  plan: LoadPlan,
  onProgress: (what: string) => void,
): Promise<LoadTimes> {
  const started = performance.now();
  const sql = new pg.Client({ connectionString: url });
  await sql.connect();
  try {
    const events = Math.max(8, Math.ceil(plan.effects / EFFECTS_PER_EVENT));
    const have = Math.max(...lives.map(({ harness }) => harness)) + 1;
    await insertGrants(sql, have, plan.grants);
    await publishLoadedEvents(url, have, events);
    const loader = await Loader.open(url, sql, lives, plan, events);
    await loader.makeRows(onProgress);
    const rows = performance.now();
    onProgress('making the indexes');
    await loader.makeIndexes();
    await loader.settle();
    const ended = performance.now();
    const seconds = (from: number, to: number): number => Math.round((to - from) / 100) / 10;
    return { rows: seconds(started, rows), indexes: seconds(rows, ended), all: seconds(started, ended) };
  } finally {
    await sql.end();
  }
}

class Loader {
  private seq: number;
  private fence: number;
  private chain: Buffer;
  private readonly clock: LifeClock;
  private lastSecond = 0;
  private readonly made = new Map<LifeState, number>();

  private constructor(
    private readonly sql: pg.Client,
    private readonly plan: LoadPlan,
    private readonly templates: ReadonlyMap<string, LifeTemplate>,
    private readonly harnesses: number,
    private readonly events: readonly LifeValues['event'][],
    private readonly writers: ReadonlyMap<GrowingTable, TableWriter>,
    head: HeadRow,
  ) {
    this.seq = Number(head.seq);
    this.fence = Number(head.incarnation) * FENCES_PER_INCARNATION + Number(head.fence_counter);
    this.chain = Buffer.from(head.chain_hash);
    const first = Math.floor(Number(head.last_time) / MICROS_PER_SECOND) + 1;
    // The last second is not over yet: no row is of a time to come.
    this.clock = new LifeClock(first, Math.floor(Number(head.now) / MICROS_PER_SECOND) - first, plan.effects);
  }

  static async open(url: string, sql: pg.Client, lives: readonly RealLife[], plan: LoadPlan, events: number) {
    const randomness = new RandomBytes();
    const templates = new Map<string, LifeTemplate>();
    for (const life of lives) {
      templates.set(
        `${life.harness} ${life.state}`,
        new LifeTemplate(await lifeRowsOf(sql, life), randomness),
      );
    }
    const harnesses = Math.max(...lives.map(({ harness }) => harness)) + 1;
    const { rows } = await sql.query<{ payload_digest: Buffer; provenance_digest: Buffer }>(
      'SELECT payload_digest, provenance_digest FROM events WHERE domain_id = $1 AND event_id BETWEEN $2 AND $3 ORDER BY event_id',
      [DOMAIN, eventName(0), eventName(events - 1)],
    );
    const digests = rows.map((row) => ({
      contentDigest: row.payload_digest,
      recordDigest: row.provenance_digest,
    }));
    const head = await readHead(sql);
    const writers = new Map<GrowingTable, TableWriter>();
    for (const table of GROWING_TABLES) writers.set(table, await TableWriter.open(url, table));
    return new Loader(sql, plan, templates, harnesses, digests, writers, head);
  }

  async makeRows(onProgress: (what: string) => void): Promise<void> {
    const { effects } = this.plan;
    const sink = { add: (table: GrowingTable, row: ByteTemplate) => this.writers.get(table)?.add(row) };
    const tenth = Math.ceil(effects / 10);
    for (let number = 0; number < effects; number += 1) {
      this.live(number, sink);
      if (number % tenth === tenth - 1) onProgress(`${number + 1} effects of ${effects} are made`);
      if (number % LIVES_PER_TURN === LIVES_PER_TURN - 1) {
        for (const writer of this.writers.values()) await writer.flush();
      }
    }
    await Promise.all([...this.writers.values()].map((writer) => writer.endRows()));
  }

  private live(number: number, sink: Parameters<LifeTemplate['live']>[2]): void {
    const { plan, events, harnesses } = this;
    const harness = number % harnesses;
    const state = this.stateOf(number);
    const template = this.templates.get(`${harness} ${state}`);
    if (!template) throw new Error(`no ${state} life has been lived`);
    // Neighbours in time share events and grants, of their own harness: places run in steps of all harnesses.
    const placeOf = (count: number): number =>
      Math.floor((number / plan.effects) * Math.floor(count / harnesses)) * harnesses + harness;
    const event = placeOf(events.length);
    this.fence += 1;
    const at = this.clock.at(number);
    this.chain = template.live(
      {
        number,
        eventId: eventName(event),
        grantId: grantName(placeOf(plan.grants)),
        event: events[event] as LifeValues['event'],
        firstSeq: this.seq + 1,
        fence: this.fence,
        keepsNonces: number >= plan.effects - LIVES_WITH_NONCES,
        ...at,
      },
      this.chain,
      sink,
    );
    this.seq += template.entryCount;
    this.lastSecond = at.second;
    this.made.set(state, (this.made.get(state) ?? 0) + 1);
  }

  /** What is not settled came last, as in a domain that works. */
  private stateOf(number: number): LifeState {
    const left = this.plan.effects - number;
    let before = 0;
    for (const { state, per, most } of LIVE) {
      before += Math.min(most, Math.ceil(this.plan.effects / per));
      if (left <= before) return state;
    }
    if (number % FAILED_ONE_IN === FAILED_ONE_IN - 1) return 'FAILED';
    return number % CANCELLED_ONE_IN === CANCELLED_ONE_IN - 1 ? 'CANCELLED' : 'SUCCEEDED';
  }

  async makeIndexes(): Promise<void> {
    for (const writer of this.writers.values()) await writer.finish();
  }

  /** The head and all that is counted, as the rows are. */
  async settle(): Promise<void> {
    const { sql } = this;
    const made = (state: LifeState): number => this.made.get(state) ?? 0;
    const pending = LIVE.reduce((sum, { state }) => sum + made(state), 0);
    await sql.query(
      `UPDATE domain_heads SET seq = $2, chain_hash = $3, fence_counter = $4, last_time = $5, pending = pending + $6
       WHERE domain_id = $1`,
      [
        ...[DOMAIN, this.seq, this.chain, this.fence % FENCES_PER_INCARNATION],
        ...[(this.lastSecond + 1) * MICROS_PER_SECOND, pending],
      ],
    );
    await sql.query('UPDATE sink_counters SET unknown = unknown + $3 WHERE domain_id = $1 AND sink = $2', [
      DOMAIN,
      SINK,
      made('UNKNOWN'),
    ]);
    await sql.query(
      `UPDATE grants AS g SET uses = e.uses
       FROM (SELECT grant_id, count(*) AS uses FROM effects WHERE domain_id = $1 GROUP BY grant_id) AS e
       WHERE g.domain_id = $1 AND g.grant_id = e.grant_id`,
      [DOMAIN],
    );
    await sql.query('VACUUM (ANALYZE)');
    await sql.query('CHECKPOINT');
  }
}

interface HeadRow {
  readonly seq: string;
  readonly chain_hash: Buffer;
  readonly incarnation: string;
  readonly fence_counter: string;
  readonly last_time: string;
  readonly now: string;
}

async function readHead(sql: pg.Client): Promise<HeadRow> {
  const { rows } = await sql.query<HeadRow>(
    `SELECT seq, chain_hash, incarnation, fence_counter, last_time, (SELECT surety_now()) AS now
     FROM domain_heads WHERE domain_id = $1`,
    [DOMAIN],
  );
  const [head] = rows;
  if (!head) throw new Error('the domain has no head');
  return head;
}
