import { describe, expect, test } from 'vitest';
import { sha256 } from '../../../src/ledger/encoding.js';
import {
  registerOrigin,
  type RegisterOriginCommand,
  type RegisterOriginReply,
} from '../../../src/ledger/provenance/register-origin.js';
import { runDecision } from '../../../src/ledger/run-decision.js';
import type { OperatorRow } from '../../../src/ledger/authority/records.js';
import { MINUTE } from '../../../src/ledger/types.js';
import type { WorkingSet } from '../../../src/ledger/working-set.js';
import { caller, HARNESS_ID, harnessRow, principalRow } from '../../support/authority-fixture.js';
import {
  decodeJsonEntry,
  FIXTURE_DOMAIN,
  FIXTURE_NOW,
  FIXTURE_SERVICE_DOMAIN,
  workingSet,
} from '../../support/ledger-fixture.js';
import { origin, setWithHarness } from './provenance-fixture.js';

function command(over: Partial<RegisterOriginCommand> = {}): RegisterOriginCommand {
  return {
    domainId: FIXTURE_DOMAIN,
    commandId: 'cmd-1',
    caller: caller(),
    as: 'harness',
    objectType: 'artifact',
    objectId: 'invoice-7',
    version: 1n,
    predecessorDigest: null,
    contentDigest: sha256('invoice'),
    classification: 2,
    allowedSinks: ['bank', 'mail'],
    origin: origin(),
    ...over,
  };
}

const VERSIONS = [1n, 2n, 3n].map((version) => ['artifact', 'invoice-7', version] as const);
const absent = { provenance_records: VERSIONS };

function run(set: WorkingSet, over: Partial<RegisterOriginCommand> = {}): RegisterOriginReply {
  const outcome = runDecision(set, registerOrigin, command(over));
  if (!outcome.ok) throw new Error(outcome.refusal.reason);
  // What another gathering would have found of the new record.
  set.markIndex('stepsOfRecord', [outcome.reply.record.provenanceDigest]);
  set.markIndex('parentsOfRecord', [outcome.reply.record.provenanceDigest]);
  return outcome.reply;
}

function reason(set: WorkingSet, over: Partial<RegisterOriginCommand>): string {
  const outcome = runDecision(set, registerOrigin, command(over));
  return outcome.ok ? 'accepted' : outcome.refusal.reason;
}

describe('registering an origin (provenance-audit-replay.md, Provenance)', () => {
  test('starts tainted, unreviewed, scan pending, under the current policy revision, with one audit entry', () => {
    const set = setWithHarness({ absent, domain: { policyRevision: 4n } });
    const { record, duplicate } = run(set);
    expect(duplicate).toBe(false);
    expect(record).toMatchObject({ tainted: true, reviewed: false, scanPending: true, policyRevision: 4n });
    const entries = set
      .changes()
      .rows.filter((row) => row.table === 'audit_entries')
      .map((row) => decodeJsonEntry((row.after as { entry: Buffer }).entry));
    expect(entries).toHaveLength(1);
    expect(entries[0]).toMatchObject({
      kind: 'provenance',
      actorSpiffeId: caller().spiffeId,
      record: { type: 'provenance', id: 'artifact/invoice-7', operation: 'register_origin' },
    });
  });

  test('an exact repeat is a duplicate and writes nothing, also under a later policy revision', () => {
    const set = setWithHarness({ absent });
    const first = run(set);
    const again = run(set);
    expect(again).toEqual({ record: first.record, duplicate: true });
    expect(set.head.seq).toBe(1n);
    const { provenanceDigest } = first.record;
    const later = setWithHarness({
      domain: { policyRevision: 9n },
      rows: { provenance_records: [first.record] },
      indexes: { stepsOfRecord: [[provenanceDigest]], parentsOfRecord: [[provenanceDigest]] },
    });
    expect(run(later)).toEqual({ record: first.record, duplicate: true });
  });

  test.each<[string, Partial<RegisterOriginCommand>]>([
    ['content', { contentDigest: sha256('x') }],
    ['class', { classification: 1 }],
    ['sinks', { allowedSinks: ['bank'] }],
    ['source', { origin: origin({ sourceId: 'mailbox:other' }) }],
    ['source digest', { origin: origin({ sourceDigest: sha256('x') }) }],
    ['kind', { origin: origin({ kind: 'artifact' }) }],
    ['time', { origin: origin({ observedAt: FIXTURE_NOW - 2n * MINUTE }) }],
  ])('the same version with another %s is a conflict', (_, over) => {
    const set = setWithHarness({ absent });
    run(set);
    expect(reason(set, over)).toBe('PROVENANCE_CONFLICT');
  });

  describe('versions', () => {
    test('the next version names its exact predecessor', () => {
      const set = setWithHarness({ absent });
      const first = run(set).record;
      const second = run(set, { version: 2n, predecessorDigest: first.provenanceDigest }).record;
      expect(second.predecessorDigest).toEqual(first.provenanceDigest);
      expect(reason(set, { version: 3n, predecessorDigest: first.provenanceDigest })).toBe(
        'PROVENANCE_CONFLICT',
      );
    });

    test('a version without the one before it is refused', () => {
      const set = setWithHarness({ absent });
      expect(reason(set, { version: 3n, predecessorDigest: sha256('x') })).toBe('RECORD_MISSING');
    });

    test.each<[string, Partial<RegisterOriginCommand>]>([
      ['a predecessor at version 1', { predecessorDigest: sha256('x') }],
      ['none at version 2', { version: 2n }],
    ])('%s is malformed', (_, over) => {
      expect(reason(setWithHarness({ absent }), over)).toBe('FIELD_INVALID');
    });
  });

  test('`*` stands alone', () => {
    expect(reason(setWithHarness({ absent }), { allowedSinks: ['*', 'bank'] })).toBe('FIELD_INVALID');
    expect(reason(setWithHarness({ absent }), { allowedSinks: ['*'] })).toBe('accepted');
  });

  test("nobody registers under the service's own names", () => {
    const key = ['tool_output', 'effect-output:eff-1', 1n] as const;
    const set = setWithHarness({ absent: { provenance_records: [key] } });
    expect(reason(set, { objectType: 'tool_output', objectId: 'effect-output:eff-1' })).toBe('FIELD_INVALID');
  });

  test('an observation may be a minute ahead and no more', () => {
    const at = (observedAt: bigint) => reason(setWithHarness({ absent }), { origin: origin({ observedAt }) });
    expect(at(FIXTURE_NOW + MINUTE)).toBe('accepted');
    expect(at(FIXTURE_NOW + MINUTE + 1n)).toBe('EVIDENCE_TIME_OUTSIDE_WINDOW');
  });

  describe('only human input names a principal, and then names principal and harness', () => {
    const human = { kind: 'human_input', principalId: 'paula', harnessId: HARNESS_ID } as const;
    test.each<[string, object, string]>([
      ['both', human, 'accepted'],
      ['no harness', { ...human, harnessId: null }, 'FIELD_INVALID'],
      ['no principal', { ...human, principalId: null }, 'FIELD_INVALID'],
      ['another kind with a principal', { ...human, kind: 'system' }, 'FIELD_INVALID'],
      ["another principal's words", { ...human, principalId: 'peter' }, 'PRINCIPAL_UNBOUND'],
      ['another harness', { ...human, harnessId: 'other' }, 'HARNESS_MISSING'],
    ])('%s', (_, fields, expected) => {
      expect(reason(setWithHarness({ absent }), { origin: origin(fields) })).toBe(expected);
    });
  });

  test('a caller that is no current harness is refused before anything is told', () => {
    const set = setWithHarness({ absent });
    run(set);
    const expired = { ...caller(), notAfter: FIXTURE_NOW };
    expect(reason(set, { caller: expired })).toBe('CALLER_UNKNOWN');
    expect(reason(set, { caller: expired, contentDigest: sha256('x') })).toBe('CALLER_UNKNOWN');
  });

  describe('operators', () => {
    const operator = caller({
      spiffeId: 'spiffe://surety.test/operator/root',
      trustDomain: FIXTURE_SERVICE_DOMAIN,
    });
    const row = (over: Partial<OperatorRow> = {}): OperatorRow => ({
      spiffeId: operator.spiffeId,
      signingKeyJwk: null,
      signingKeyThumbprint: null,
      roles: ['ADMIN'],
      scopeDomainId: null,
      status: 'active',
      revision: 1n,
      ...over,
    });
    const as = (own: OperatorRow | undefined, platform: OperatorRow | undefined, over = {}) =>
      reason(
        workingSet({
          rows: { operators: own ? [own] : [], harnesses: [harnessRow()], principals: [principalRow()] },
          absent: { ...absent, operators: own ? [] : [[operator.spiffeId]] },
          platformOperators: { [operator.spiffeId]: platform },
          ...over,
        }),
        {
          as: 'operator',
          caller: operator,
          origin: origin({ kind: 'human_input', principalId: 'paula', harnessId: HARNESS_ID }),
        },
      );

    test('of the domain or the platform may', () => {
      expect(as(row(), undefined)).toBe('accepted');
      expect(as(undefined, row())).toBe('accepted');
      expect(as(undefined, row({ scopeDomainId: FIXTURE_DOMAIN }))).toBe('accepted');
    });

    test('others learn nothing', () => {
      expect(as(undefined, undefined)).toBe('NOT_VISIBLE');
      expect(as(undefined, row({ scopeDomainId: 'globex.test' }))).toBe('NOT_VISIBLE');
      expect(as(row({ status: 'revoked' }), undefined)).toBe('NOT_VISIBLE');
      expect(as(row({ roles: ['AUDITOR'] }), undefined)).toBe('NOT_VISIBLE');
    });

    test('not in a domain that is not active', () => {
      expect(as(row(), undefined, { domain: { status: 'suspended' } })).toBe('DOMAIN_INACTIVE');
    });
  });

  test('a predecessor that was changed is named', () => {
    const set = setWithHarness({ absent });
    const first = run(set).record;
    const changed = setWithHarness({
      absent: { provenance_records: VERSIONS.slice(1) },
      rows: { provenance_records: [{ ...first, classification: 1 }] },
      indexes: { stepsOfRecord: [[first.provenanceDigest]], parentsOfRecord: [[first.provenanceDigest]] },
    });
    const outcome = runDecision(
      changed,
      registerOrigin,
      command({ version: 2n, predecessorDigest: first.provenanceDigest }),
    );
    expect(outcome).toMatchObject({
      ok: false,
      refusal: { reason: 'DATA_CORRUPT', metadata: { record: 'provenance:artifact/invoice-7/1' } },
    });
  });
});
