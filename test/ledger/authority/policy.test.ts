import { describe, expect, it } from 'vitest';
import { decidePolicy } from '../../../src/ledger/authority/policy.js';
import type { PolicyQuestion } from '../../../src/ledger/authority/policy-question.js';
import type {
  CallerRow,
  CredentialRow,
  DomainRow,
  EntitlementRow,
  GrantRow,
  GuestRow,
  HarnessRow,
  PrincipalRow,
} from '../../../src/ledger/authority/records.js';
import { sha256 } from '../../../src/ledger/encoding.js';
import type { Reason } from '../../../src/ledger/refusal.js';
import { Refused } from '../../../src/ledger/run-decision.js';
import { DAY } from '../../../src/ledger/types.js';
import { Draft } from '../../../src/ledger/working-set.js';
import {
  caller,
  callerRow,
  credentialRow,
  entitlementRow,
  grantRow,
  guestRow,
  HARNESS_SPIFFE_ID,
  harnessRow,
  principalRow,
} from '../../support/authority-fixture.js';
import { FIXTURE_NOW, workingSet } from '../../support/ledger-fixture.js';

/** What differs from the case that is allowed. Null: the row is absent. */
interface World {
  domain?: Partial<DomainRow>;
  caller?: Partial<CallerRow> | null;
  harness?: Partial<HarnessRow> | null;
  principal?: Partial<PrincipalRow> | null;
  guest?: Partial<GuestRow> | null;
  credential?: Partial<CredentialRow> | null;
  entitlements?: readonly EntitlementRow[];
  grant?: Partial<GrantRow> | null;
  question?: Partial<PolicyQuestion>;
}

function question(over: Partial<PolicyQuestion> = {}): PolicyQuestion {
  return {
    caller: caller(),
    action: 'payment.refund',
    resource: 'order-1184',
    inputSource: 'tickets',
    outputSink: 'bank',
    dataClass: 2,
    requestDigest: sha256('request'),
    eventId: 'event-1',
    grantId: 'grant-1',
    protectedOperation: true,
    ...over,
  };
}

function one<Row>(make: (over: Partial<Row>) => Row, over: Partial<Row> | null | undefined): Row[] {
  return over === null ? [] : [make(over ?? {})];
}

function decide(world: World = {}) {
  const set = workingSet({
    domain: world.domain ?? {},
    rows: {
      callers: one(callerRow, world.caller),
      harnesses: one(harnessRow, world.harness),
      principals: one(principalRow, world.principal),
      guests: one(guestRow, world.guest),
      credentials: one(credentialRow, world.credential),
      entitlements: world.entitlements ?? [entitlementRow()],
      grants: one(grantRow, world.grant),
    },
    absent: {
      callers: [[HARNESS_SPIFFE_ID]],
      harnesses: [['planner']],
      principals: [['paula']],
      guests: [['gus']],
      grants: [['grant-1']],
    },
    indexes: {
      credentialsOfSpiffeId: [[HARNESS_SPIFFE_ID]],
      entitlementsOf: [
        ['paula', 'payment.refund', 'order-1184'],
        ['paula', 'payment.refund', '*'],
      ],
    },
  });
  return decidePolicy(new Draft(set), question(world.question));
}

function reasonOf(world: World): Reason | 'ALLOWED' {
  try {
    const verdict = decide(world);
    return verdict.allowed ? 'ALLOWED' : verdict.refusal.reason;
  } catch (error) {
    if (error instanceof Refused) return error.refusal.reason;
    throw error;
  }
}

const guest: World = {
  harness: { ownerKind: 'guest', ownerId: 'gus' },
  grant: { actorKind: 'guest', actorId: 'gus' },
  entitlements: [],
};
const past = FIXTURE_NOW;

/** In the order of authority.md, Deciding. */
const denials: readonly (readonly [Reason, World])[] = [
  ['DOMAIN_INACTIVE', { domain: { status: 'suspended' } }],
  ['POLICY_REVISION_STALE', { question: { policyRevision: 2n } }],
  ['CALLER_UNKNOWN', { caller: null }],
  ['CALLER_UNKNOWN', { question: { caller: caller({ trustDomain: 'globex.test' }) } }],
  ['CALLER_UNKNOWN', { question: { caller: caller({ notAfter: past }) } }],
  ['CALLER_KIND_WITHOUT_AUTHORITY', { caller: { kind: 'executor' } }],
  ['HARNESS_MISSING', { harness: null }],
  ['HARNESS_INACTIVE', { harness: { status: 'suspended' } }],
  ['HARNESS_ASSURANCE_MISMATCH', { question: { expectation: { assurance: 'weak' } } }],
  ['CREDENTIAL_EPOCH_STALE', { question: { expectation: { credentialEpoch: 2n } } }],
  ['PRINCIPAL_MISSING', { principal: null }],
  ['PRINCIPAL_INACTIVE', { principal: { status: 'suspended' } }],
  ['GUEST_MISSING', { ...guest, guest: null }],
  ['GUEST_INACTIVE', { ...guest, guest: { status: 'revoked' } }],
  ['GUEST_EXPIRED', { ...guest, guest: { expiresAt: past } }],
  ['CREDENTIAL_MISSING', { credential: null }],
  ['CREDENTIAL_MISSING', { credential: { credentialEpoch: 2n } }],
  ['CREDENTIAL_MISSING', { credential: { harnessId: 'other' } }],
  ['CREDENTIAL_UNBOUND', { credential: { binding: 'certificate', certificateDigest: sha256('other') } }],
  ['CREDENTIAL_INACTIVE', { credential: { status: 'revoked' } }],
  ['CREDENTIAL_OUTSIDE_VALIDITY', { credential: { expiresAt: past } }],
  ['CREDENTIAL_OUTSIDE_VALIDITY', { credential: { notBefore: FIXTURE_NOW + 1n } }],
  ['ELIGIBILITY_DENIED', { question: { eligibilityDenials: ['off_duty'] } }],
  ['ENTITLEMENT_MISSING', { entitlements: [] }],
  ['ENTITLEMENT_MISSING', { entitlements: [entitlementRow({ resource: 'order-11' })] }],
  ['ENTITLEMENT_STALE', { entitlements: [entitlementRow({ policyRevision: 2n })] }],
  ['ENTITLEMENT_STALE', { entitlements: [entitlementRow({ expiresAt: past })] }],
  ['ENTITLEMENT_STALE', { entitlements: [entitlementRow({ revokedAt: past })] }],
  ['GRANT_MISSING', { grant: null }],
  ['GRANT_BINDING_STALE', { grant: { policyRevision: 2n } }],
  ['GRANT_BINDING_STALE', { grant: { credentialEpoch: 2n } }],
  ['GRANT_INCONSISTENT', { grant: { inputSources: [] } }],
  ['GRANT_INCONSISTENT', { grant: { dataClasses: [] } }],
  ['GRANT_INCONSISTENT', { grant: { resources: ['*'] } }],
  ['GRANT_INCONSISTENT', { grant: { uses: 2n } }],
  ['GRANT_FOREIGN', { grant: { harnessId: 'other', credentialEpoch: 7n } }],
  ['GRANT_FOREIGN', { grant: { actorId: 'paul' } }],
  ['GRANT_FOREIGN', { grant: { actorKind: 'guest' } }],
  ['GRANT_REVOKED', { grant: { revokedAt: past } }],
  ['GRANT_EXPIRED', { grant: { expiresAt: past } }],
  ['GRANT_EXHAUSTED', { grant: { uses: 1n } }],
  ['GRANT_ACTION_NOT_COVERED', { grant: { actions: ['payment.refunds'] } }],
  ['GRANT_RESOURCE_NOT_COVERED', { grant: { resources: ['order-118'] } }],
  ['GRANT_INPUT_SOURCE_NOT_COVERED', { question: { inputSource: 'mail' } }],
  ['GRANT_OUTPUT_SINK_NOT_COVERED', { question: { outputSink: '' } }],
  ['GRANT_DATA_CLASS_NOT_COVERED', { question: { dataClass: 0 } }],
  ['GRANT_DATA_CLASS_NOT_COVERED', { question: { dataClass: 1 } }],
];

describe('authority.md, Deciding', () => {
  it('allows a principal with entitlement and grant', () => {
    const verdict = decide();
    expect(verdict).toMatchObject({
      allowed: true,
      actor: { kind: 'principal', id: 'paula' },
      entitlement: { entitlementId: 'ent-1' },
      grant: { grantId: 'grant-1' },
    });
  });

  it('allows a guest with a grant, without any entitlement', () => {
    expect(decide({ ...guest, guest: {} })).toMatchObject({ allowed: true, entitlement: undefined });
  });

  it.each(denials)('denies with %s', (reason, world) => {
    expect(reasonOf(world)).toBe(reason);
  });

  it('needs a grant for a guest, and for a protected operation whoever asks', () => {
    const { grantId: _, ...without } = question();
    expect(reasonOf({})).toBe('ALLOWED');
    expect(decidePolicyWithout(guest, without, false)).toBe('GRANT_REQUIRED');
    expect(decidePolicyWithout({}, without, true)).toBe('GRANT_REQUIRED');
    expect(decidePolicyWithout({}, without, false)).toBe('ALLOWED');
  });

  it('takes an entitlement for any resource where the exact one is stale', () => {
    const stale = entitlementRow({ revokedAt: past });
    const any = entitlementRow({ entitlementId: 'ent-2', resource: '*' });
    expect(decide({ entitlements: [stale, any] })).toMatchObject({ entitlement: { entitlementId: 'ent-2' } });
  });

  it('leaves the exhausted grant to the rule of Reserve that comes later, and nothing else', () => {
    expect(reasonOf({ grant: { uses: 1n }, question: { leaveGrantUse: true } })).toBe('ALLOWED');
    expect(reasonOf({ grant: { uses: 2n }, question: { leaveGrantUse: true } })).toBe('GRANT_INCONSISTENT');
  });

  it('lets the first reason win', () => {
    // Everything at once: of each pair that can stand together, the one that comes first in the list is answered.
    for (const [index, [reason, world]] of denials.entries()) {
      for (const [later, other] of denials.slice(index + 1)) {
        if (later === reason || overlaps(world, other)) continue;
        const both = { ...other, ...world, question: { ...other.question, ...world.question } };
        expect(`${reason}+${later}: ${reasonOf(both)}`).toBe(`${reason}+${later}: ${reason}`);
      }
    }
  });

  it('compares what the caller rests on, and only what it gives', () => {
    const expectation = { assurance: 'attested', credentialEpoch: 1n };
    expect(reasonOf({ question: { expectation, policyRevision: 1n } })).toBe('ALLOWED');
  });

  it('takes a certificate-bound credential with the very leaf', () => {
    const bound = { binding: 'certificate', certificateDigest: sha256('leaf') } as const;
    expect(reasonOf({ credential: bound })).toBe('ALLOWED');
  });

  it('names no subject where there is no harness to decide for', () => {
    expect(() => decide({ caller: null })).toThrow(Refused);
    expect(() => decide({ caller: { kind: 'worker' } })).toThrow(Refused);
    expect(() => decide({ harness: null })).toThrow(Refused);
    // A harness that somebody else's certificate speaks for: nothing is recorded in its name.
    expect(() => decide({ question: { caller: caller({ trustDomain: 'globex.test' }) } })).toThrow(Refused);
    expect(decide({ harness: { status: 'revoked' } })).toMatchObject({
      allowed: false,
      subject: { harnessId: 'planner', actorKind: 'principal', actorId: 'paula' },
    });
  });

  it('ends with the instant of expiry', () => {
    expect(reasonOf({ grant: { expiresAt: FIXTURE_NOW + 1n } })).toBe('ALLOWED');
    expect(reasonOf({ entitlements: [entitlementRow({ expiresAt: FIXTURE_NOW + 1n })] })).toBe('ALLOWED');
    expect(reasonOf({ credential: { notBefore: FIXTURE_NOW, expiresAt: FIXTURE_NOW + DAY } })).toBe(
      'ALLOWED',
    );
  });
});

function decidePolicyWithout(world: World, without: Omit<PolicyQuestion, 'grantId'>, isProtected: boolean) {
  const questionWithout = {
    ...without,
    grantId: undefined as unknown as string,
    protectedOperation: isProtected,
  };
  return reasonOf({ ...world, question: questionWithout });
}

/** Two worlds that say something else of the same row cannot both be had. */
function overlaps(a: World, b: World): boolean {
  const rowKeys = Object.keys(a).filter((key) => key !== 'question');
  const questionKeys = Object.keys(a.question ?? {});
  const guestOf = (world: World) => world.harness?.ownerKind === 'guest';
  const entitled = (world: World) => world.entitlements !== undefined && !guestOf(world);
  if (
    (guestOf(a) && (entitled(b) || b.principal !== undefined)) ||
    (guestOf(b) && (entitled(a) || a.principal !== undefined))
  ) {
    return true;
  }
  return rowKeys.some((key) => key in b) || questionKeys.some((key) => key in (b.question ?? {}));
}
