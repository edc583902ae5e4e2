import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { decide } from '../../src/ledger/authority/decide.js';
import { cancelEffect } from '../../src/ledger/effect/cancel-effect.js';
import { sha256 } from '../../src/ledger/encoding.js';
import { Draft } from '../../src/ledger/working-set.js';
import {
  DOMAIN,
  type EffectWorld,
  freshId,
  HARNESS,
  openWorld,
  publish,
  type Replica,
  reservation,
  reserve,
  seedGrant,
} from '../support/effect-world.js';

let world: EffectWorld;
let replica: Replica;

beforeAll(async () => {
  world = await openWorld();
  replica = world.replica();
});
afterAll(() => world.close());

async function draftOf(reads: Parameters<Replica['reader']['gather']>[1]): Promise<Draft> {
  const set = await replica.reader.gather(DOMAIN, reads);
  if (!set) throw new Error('no domain');
  return new Draft(set);
}

async function reserved() {
  const grant = await seedGrant(world);
  const command = reservation(await publish(replica), grant.grantId);
  const outcome = await reserve(replica, command);
  if (!outcome.ok) throw new Error(outcome.refusal.reason);
  return { ...command, effect: outcome.reply.effect };
}

async function decideCancel(effectId: string): Promise<string> {
  const outcome = await replica.lanes.submit(decide, {
    domainId: DOMAIN,
    commandId: freshId('cmd'),
    decisionId: freshId('dec'),
    question: {
      caller: HARNESS,
      action: 'effect.cancel',
      resource: effectId,
      inputSource: '',
      outputSink: '',
      dataClass: 0,
      requestDigest: sha256(''),
      protectedOperation: false,
    },
  });
  if (!outcome.ok) throw new Error(outcome.refusal.reason);
  return outcome.reply.decision.decisionId;
}

function cancel(effectId: string, decisionId: string) {
  return replica.lanes.submit(cancelEffect, {
    domainId: DOMAIN,
    commandId: freshId('cmd'),
    caller: HARNESS,
    effectId,
    decisionId,
  });
}

describe('what a decision rests on', () => {
  test('comes with it: use, entitlement and grant', async () => {
    const { decisionId, grantId } = await reserved();
    const draft = await draftOf({ decisions: [decisionId, 'absent'] });
    expect(draft.get('decisions', decisionId)).toMatchObject({
      allowed: true,
      entitlementId: 'ent-1',
      grantId,
    });
    expect(draft.get('entitlements', 'ent-1')).toMatchObject({ principalId: 'paula' });
    expect(draft.get('grants', grantId)).toMatchObject({ uses: 1n });
    expect(draft.get('decision_uses', decisionId)).toBeUndefined();
    expect(draft.get('decisions', 'absent')).toBeUndefined();
  });

  test('backs one cancel, and no other', async () => {
    const [first, second] = [await reserved(), await reserved()];
    const decisionId = await decideCancel(first.effectId);
    const reservations = first.decisionId;
    expect(await cancel(first.effectId, reservations)).toMatchObject({
      refusal: { metadata: { rule: 'action' } },
    });
    expect(await cancel(second.effectId, decisionId)).toMatchObject({
      refusal: { metadata: { rule: 'resource' } },
    });
    expect(await cancel(first.effectId, decisionId)).toMatchObject({ ok: true });
    const draft = await draftOf({ decisions: [decisionId] });
    expect(draft.get('decision_uses', decisionId)).toMatchObject({
      usedBy: `effect.cancel:${first.effectId}`,
    });
  });

  test('ends with its entitlement', async () => {
    const { effectId } = await reserved();
    const decisionId = await decideCancel(effectId);
    await world.admin.query("UPDATE entitlements SET revoked_at = 1 WHERE entitlement_id = 'ent-2'");
    expect(await cancel(effectId, decisionId)).toMatchObject({ refusal: { metadata: { rule: 'backing' } } });
    await world.admin.query("UPDATE entitlements SET revoked_at = NULL WHERE entitlement_id = 'ent-2'");
    expect(await cancel(effectId, decisionId)).toMatchObject({ ok: true });
  });
});

describe('an unsettled effect of an event and a grant', () => {
  test('is found until it is settled', async () => {
    const { eventId, grantId, effectId } = await reserved();
    const unsettled = async (event: string, grant: string) => {
      const draft = await draftOf({ unsettled: [{ eventId: event, grantId: grant }] });
      return draft.find('unsettledOf', event, grant).map((effect) => effect.effectId);
    };
    expect(await unsettled(eventId, grantId)).toEqual([effectId]);
    expect(await unsettled(eventId, 'grant-other')).toEqual([]);
    expect(await unsettled('event-other', grantId)).toEqual([]);
    await cancel(effectId, await decideCancel(effectId));
    expect(await unsettled(eventId, grantId)).toEqual([]);
  });
});
