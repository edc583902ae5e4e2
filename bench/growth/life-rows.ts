import type pg from 'pg';
import { DOMAIN } from '../world/names.js';
import type { RealLife } from './real-lives.js';
import { bytesOf, type StoredRow, storedRows, textOf } from './table-rows.js';

/** The tables that grow with each effect, in the order in which they are loaded: those with most bytes first. */
export const GROWING_TABLES = [
  'transitions',
  'audit_entries',
  'effects',
  'provenance_steps',
  'provenance_records',
  'decisions',
  'provenance_parents',
  'transition_nonces',
  'pending_work',
] as const;
export type GrowingTable = (typeof GROWING_TABLES)[number];

/** All rows that one effect has left, in the order of its life. */
export type LifeRows = Readonly<Record<GrowingTable, readonly StoredRow[]>> & {
  readonly effect: StoredRow;
  readonly decision: StoredRow;
  /** The event that it is of. */
  readonly event: StoredRow;
};

/** Reads what a life has left in the store. */
export async function lifeRowsOf(sql: pg.Client, { effectId }: RealLife): Promise<LifeRows> {
  const read = (table: GrowingTable | 'events', where: string, values: readonly unknown[]) =>
    storedRows(sql, table, `domain_id = $1 AND ${where}`, [DOMAIN, ...values]);
  const effects = await read('effects', 'effect_id = $2', [effectId]);
  const effect = only(effects);
  const decisions = await read('decisions', 'decision_id = $2', [textOf(effect, 'decision_id')]);
  const decision = only(decisions);
  const transitions = await read('transitions', 'effect_id = $2 ORDER BY step', [effectId]);
  const entries = await read('audit_entries', 'effect_id = $2 ORDER BY effect_step', [effectId]);
  const decided = await read('audit_entries', 'seq = $2', [
    bytesOf(decision, 'audit_seq').readBigInt64BE().toString(),
  ]);
  const records = await read('provenance_records', "object_type = 'tool_output' AND object_id = $2", [
    `effect-output:${effectId}`,
  ]);
  const digests = records.map((row) => bytesOf(row, 'provenance_digest'));
  const statements = transitions.map((row) => bytesOf(row, 'statement_digest'));
  return {
    effect,
    decision,
    event: only(await read('events', 'event_id = $2', [textOf(effect, 'event_id')])),
    effects,
    decisions,
    transitions,
    audit_entries: [...decided, ...entries],
    provenance_records: records,
    provenance_parents: await read('provenance_parents', 'provenance_digest = ANY ($2)', [digests]),
    provenance_steps: await read('provenance_steps', 'provenance_digest = ANY ($2)', [digests]),
    transition_nonces: await read(
      'transition_nonces',
      'statement_digest = ANY ($2::bytea[]) ORDER BY array_position($2::bytea[], statement_digest)',
      [statements],
    ),
    pending_work: await read('pending_work', 'effect_id = $2', [effectId]),
  };
}

function only(rows: readonly StoredRow[]): StoredRow {
  const [row] = rows;
  if (!row || rows.length > 1) throw new Error(`a life has ${rows.length} rows where it has one`);
  return row;
}
