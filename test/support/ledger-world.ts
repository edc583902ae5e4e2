import { harnessActor } from '../../src/ledger/admission/admit-call.js';
import { DEFAULT_LIMITS, DEFAULT_SERVICE_REQUESTS_PER_MINUTE } from '../../src/ledger/admission/limits.js';
import { genesisHash } from '../../src/ledger/audit/chain.js';
import type { AuditFields, DomainHead } from '../../src/ledger/audit/records.js';
import type { DomainRow, OperatorRow } from '../../src/ledger/authority/records.js';
import type { CommandBase, Decision, Outcome } from '../../src/ledger/decision.js';
import { INDEXES, type IndexName } from '../../src/ledger/indexes.js';
import type { Reads } from '../../src/ledger/reads.js';
import { runDecision } from '../../src/ledger/run-decision.js';
import { type KeyPart, rowKey, type TableName, type Tables } from '../../src/ledger/tables.js';
import type { WorkingSet } from '../../src/ledger/working-set.js';
import {
  decodeJsonEntry,
  FIXTURE_DOMAIN,
  FIXTURE_NOW,
  FIXTURE_SERVICE_DOMAIN,
  workingSet,
} from './ledger-fixture.js';

/** Rows by table; what a decision accepted stays, so that the next one builds on it. */
type Rows = Partial<{ [T in TableName]: Tables[T][] }>;

/**
 * One domain in memory, that runs decisions one by one as a lane would: a fresh working set with exactly the rows that the
 * decision names, and afterwards its changes. Whatever a decision reads without naming it throws.
 */
export class LedgerWorld {
  domainId = FIXTURE_DOMAIN;
  now = FIXTURE_NOW;
  incarnation = 1n;
  domain: DomainRow = {
    status: 'active',
    policyRevision: 1n,
    revocationEpoch: 1n,
    frozen: false,
    freezeReason: null,
    allowStanding: false,
    limits: DEFAULT_LIMITS,
    revision: 1n,
    createdAt: 0n,
  };
  head: DomainHead | undefined;
  readonly platformOperators = new Map<string, OperatorRow>();
  readonly otherDomains = new Set<string>();
  /** The service's limit, and the sum of the shares of the other domains. */
  serviceLimit = DEFAULT_SERVICE_REQUESTS_PER_MINUTE;
  othersShares = 0;
  readonly rows: Rows = {};

  /** Puts rows there. */
  add<T extends TableName>(table: T, ...rows: Tables[T][]): this {
    for (const row of rows) this.replace(table, row, undefined);
    return this;
  }

  /** The row of a table whose fields have these values, the first one. */
  find<T extends TableName>(table: T, fields: Partial<Tables[T]> = {}): Tables[T] | undefined {
    return this.all(table).find((row) =>
      Object.entries(fields).every(([name, value]) => row[name as keyof Tables[T]] === value),
    );
  }

  all<T extends TableName>(table: T): readonly Tables[T][] {
    return this.rows[table] ?? [];
  }

  /** The entries of the log, as they were written. */
  get log(): AuditFields[] {
    return this.all('audit_entries').map((row) => decodeJsonEntry(row.entry));
  }

  run<Command extends CommandBase, Reply>(
    decision: Decision<Command, Reply>,
    command: Command,
  ): Outcome<Reply> {
    const set = this.gather(decision.reads(command));
    const outcome = runDecision(set, decision, command);
    const changes = set.changes();
    for (const { table, before, after } of changes.rows) this.replace(table, after, before);
    this.head = changes.head ?? this.head;
    this.domain = changes.domain ?? this.domain;
    for (const { domainId } of changes.createdDomains) this.otherDomains.add(domainId);
    this.serviceLimit = changes.serviceLimit ?? this.serviceLimit;
    return outcome;
  }

  gather(reads: Reads): WorkingSet {
    const set = workingSet({
      domainId: this.domainId,
      now: this.now,
      incarnation: this.incarnation,
      domain: this.domain,
      head: this.head ?? { chainHash: genesisHash(this.domainId) },
      platformOperators: Object.fromEntries(
        (reads.platformOperators ?? []).map((id) => [id, this.platformOperator(id)]),
      ),
      otherDomains: Object.fromEntries(
        (reads.otherDomains ?? []).map((id) => [id, this.otherDomains.has(id)]),
      ),
    });
    this.gatherRecords(set, reads);
    this.gatherIndexes(set, reads);
    if (reads.shares) set.loadShares({ service: this.serviceLimit, others: this.othersShares });
    return set;
  }

  private platformOperator(spiffeId: string): OperatorRow | undefined {
    return this.domainId === FIXTURE_SERVICE_DOMAIN
      ? this.find('operators', { spiffeId })
      : this.platformOperators.get(spiffeId);
  }

  private gatherRecords(set: WorkingSet, reads: Reads): void {
    const tables: readonly (readonly [TableName, readonly string[] | undefined])[] = [
      ['callers', [...(reads.callers ?? []), ...(reads.callerHarness ?? [])]],
      ['principals', reads.principals],
      ['guests', reads.guests],
      ['credentials', reads.credentials],
      ['sinks', reads.sinks],
      ['sink_counters', reads.sinks],
      ['actor_counters', reads.actorCounters],
      ['grants', reads.grants],
      ['entitlements', reads.entitlementsById],
      ['operators', reads.operators],
      ['owners', reads.owners],
      ['admin_commands', reads.adminCommands],
      ['gate_shapes', reads.gateShapes],
      ['action_conditions', reads.actionConditions],
      ['tools', reads.tools],
      ['registrations', reads.registrations],
      ['proof_keys', reads.proofKeys],
      ['events', reads.events],
      ['harnesses', reads.harnesses],
    ];
    for (const [table, keys] of tables) for (const key of keys ?? []) this.load(set, table, key);
    for (const spiffeId of reads.callerHarness ?? []) {
      const row = this.find('callers', { spiffeId });
      if (row?.kind === 'harness') {
        this.loadHarness(set, row.refId);
        this.load(set, 'actor_counters', harnessActor(row.refId));
      }
      this.loadIndex(set, 'credentialsOfSpiffeId', [spiffeId]);
    }
    for (const harnessId of reads.harnesses ?? []) this.loadHarness(set, harnessId);
  }

  private gatherIndexes(set: WorkingSet, reads: Reads): void {
    for (const { principalId, action, resource } of reads.entitlements ?? []) {
      this.loadIndex(set, 'entitlementsOf', [principalId, action, resource]);
      this.loadIndex(set, 'entitlementsOf', [principalId, action, '*']);
    }
    for (const key of reads.allGateShapes ?? []) this.loadIndex(set, 'shapesOfDomain', [key]);
    for (const key of reads.keyHolders ?? []) this.loadIndex(set, 'versionsWithKey', [key]);
    for (const key of reads.denials ?? []) this.loadIndex(set, 'denialsOf', [key]);
    for (const { eventId, grantId } of reads.unsettled ?? []) {
      this.loadIndex(set, 'unsettledOf', [eventId, grantId]);
    }
  }

  private loadHarness(set: WorkingSet, harnessId: string): void {
    this.load(set, 'harnesses', harnessId);
    const harness = this.find('harnesses', { harnessId });
    if (harness) this.load(set, harness.ownerKind === 'principal' ? 'principals' : 'guests', harness.ownerId);
  }

  private load(set: WorkingSet, table: TableName, key: string): void {
    for (const row of this.all(table)) if (rowKey(table, row) === key) set.loadRow(table, row);
    set.markKey(table, [key]);
  }

  private loadIndex(set: WorkingSet, name: IndexName, key: readonly KeyPart[]): void {
    const { table, keyOf } = INDEXES[name];
    set.markIndex(name, key);
    const wanted = key.map((part) => (part instanceof Uint8Array ? Buffer.from(part).toString('hex') : part));
    for (const row of this.all(table)) {
      const found = (keyOf as (row: object) => string | undefined)(row);
      if (found === wanted.join('\0')) set.loadIndexed(name, key, row);
    }
  }

  private replace(
    table: TableName,
    after: Tables[TableName] | undefined,
    before: Tables[TableName] | undefined,
  ) {
    const rows = ((this.rows as Record<TableName, Tables[TableName][]>)[table] ??= []);
    const key = rowKey(table, (after ?? before) as Tables[TableName]);
    const index = rows.findIndex((row) => rowKey(table, row) === key);
    if (index >= 0) rows.splice(index, 1);
    if (after) rows.push(after);
  }
}
