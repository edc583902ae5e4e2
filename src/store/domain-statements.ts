import { NO_COUNTS } from '../ledger/admission/records.js';
import { genesisHash } from '../ledger/audit/chain.js';
import type { DomainHead } from '../ledger/audit/records.js';
import type { DomainRow } from '../ledger/authority/records.js';
import type { Micros } from '../ledger/types.js';
import type { ChangeLog } from '../ledger/working-set.js';
import type { Statement } from './connection.js';
import { counted } from './counted.js';
import type { ColumnType } from './table-spec.js';
import { encodeValue } from './row-codec.js';

/** What of a domain's row a command may change: column, type, value. */
type Field = readonly [column: string, type: ColumnType, value: unknown];

/** The statements that write what a batch made of the domain itself, its head and its counters. */
export function domainStatements(domainId: string, changes: ChangeLog): Statement[] {
  const statements: Statement[] = [];
  if (changes.domain) statements.push(update('domains', domainId, domainFields(changes.domain)));
  if (changes.serviceLimit !== undefined) statements.push(updateServiceLimit(changes.serviceLimit));
  for (const created of changes.createdDomains) {
    statements.push(
      insertDomain(created.domainId, created.row),
      insertHead(created.domainId, created.row.createdAt),
    );
  }
  if (changes.head) statements.push(update('domain_heads', domainId, headFields(changes.head)));
  return statements;
}

/** A domain's row. */
export function insertDomain(domainId: string, row: DomainRow): Statement {
  return insert('domains', domainId, [...domainFields(row), ['created_at', 'int8', row.createdAt]]);
}

/** The head of a domain whose log is still empty. */
export function insertHead(domainId: string, now: Micros): Statement {
  return insert(
    'domain_heads',
    domainId,
    headFields({
      seq: 0n,
      chainHash: genesisHash(domainId),
      incarnation: 0n,
      fenceCounter: 0n,
      lastTime: now,
      counters: NO_COUNTS,
    }),
  );
}

function domainFields(row: DomainRow): Field[] {
  const { limits } = row;
  return [
    ['status', 'text', row.status],
    ['policy_revision', 'int8', row.policyRevision],
    ['revocation_epoch', 'int8', row.revocationEpoch],
    ['frozen', 'bool', row.frozen],
    ['freeze_reason', 'text', row.freezeReason],
    ['allow_standing', 'bool', row.allowStanding],
    ['requests_per_minute', 'int4', limits.requestsPerMinute],
    ['actor_requests_per_minute', 'int4', limits.actorRequestsPerMinute],
    ['pending_ceiling', 'int4', limits.pendingCeiling],
    ['fairness_burst', 'int4', limits.fairnessBurst],
    ['max_hops', 'int4', limits.maxHops],
    ['revision', 'int8', row.revision],
  ];
}

function headFields(head: DomainHead): Field[] {
  const { counters } = head;
  return [
    ['seq', 'int8', head.seq],
    ['chain_hash', 'bytea', head.chainHash],
    ['incarnation', 'int8', head.incarnation],
    ['fence_counter', 'int8', head.fenceCounter],
    ['last_time', 'int8', head.lastTime],
    ['minute_start', 'int8', counters.minuteStart],
    ['calls', 'int4', counters.calls],
    ['safety_calls', 'int4', counters.safetyCalls],
    ['pending', 'int4', counters.pending],
    ['window_start', 'int8', counters.windowStart],
    ['served_calls', 'int4[]', counters.served.map(({ calls }) => calls)],
    ['served_actors', 'int4[]', counters.served.map(({ actors }) => actors)],
  ];
}

function update(table: 'domains' | 'domain_heads', domainId: string, fields: readonly Field[]): Statement {
  const sets = fields.map(([column], i) => `${column} = $${i + 2}`).join(', ');
  return {
    name: `update_${table}`,
    text: counted(`UPDATE ${table} SET ${sets} WHERE domain_id = $1`, '1'),
    values: [domainId, ...fields.map(([, type, value]) => encodeValue(type, value))],
  };
}

function insert(table: 'domains' | 'domain_heads', domainId: string, fields: readonly Field[]): Statement {
  const columns = fields.map(([column]) => column).join(', ');
  const places = fields.map((_, i) => `$${i + 2}`).join(', ');
  return {
    text: `INSERT INTO ${table} (domain_id, ${columns}) VALUES ($1, ${places})`,
    values: [domainId, ...fields.map(([, type, value]) => encodeValue(type, value))],
  };
}

function updateServiceLimit(limit: number): Statement {
  return {
    text: counted('UPDATE service_state SET requests_per_minute = $1', '1'),
    values: [encodeValue('int4', limit)],
  };
}
