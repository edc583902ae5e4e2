import { describe, expect, test } from 'vitest';
import type { RecordedDecision } from '../../../src/ledger/authority/record-decision.js';
import { sha256 } from '../../../src/ledger/encoding.js';
import { SECOND } from '../../../src/ledger/types.js';
import { AdmissionWorld, type Call, HELPER } from './admission-world.js';

// effects.md, Transitions 11 and Reserve 4: the decision for a cancel is never refused by a quota, and nobody floods the log by it.

const CANCEL = { action: 'effect.cancel', requestDigest: sha256('') };
/** Of 20 calls in a minute nine tenths are for ordinary ones. */
const LIMIT = 20;
const ORDINARY = 18;

function replyOf(world: AdmissionWorld, call: Call): RecordedDecision {
  const outcome = world.run(call);
  if (!outcome.ok) throw new Error(outcome.refusal.reason);
  return outcome.reply as RecordedDecision;
}

describe('a decision for effect.cancel is an ordinary call', () => {
  test.each<[string, (world: AdmissionWorld) => Call]>([
    ['where there is no such effect', (world) => world.askingToCancel('no-effect')],
    ["where the effect is another actor's", (world) => world.askingToCancel(world.reserved(HELPER))],
    ['where it was started', (world) => world.askingToCancel(world.started())],
    [
      'where it was cancelled',
      (world) => {
        const effectId = world.reserved();
        const { decision } = replyOf(world, world.askingToCancel(effectId));
        world.run(world.cancelling(effectId, decision.decisionId));
        return world.askingToCancel(effectId);
      },
    ],
    [
      'where it is for another request',
      (world) => world.deciding(0, { ...CANCEL, resource: world.reserved(), requestDigest: sha256('x') }),
    ],
  ])('%s', (_, make) => {
    const world = new AdmissionWorld({ actorRequestsPerMinute: LIMIT });
    const asked = make(world);
    world.forgetCalls();
    for (let i = 0; i < ORDINARY; i += 1) {
      expect(replyOf(world, world.again(asked))).toMatchObject({
        duplicate: false,
        decision: { allowed: true, denialKey: null },
      });
    }
    expect(world.actor()).toMatchObject({ calls: ORDINARY, safetyCalls: 0 });
    const before = world.whole();
    expect(world.word(world.again(asked))).toBe('QUOTA_EXHAUSTED');
    expect(world.whole()).toEqual(before);
  });
});

describe('the decision for a cancel that its actor could make', () => {
  function askedOnce() {
    const world = new AdmissionWorld({ actorRequestsPerMinute: LIMIT });
    const effectId = world.reserved();
    world.forgetCalls();
    const first = replyOf(world, world.askingToCancel(effectId));
    expect(world.actor()).toMatchObject({ calls: 0, safetyCalls: 1 });
    return { world, effectId, first };
  }

  test('is a safety call once: while it stands another one is ordinary', () => {
    const { world, effectId, first } = askedOnce();
    for (let i = 0; i < ORDINARY; i += 1) {
      const { decision, duplicate } = replyOf(world, world.askingToCancel(effectId));
      expect(duplicate).toBe(false);
      expect(decision.decisionId).not.toBe(first.decision.decisionId);
    }
    expect(world.actor()).toMatchObject({ calls: ORDINARY, safetyCalls: 1 });
  });

  test('stands in where the quota is used up, and nothing is written', () => {
    const { world, effectId } = askedOnce();
    world.wait(61n * SECOND);
    const asked = Array.from({ length: ORDINARY }, () => replyOf(world, world.askingToCancel(effectId)));
    const before = world.whole();
    const { decision, duplicate } = replyOf(world, world.askingToCancel(effectId));
    expect(duplicate).toBe(true);
    // The one that is good for longest.
    expect(decision).toEqual(asked.at(-1)?.decision);
    expect(world.whole()).toEqual(before);
    expect(world.word(world.cancelling(effectId, decision.decisionId))).toBe('done');
  });

  test('is asked for anew when it stands no more: after 300 s, or where it rests on something else', () => {
    const { world, effectId } = askedOnce();
    world.wait(300n * SECOND);
    expect(world.word(world.askingToCancel(effectId))).toBe('done');
    expect(world.actor().calls).toBe(1);
    world.wait(301n * SECOND);
    expect(world.word(world.askingToCancel(effectId))).toBe('done');
    expect(world.actor()).toMatchObject({ calls: 0, safetyCalls: 1 });
    for (const decision of world.store.all('decisions')) {
      if (decision.action === CANCEL.action)
        world.store.put('decisions', { ...decision, entitlementId: 'x' });
    }
    expect(world.word(world.askingToCancel(effectId))).toBe('done');
    expect(world.actor().safetyCalls).toBe(2);
  });

  test('is one for each effect', () => {
    const world = new AdmissionWorld({ actorRequestsPerMinute: LIMIT });
    const effects = Array.from({ length: 30 }, () => {
      world.forgetCalls();
      return world.reserved();
    });
    world.forgetCalls();
    for (const effectId of effects) expect(world.word(world.askingToCancel(effectId))).toBe('done');
    expect(world.actor()).toMatchObject({ calls: 0, safetyCalls: 30 });
  });
});
