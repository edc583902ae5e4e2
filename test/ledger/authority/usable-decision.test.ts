import { describe, expect, it } from 'vitest';
import type { Actor } from '../../../src/ledger/authority/current-actor.js';
import type {
  DecisionRow,
  DecisionUseRow,
  DomainRow,
  EntitlementRow,
  GrantRow,
} from '../../../src/ledger/authority/records.js';
import {
  type DecisionPurpose,
  usableDecision,
  useDecision,
} from '../../../src/ledger/authority/usable-decision.js';
import { sha256 } from '../../../src/ledger/encoding.js';
import { SECOND } from '../../../src/ledger/types.js';
import { Draft } from '../../../src/ledger/working-set.js';
import { credentialRow, entitlementRow, grantRow, harnessRow } from '../../support/authority-fixture.js';
import { FIXTURE_NOW, workingSet } from '../../support/ledger-fixture.js';

const nothing = sha256('');

function decisionRow(over: Partial<DecisionRow> = {}): DecisionRow {
  return {
    decisionId: 'dec-1',
    harnessId: 'planner',
    actorKind: 'principal',
    actorId: 'paula',
    action: 'effect.cancel',
    resource: 'eff-1',
    requestDigest: nothing,
    contextDigest: sha256('context'),
    allowed: true,
    reason: null,
    entitlementId: 'ent-1',
    grantId: null,
    policyRevision: 1n,
    decidedAt: FIXTURE_NOW - 300n * SECOND,
    denialKey: null,
    auditSeq: 1n,
    ...over,
  };
}

interface World {
  decision?: Partial<DecisionRow> | null;
  domain?: Partial<DomainRow>;
  entitlement?: Partial<EntitlementRow> | null;
  grant?: Partial<GrantRow> | null;
  use?: DecisionUseRow;
  purpose?: Partial<DecisionPurpose>;
  actor?: Partial<Actor>;
}

function draftOf(world: World): Draft {
  return new Draft(
    workingSet({
      domain: world.domain ?? {},
      rows: {
        decisions: world.decision === null ? [] : [decisionRow(world.decision)],
        entitlements: world.entitlement === null ? [] : [entitlementRow(world.entitlement)],
        grants: world.grant === null ? [] : [grantRow(world.grant)],
        decision_uses: world.use ? [world.use] : [],
      },
      absent: {
        decisions: [['dec-1']],
        decision_uses: [['dec-1']],
        entitlements: [['ent-1']],
        grants: [['grant-1']],
      },
    }),
  );
}

function purpose(world: World): DecisionPurpose {
  const actor: Actor = {
    harness: harnessRow(),
    kind: 'principal',
    id: 'paula',
    credential: credentialRow(),
    ...world.actor,
  };
  return { actor, action: 'effect.cancel', resource: 'eff-1', requestDigest: nothing, ...world.purpose };
}

function ruleOf(world: World): string {
  const result = usableDecision(draftOf(world), 'dec-1', purpose(world));
  if ('decision' in result) return 'usable';
  expect(result.refused.reason).toBe('DECISION_NOT_USABLE');
  return result.refused.metadata?.['rule'] ?? '';
}

const guest: World = {
  decision: { actorKind: 'guest', actorId: 'gus', entitlementId: null, grantId: 'grant-1' },
  grant: { actorKind: 'guest', actorId: 'gus' },
  actor: { kind: 'guest', id: 'gus', harness: harnessRow({ ownerKind: 'guest', ownerId: 'gus' }) },
};

describe('a decision as evidence (authority.md, Deciding)', () => {
  it('backs one mutation of its actor for 300 s', () => {
    expect(ruleOf({})).toBe('usable');
    expect(ruleOf({ decision: { decidedAt: FIXTURE_NOW - 300n * SECOND - 1n } })).toBe('age');
  });

  it.each<readonly [string, World]>([
    ['decision', { decision: null }],
    ['decision', { decision: { harnessId: 'other' } }],
    ['decision', { decision: { actorId: 'paul' } }],
    ['decision', { decision: { actorKind: 'guest' } }],
    ['allowed', { decision: { allowed: false, reason: 'ENTITLEMENT_MISSING' } }],
    ['action', { purpose: { action: 'payment.refund' } }],
    ['resource', { purpose: { resource: 'eff-2' } }],
    ['request_digest', { purpose: { requestDigest: sha256('x') } }],
    ['policy_revision', { domain: { policyRevision: 2n } }],
    ['backing', { entitlement: null }],
    ['backing', { entitlement: { revokedAt: FIXTURE_NOW } }],
    ['backing', { entitlement: { expiresAt: FIXTURE_NOW } }],
    ['backing', { entitlement: { policyRevision: 2n } }],
    ['backing', { decision: { entitlementId: null } }],
    ['backing', { decision: { entitlementId: null, grantId: 'grant-1' } }],
    ['backing', { decision: { grantId: 'grant-1' }, grant: { revokedAt: FIXTURE_NOW } }],
    ['used', { use: { decisionId: 'dec-1', usedBy: 'effect.cancel:eff-1', usedAt: FIXTURE_NOW } }],
  ])('is refused by the rule %s', (rule, world) => {
    expect(ruleOf(world)).toBe(rule);
  });

  it("rests on a guest's grant", () => {
    expect(ruleOf(guest)).toBe('usable');
    expect(ruleOf({ ...guest, grant: { ...guest.grant, uses: 1n } })).toBe('usable');
    const gone: Partial<GrantRow>[] = [
      { revokedAt: FIXTURE_NOW },
      { expiresAt: FIXTURE_NOW },
      { policyRevision: 2n },
      { credentialEpoch: 2n },
      { actorId: 'gustav' },
    ];
    for (const over of gone) expect(ruleOf({ ...guest, grant: { ...guest.grant, ...over } })).toBe('backing');
    expect(ruleOf({ ...guest, grant: null })).toBe('backing');
  });

  it('is used up once', () => {
    const draft = draftOf({});
    const result = usableDecision(draft, 'dec-1', purpose({}));
    if (!('decision' in result)) throw new Error('not usable');
    useDecision(draft, result.decision, 'effect.cancel:eff-1');
    expect(draft.get('decision_uses', 'dec-1')).toEqual({
      decisionId: 'dec-1',
      usedBy: 'effect.cancel:eff-1',
      usedAt: FIXTURE_NOW,
    });
    expect(usableDecision(draft, 'dec-1', purpose({}))).toMatchObject({
      refused: { metadata: { rule: 'used' } },
    });
  });
});
