import { describe, expect, it } from 'vitest';
import { type Decide, decide } from '../../../src/ledger/authority/decide.js';
import {
  contextDigest,
  denialKey,
  type PolicyQuestion,
} from '../../../src/ledger/authority/policy-question.js';
import type { DecisionRow } from '../../../src/ledger/authority/records.js';
import { sha256 } from '../../../src/ledger/encoding.js';
import { runDecision } from '../../../src/ledger/run-decision.js';
import { SECOND } from '../../../src/ledger/types.js';
import type { WorkingSet } from '../../../src/ledger/working-set.js';
import {
  caller,
  callerRow,
  credentialRow,
  entitlementRow,
  HARNESS_SPIFFE_ID,
  harnessRow,
  principalRow,
} from '../../support/authority-fixture.js';
import { decodeJsonEntry, FIXTURE_NOW, workingSet } from '../../support/ledger-fixture.js';

const allowed: PolicyQuestion = {
  caller: caller(),
  action: 'payment.refund',
  resource: 'order-1184',
  inputSource: '',
  outputSink: '',
  dataClass: 0,
  requestDigest: sha256('request'),
  protectedOperation: false,
};
const denied: PolicyQuestion = { ...allowed, resource: 'order-7' };

function command(question: PolicyQuestion, decisionId = 'dec-1'): Decide {
  return { domainId: 'acme.test', commandId: 'req-1', decisionId, question };
}

function world(now = FIXTURE_NOW, decisions: readonly DecisionRow[] = []): WorkingSet {
  return workingSet({
    now,
    rows: {
      callers: [callerRow()],
      harnesses: [harnessRow()],
      principals: [principalRow()],
      credentials: [credentialRow()],
      entitlements: [entitlementRow()],
      decisions,
    },
    indexes: {
      credentialsOfSpiffeId: [[HARNESS_SPIFFE_ID]],
      entitlementsOf: [
        ['paula', 'payment.refund', 'order-1184'],
        ['paula', 'payment.refund', 'order-7'],
        ['paula', 'payment.refund', '*'],
      ],
      denialsOf: [[denialKey(allowed)], [denialKey(denied)]],
    },
  });
}

function run(set: WorkingSet, asked: Decide) {
  const outcome = runDecision(set, decide, asked);
  if (!outcome.ok) throw new Error(outcome.refusal.reason);
  return outcome.reply;
}

function written(set: WorkingSet, table: string) {
  return set.changes().rows.filter((change) => change.table === table);
}

describe('Decide', () => {
  it('records an allowance with what it rests on, and its entry in the log', () => {
    const set = world();
    const { decision, duplicate } = run(set, command(allowed));
    expect(duplicate).toBe(false);
    expect(decision).toMatchObject({
      decisionId: 'dec-1',
      harnessId: 'planner',
      actorKind: 'principal',
      actorId: 'paula',
      allowed: true,
      reason: null,
      entitlementId: 'ent-1',
      grantId: null,
      policyRevision: 1n,
      decidedAt: FIXTURE_NOW,
      denialKey: null,
      auditSeq: 1n,
    });
    expect(written(set, 'decisions')).toHaveLength(1);
    const entry = set.get('audit_entries', 1n);
    expect(decodeJsonEntry(entry?.entry ?? Buffer.alloc(0))).toMatchObject({
      kind: 'decision',
      actorSpiffeId: HARNESS_SPIFFE_ID,
      commandId: 'req-1',
      decision: { decisionId: 'dec-1', allowed: true, contextDigest: contextDigest(allowed).toString('hex') },
    });
  });

  it('answers a denial as an answer, recorded with its reason', () => {
    const set = world();
    const { decision } = run(set, command(denied));
    expect(decision).toMatchObject({ allowed: false, reason: 'ENTITLEMENT_MISSING', entitlementId: null });
    expect(written(set, 'decisions')).toHaveLength(1);
    expect(set.head.seq).toBe(1n);
    const entry = set.get('audit_entries', 1n);
    expect(decodeJsonEntry(entry?.entry ?? Buffer.alloc(0)).decision).toMatchObject({
      allowed: false,
      reason: 'ENTITLEMENT_MISSING',
    });
  });

  it('answers the same denial within 60 s from the stored one, and writes nothing', () => {
    const set = world();
    const first = run(set, command(denied));
    const second = run(set, command(denied, 'dec-2'));
    expect(second).toEqual({ decision: first.decision, duplicate: true });
    expect(set.head.seq).toBe(1n);

    const at = (seconds: bigint) => world(FIXTURE_NOW + seconds * SECOND, [first.decision]);
    expect(run(at(59n), command(denied, 'dec-3')).duplicate).toBe(true);
    expect(run(at(60n), command(denied, 'dec-4')).duplicate).toBe(false);
  });

  it('records a denial anew where its reason, revision or question is another', () => {
    const { decision } = run(world(), command(denied));
    const other = { ...decision, reason: 'HARNESS_INACTIVE' };
    expect(run(world(FIXTURE_NOW, [other]), command(denied, 'dec-2')).duplicate).toBe(false);
    const older = { ...decision, policyRevision: 0n };
    expect(run(world(FIXTURE_NOW, [older]), command(denied, 'dec-2')).duplicate).toBe(false);
    const keys = [
      denied,
      { ...denied, requestDigest: sha256('other') },
      { ...denied, eventId: 'event-1' },
      { ...denied, eventId: '' },
      { ...denied, grantId: 'grant-1' },
      { ...denied, eligibilityDenials: ['off_duty'] },
      { ...denied, eligibilityDenials: ['on_leave'] },
      { ...denied, expectation: { assurance: 'weak' } },
      { ...denied, dataClass: 1 as const },
      { ...denied, protectedOperation: true },
      { ...denied, policyRevision: 1n },
      { ...denied, policyRevision: 2n },
    ].map((question) => denialKey(question).toString('hex'));
    expect(new Set(keys).size).toBe(keys.length);
  });

  it('records each allowance anew', () => {
    const set = world();
    run(set, command(allowed));
    expect(run(set, command(allowed, 'dec-2'))).toMatchObject({ duplicate: false });
    expect(written(set, 'decisions')).toHaveLength(2);
  });

  it('refuses, and records nothing, where there is no harness whose decision it could be', () => {
    const set = workingSet({ absent: { callers: [[HARNESS_SPIFFE_ID]] } });
    const outcome = runDecision(set, decide, command(allowed));
    expect(outcome).toMatchObject({ ok: false, recorded: false, refusal: { reason: 'CALLER_UNKNOWN' } });
    expect(set.changes().rows).toEqual([]);
  });
});
