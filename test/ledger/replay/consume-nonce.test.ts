import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type {
  CallerRow,
  CredentialRow,
  HarnessRow,
  OperatorRow,
  OwnerRow,
  PrincipalRow,
} from '../../../src/ledger/authority/records.js';
import type { RegistrationRow } from '../../../src/ledger/identity/records.js';
import type { ProvedRegistration } from '../../../src/ledger/identity/registration-fields.js';
import {
  consumeNonce,
  type ConsumeNonceCommand,
  NONCE_GRACE,
  NONCE_HORIZON,
} from '../../../src/ledger/replay/consume-nonce.js';
import { BUCKET, countNonce, MAX_LIVE_NONCES } from '../../../src/ledger/replay/live-nonces.js';
import { nonceKey } from '../../../src/ledger/replay/nonce-key.js';
import type { ReplayCallerRow, ReplayNonceRow } from '../../../src/ledger/replay/records.js';
import { runDecision } from '../../../src/ledger/run-decision.js';
import { HOUR, MINUTE, SECOND } from '../../../src/ledger/types.js';
import type { WorkingSet } from '../../../src/ledger/working-set.js';
import {
  caller,
  callerRow,
  credentialRow,
  HARNESS_SPIFFE_ID,
  harnessRow,
  principalRow,
} from '../../support/authority-fixture.js';
import { FIXTURE_DOMAIN, FIXTURE_NOW, workingSet } from '../../support/ledger-fixture.js';
import { proved } from '../../support/registration-fixture.js';

const KEY = nonceKey(HARNESS_SPIFFE_ID, 'webhooks', 'nonce-1');

function command(over: Partial<ConsumeNonceCommand> = {}): ConsumeNonceCommand {
  return {
    domainId: FIXTURE_DOMAIN,
    commandId: 'cmd-1',
    caller: caller(),
    kind: 'harness',
    nonceKey: KEY,
    consumptionId: 'verification-0001',
    expiresAt: FIXTURE_NOW + 5n * MINUTE,
    ...over,
  };
}

function fresh(
  input: {
    row?: CallerRow | null;
    harness?: Partial<HarnessRow>;
    principal?: Partial<PrincipalRow>;
    credential?: Partial<CredentialRow>;
    registrations?: readonly RegistrationRow[];
    /** Of the service's own domain. */
    operator?: OperatorRow;
    /** Of the domain itself. */
    own?: OperatorRow;
    owner?: OwnerRow;
    spent?: ReplayNonceRow;
    count?: ReplayCallerRow;
    now?: bigint;
    status?: 'active' | 'suspended';
  } = {},
): WorkingSet {
  const { row = callerRow(), operator, own, owner, spent, count, registrations = [] } = input;
  return workingSet({
    ...(input.now === undefined ? {} : { now: input.now }),
    domain: { status: input.status ?? 'active', revocationEpoch: 7n },
    rows: {
      callers: row ? [row] : [],
      harnesses: [harnessRow(input.harness)],
      principals: [principalRow(input.principal)],
      credentials: [credentialRow(input.credential)],
      registrations,
      operators: own ? [own] : [],
      owners: owner ? [owner] : [],
      replay_nonces: spent ? [spent] : [],
      replay_callers: count ? [count] : [],
    },
    absent: {
      callers: row ? [] : [[HARNESS_SPIFFE_ID]],
      operators: own ? [] : [[HARNESS_SPIFFE_ID]],
      owners: owner ? [] : [[HARNESS_SPIFFE_ID]],
      replay_nonces: spent ? [] : [[KEY]],
      replay_callers: count ? [] : [[HARNESS_SPIFFE_ID]],
    },
    indexes: {
      credentialsOfSpiffeId: [[HARNESS_SPIFFE_ID]],
      registrationsOfSpiffeId: [[HARNESS_SPIFFE_ID]],
    },
    platformOperators: { [HARNESS_SPIFFE_ID]: operator },
  });
}

function run(set: WorkingSet, over: Partial<ConsumeNonceCommand> = {}): unknown {
  const outcome = runDecision(set, consumeNonce, command(over));
  return outcome.ok ? outcome.reply : outcome.refusal.reason;
}

const CONSUMED = { duplicate: false, consumedAt: FIXTURE_NOW };

describe('consuming a nonce (provenance-audit-replay.md, Replay nonces)', () => {
  test('once, and appends nothing to the log', () => {
    const set = fresh();
    expect(run(set)).toEqual(CONSUMED);
    expect(set.changes().head?.seq).toBe(set.originalHead.seq);
    expect(set.changes().rows.map((row) => row.table)).not.toContain('audit_entries');
    expect(run(set, { consumptionId: 'verification-0002' })).toBe('NONCE_REPLAYED');
  });

  test('the same consumption id is answered again, with the first time', () => {
    const set = fresh();
    run(set);
    expect(run(set)).toEqual({ duplicate: true, consumedAt: FIXTURE_NOW });
    expect(run(set, { expiresAt: FIXTURE_NOW + HOUR })).toEqual({ duplicate: true, consumedAt: FIXTURE_NOW });
    expect(set.changes().rows.filter((row) => row.table === 'replay_nonces')).toHaveLength(1);
  });

  test.each([
    ['at the clock', FIXTURE_NOW, 'FIELD_INVALID'],
    ['just after it', FIXTURE_NOW + 1n, CONSUMED],
    ['at the horizon', FIXTURE_NOW + NONCE_HORIZON, CONSUMED],
    ['behind it', FIXTURE_NOW + NONCE_HORIZON + 1n, 'FIELD_INVALID'],
  ])('an expiry %s', (_, expiresAt, expected) => {
    expect(run(fresh(), { expiresAt })).toEqual(expected);
  });

  test('a row that is still there counts as spent, also when its time is over', () => {
    const spent = {
      nonceKey: KEY,
      consumptionId: 'verification-0000',
      consumedAt: FIXTURE_NOW - HOUR,
      expiresAt: FIXTURE_NOW - HOUR + SECOND,
    };
    expect(run(fresh({ spent }))).toBe('NONCE_REPLAYED');
  });

  test('the scope holds the caller: nobody burns the nonces of another', () => {
    const keys = [
      nonceKey('spiffe://acme.test/harness/a', 'scope', 'nonce'),
      nonceKey('spiffe://acme.test/harness/b', 'scope', 'nonce'),
      nonceKey('spiffe://acme.test/harness/a', 'other', 'nonce'),
      nonceKey('spiffe://acme.test/harness/a', 'scop', 'enonce'),
    ].map((key) => key.toString('hex'));
    expect(new Set(keys).size).toBe(keys.length);
  });

  describe('callers', () => {
    const operator = (over: Partial<OperatorRow> = {}): OperatorRow => ({
      spiffeId: HARNESS_SPIFFE_ID,
      signingKeyJwk: null,
      signingKeyThumbprint: null,
      roles: ['ADMIN'],
      scopeDomainId: null,
      status: 'active',
      revision: 1n,
      ...over,
    });

    const owner = (over: Partial<OwnerRow> = {}): OwnerRow => ({
      spiffeId: HARNESS_SPIFFE_ID,
      signingKeyJwk: '{}',
      signingKeyThumbprint: 'x',
      sourceScopes: ['*'],
      typeScopes: ['*'],
      status: 'active',
      revision: 1n,
      ...over,
    });

    const ROLES = {
      executor: 'effect_executor',
      reconciler: 'effect_reconciler',
      worker: 'action_worker',
    } as const;

    /** Bound to an event and a grant, in force. */
    const registration = (
      kind: keyof typeof ROLES,
      over: Partial<ProvedRegistration & RegistrationRow> = {},
    ): RegistrationRow => ({
      ...proved({ role: ROLES[kind], spiffeId: HARNESS_SPIFFE_ID, revocationEpoch: 7n }),
      status: 'active',
      firstIssuedAt: FIXTURE_NOW,
      updatedAt: FIXTURE_NOW,
      ...over,
    });

    test('a harness may while it is in force, with its owner and its credential', () => {
      expect(run(fresh())).toEqual(CONSUMED);
      expect(run(fresh({ harness: { status: 'revoked' } }))).toBe('HARNESS_INACTIVE');
      expect(run(fresh({ principal: { status: 'suspended' } }))).toBe('PRINCIPAL_INACTIVE');
      expect(run(fresh({ credential: { status: 'revoked' } }))).toBe('CREDENTIAL_INACTIVE');
      expect(run(fresh({ credential: { expiresAt: FIXTURE_NOW } }))).toBe('CREDENTIAL_OUTSIDE_VALIDITY');
    });

    test.each(['executor', 'reconciler', 'worker'] as const)(
      '%s: while any registration is in force',
      (kind) => {
        const registered = (...registrations: RegistrationRow[]) =>
          run(fresh({ row: callerRow({ kind }), registrations }), { kind });
        const revoked = registration(kind, { registrationId: 'reg-2', status: 'revoked' });
        expect(registered(revoked, registration(kind))).toEqual(CONSUMED);
        expect(registered()).toBe('WORKLOAD_NOT_CURRENT');
        expect(registered(revoked)).toBe('WORKLOAD_NOT_CURRENT');
        expect(registered(registration(kind, { expiresAt: FIXTURE_NOW }))).toBe('WORKLOAD_NOT_CURRENT');
        expect(registered(registration(kind, { revocationEpoch: 6n }))).toBe('WORKLOAD_NOT_CURRENT');
      },
    );

    test('an operator, an auditor or an owner may while it is in force', () => {
      for (const kind of ['operator', 'auditor'] as const) {
        const row = callerRow({ kind });
        expect(run(fresh({ row, own: operator() }), { kind })).toEqual(CONSUMED);
        expect(run(fresh({ row, own: operator({ status: 'suspended' }) }), { kind })).toBe('CALLER_UNKNOWN');
      }
      const row = callerRow({ kind: 'owner' });
      expect(run(fresh({ row, owner: owner() }), { kind: 'owner' })).toEqual(CONSUMED);
      expect(run(fresh({ row, owner: owner({ status: 'revoked' }) }), { kind: 'owner' })).toBe(
        'CALLER_UNKNOWN',
      );
      // Another kind by now: it was the owner's row that let it in.
      expect(run(fresh({ owner: owner() }), { kind: 'owner' })).toBe('CALLER_UNKNOWN');
    });

    test('who is nothing here may not', () => {
      for (const kind of ['harness', 'executor'] as const) {
        const row = callerRow({ kind });
        const current = { row, registrations: [registration('executor')] };
        expect(run(fresh({ ...current, row: null }), { kind })).toBe('CALLER_UNKNOWN');
        const expired = caller({ notAfter: FIXTURE_NOW });
        expect(run(fresh(current), { kind, caller: expired })).toBe('CALLER_UNKNOWN');
        const foreign = caller({ trustDomain: 'globex.test' });
        expect(run(fresh(current), { kind, caller: foreign })).toBe('CALLER_UNKNOWN');
      }
    });

    test('a platform operator may, within its scope', () => {
      const above = (over: Partial<OperatorRow> = {}) =>
        run(fresh({ row: null, operator: operator(over) }), { kind: 'operator' });
      expect(above()).toEqual(CONSUMED);
      expect(above({ scopeDomainId: FIXTURE_DOMAIN })).toEqual(CONSUMED);
      expect(above({ scopeDomainId: 'x.test' })).toBe('CALLER_UNKNOWN');
      expect(above({ status: 'revoked' })).toBe('CALLER_UNKNOWN');
    });

    test('a platform operator may, whatever the domain enters it as', () => {
      const elsewhere = { caller: caller({ trustDomain: 'globex.test' }), kind: 'operator' } as const;
      const revoked = { row: callerRow({ kind: 'owner' }), owner: owner({ status: 'revoked' }) };
      expect(run(fresh({ ...revoked, operator: operator() }), elsewhere)).toEqual(CONSUMED);
      expect(run(fresh({ row: callerRow({ kind: 'worker' }), operator: operator() }), elsewhere)).toEqual(
        CONSUMED,
      );
    });

    test('nobody in a domain that is not active', () => {
      expect(run(fresh({ status: 'suspended' }))).toBe('DOMAIN_INACTIVE');
    });
  });

  test('a caller with too many live nonces is told when the first of them leave', () => {
    const firstBucket = FIXTURE_NOW / BUCKET;
    const count = { spiffeId: HARNESS_SPIFFE_ID, firstBucket, counts: [0, MAX_LIVE_NONCES] };
    const outcome = runDecision(fresh({ count }), consumeNonce, command());
    expect(outcome).toMatchObject({
      ok: false,
      refusal: { reason: 'QUOTA_EXHAUSTED', retryAfter: (firstBucket + 2n) * BUCKET - FIXTURE_NOW },
    });
    const below = { ...count, counts: [0, MAX_LIVE_NONCES - 1] };
    expect(run(fresh({ count: below }))).toEqual(CONSUMED);
  });
});

describe('the count of live nonces', () => {
  test('never falls short of the live ones, and exceeds them by those of one step at most', () => {
    const step = fc.record({
      wait: fc.bigInt({ min: 0n, max: 30n * MINUTE }),
      life: fc.bigInt({ min: 1n, max: NONCE_HORIZON }),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        let now = FIXTURE_NOW;
        let row: ReplayCallerRow | undefined;
        const leaving: bigint[] = [];
        for (const { wait, life } of steps) {
          now += wait;
          const leavesAt = now + life + NONCE_GRACE;
          const counted = countNonce('spiffe://acme.test/x', row, leavesAt, now);
          if (!('row' in counted)) throw new Error('refused');
          row = counted.row;
          leaving.push(leavesAt);
          const total = row.counts.reduce((sum, count) => sum + count, 0);
          expect(total).toBeGreaterThanOrEqual(leaving.filter((at) => at > now).length);
          expect(total).toBeLessThanOrEqual(leaving.filter((at) => at > now - BUCKET).length);
          expect(row.counts.length).toBeLessThanOrEqual(Number((NONCE_HORIZON + NONCE_GRACE) / BUCKET) + 2);
        }
      }),
    );
  });
});
