import type { ActionReceiptRow, ActionRow } from '../../src/ledger/action/records.js';
import type { EffectRow } from '../../src/ledger/effect/records.js';
import { rowKey, type TableName, type Tables } from '../../src/ledger/tables.js';
import { isTerminal } from '../../src/ledger/types.js';
import type { ChangeLog, RowChange } from '../../src/ledger/working-set.js';
import { TABLES } from '../../src/store/tables.js';
import { checkAction, checkReceipt } from './action-rules.js';
import type { MemoryStore } from './memory-store.js';
import { must } from './store-rule.js';

const EDGES: ReadonlySet<string> = new Set([
  'PREPARED>EXECUTING',
  'PREPARED>CANCELLED',
  'EXECUTING>SUCCEEDED',
  'EXECUTING>FAILED',
  'EXECUTING>CANCELLED',
  'EXECUTING>UNKNOWN',
  'UNKNOWN>SUCCEEDED',
  'UNKNOWN>FAILED',
  'UNKNOWN>CANCELLED',
]);

const COME_AND_GO: ReadonlySet<TableName> = new Set(['pending_work', 'transition_nonces', 'replay_nonces']);

/** The rules that the schema keeps by itself, said once more and apart from it (0001_initial.sql). */
export function checkChange(store: MemoryStore, change: RowChange, batch: ChangeLog): void {
  const { table, before, after } = change;
  if (!after) {
    must(COME_AND_GO.has(table) || isArchived(change, batch), `${table} loses no row`);
    return;
  }
  if (before) checkMutable(table, before, after);
  else must(store.get(table, ...keyOf(table, after)) === undefined, `${table} has the key already`);
  if (table === 'effect_tombstones') checkTombstone(after as Tables['effect_tombstones'], batch);
  if (table === 'effects') checkEffect(store, before as EffectRow | undefined, after as EffectRow, batch);
  if (table === 'actions') checkAction(store, before as ActionRow | undefined, after as ActionRow, batch);
  if (table === 'action_receipts') checkReceipt(store, after as ActionReceiptRow, batch);
  if (table === 'grants') {
    const [old, next] = [before, after] as [Tables['grants'] | undefined, Tables['grants']];
    must(next.uses <= next.maxUses, 'a grant has no more uses than it has');
    must(!old || next.uses >= old.uses, 'a use is never given back');
    must(
      !old || old.revokedAt === null || old.revokedAt === next.revokedAt,
      'a revocation is never taken back',
    );
  }
  if (table === 'audit_entries') {
    const { seq } = after as Tables['audit_entries'];
    must(seq > store.head.seq && seq <= (batch.head?.seq ?? 0n), 'the log grows at its end');
  }
}

/** An effect and its receipts leave behind their tombstone. */
function isArchived({ table, before }: RowChange, batch: ChangeLog): boolean {
  if (table !== 'effects' && table !== 'transitions') return false;
  const { effectId } = before as EffectRow;
  return batch.rows.some(
    ({ table: other, after }) =>
      other === 'effect_tombstones' && (after as EffectRow | undefined)?.effectId === effectId,
  );
}

function checkTombstone(tombstone: Tables['effect_tombstones'], batch: ChangeLog): void {
  const gone = batch.rows.find(
    ({ table, before, after }) =>
      table === 'effects' && !after && (before as EffectRow | undefined)?.effectId === tombstone.effectId,
  )?.before as EffectRow | undefined;
  must(gone !== undefined, 'an effect lives or has a tombstone');
  must(isTerminal(gone.state) && !gone.disputed, 'what is archived is settled');
  must(gone.step === tombstone.step && gone.fence === tombstone.fence, 'a tombstone is of its effect');
  must(!tombstone.holdsKey || tombstone.state === 'SUCCEEDED', 'only what was done holds its key for ever');
}

function checkMutable(table: TableName, before: Tables[TableName], after: Tables[TableName]): void {
  const { mutable } = TABLES[table] as { mutable: readonly string[] };
  must(mutable.length > 0, `${table} is never changed`);
  for (const [field, value] of Object.entries(before)) {
    if (mutable.includes(field)) continue;
    must(value === after[field as keyof typeof after], `${table}.${field} never changes`);
  }
}

function checkEffect(
  store: MemoryStore,
  before: EffectRow | undefined,
  after: EffectRow,
  batch: ChangeLog,
): void {
  if (!before) {
    must(after.state === 'PREPARED' && after.step === 1n, 'an effect begins as PREPARED');
    must(store.find('effectOfIdentity', after.identityDigest).length === 0, 'an identity is reserved once');
    must(store.find('tombstoneOfIdentity', after.identityDigest).length === 0, 'once, for ever');
  } else {
    must(after.step === before.step + 1n, 'an effect goes one step at a time');
    const edge = `${before.state}>${after.state}`;
    must(before.state === after.state || EDGES.has(edge), `no edge ${edge}`);
    must(
      before.state !== after.state || after.lateEvidenceCount === before.lateEvidenceCount + 1,
      'a state is kept',
    );
    must(before.attemptId === null || before.attemptId === after.attemptId, 'an attempt never changes');
  }
  const live = !isTerminal(after.state);
  must(after.holdsKey || !live, 'a live effect holds its key');
  must(after.holdsKey || after.repeatable || after.state !== 'SUCCEEDED', 'what was done holds its key');
  must(
    !after.holdsKey || after.disputed || live || after.state === 'SUCCEEDED',
    'what was not done frees its key',
  );
  must(live || after.disputed || after.lateEvidenceCount < 8, 'the last place is for a contradiction');
  if (after.holdsKey) checkHolder(store, after, batch);
}

/** The partial unique index on (sink, key) where an effect holds it. */
function checkHolder(store: MemoryStore, effect: EffectRow, batch: ChangeLog): void {
  const others = [
    ...store.find('keyHolder', effect.sink, effect.keyDigest),
    ...batch.rows.flatMap(({ table, after }) => (table === 'effects' && after ? [after as EffectRow] : [])),
  ].filter((other) => {
    const now = batch.rows.find(
      ({ table, after }) =>
        table === 'effects' && (after as EffectRow | undefined)?.effectId === other.effectId,
    )?.after as EffectRow | undefined;
    const current = now ?? other;
    return (
      current.effectId !== effect.effectId &&
      current.holdsKey &&
      current.sink === effect.sink &&
      current.keyDigest.equals(effect.keyDigest)
    );
  });
  must(others.length === 0, 'a key has one holder');
  const archived = store.find('keyArchived', effect.sink, effect.keyDigest);
  must(!archived.some(({ holdsKey }) => holdsKey), 'an archived holder keeps its key');
}

function keyOf(table: TableName, row: Tables[TableName]): string[] {
  return [rowKey(table, row)];
}
