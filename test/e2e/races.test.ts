import { durationFromMs, timestampFromMs } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { SuretyError } from '../../src/cli/client/surety-error.js';
import {
  digest,
  type TransitionRequest,
  type WorkloadSession,
} from '../../src/cli/client/workload-session.js';
import { DEMO_AUTHORITY_SYSTEM, DEMO_PRINCIPAL } from '../../src/cli/demo/set-up-domain.js';
import { EffectState, StateSource } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { EffectService, type TransitionResult } from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { ClockService } from '../../src/gen/surety/testing/v1/clock_service_pb.js';
import {
  ACME,
  type E2eWorld,
  EXECUTOR_A,
  EXECUTOR_B,
  HARNESS,
  openE2eWorld,
  OPERATOR,
} from '../support/e2e-world.js';
import {
  cancel,
  decide,
  entitle,
  findingsOfLog,
  isPending,
  put,
  type ReserveRequest,
  reservation,
  reserveAs,
  traces,
  usesOf,
  WHOLE_LOG,
} from '../support/e2e-parties.js';
import { entriesSince } from '../support/provenance-party.js';
import type { ServiceProcess } from '../support/service-process.js';

const { PREPARED, EXECUTING, UNKNOWN, SUCCEEDED, FAILED, CANCELLED } = EffectState;
/** How often a race of two is run: either may win, and mostly both orders come. */
const ROUNDS = 8;

describe('effects.md: two service processes on one database', () => {
  let world: E2eWorld;
  let replicas: readonly [ServiceProcess, ServiceProcess];
  let executors: readonly [WorkloadSession, WorkloadSession];

  beforeAll(async () => {
    // No sweep but those that `advance` makes, so that what is compared moves only by the calls.
    const env = { SURETY_SWEEP_INTERVAL_MS: '600000' };
    world = await openE2eWorld({ env });
    replicas = [world.service, await world.startReplica(env)];
    executors = [await world.executor(EXECUTOR_A), await world.executor(EXECUTOR_B, {}, replicas[1])];
  });
  afterAll(() => world.close());

  const replica = (index: number): ServiceProcess => replicas[index % 2] as ServiceProcess;

  /** The reasons and answers of calls that were all made at once; anything but a refusal of ours fails the test. */
  async function race<Reply>(calls: readonly (() => Promise<Reply>)[]): Promise<(Reply | string)[]> {
    return Promise.all(
      calls.map((call) =>
        call().catch((error: unknown) => {
          if (error instanceof SuretyError && error.reason !== 'INTERNAL') return error.reason;
          throw error;
        }),
      ),
    );
  }

  const won = <Reply>(outcomes: readonly (Reply | string)[]): Reply[] =>
    outcomes.filter((outcome): outcome is Reply => typeof outcome !== 'string');
  const lost = (outcomes: readonly unknown[]): unknown[] =>
    outcomes.filter((outcome) => typeof outcome === 'string');

  const reserveAll = (requests: readonly ReserveRequest[]) =>
    race(requests.map((request, index) => () => reserveAs(world, HARNESS, request, replica(index))));

  describe('reservations', () => {
    test('50 of one identity: one effect, and 49 duplicates of it', async () => {
      const request = await reservation(world);
      const before = await traces(world);
      const outcomes = await reserveAll(Array.from({ length: 50 }, () => request));
      const replies = won(outcomes);
      expect(replies).toHaveLength(50);
      const first = replies.find(({ duplicate }) => !duplicate);
      expect(replies.filter(({ duplicate }) => duplicate)).toEqual(
        Array.from({ length: 49 }, () => ({ ...first, duplicate: true })),
      );
      expect(await traces(world)).toMatchObject({
        seq: String(Number(before['seq']) + 2),
        effects: String(Number(before['effects']) + 1),
        pending: String(Number(before['pending']) + 1),
        uses: String(Number(before['uses']) + 1),
        fence_counter: String(Number(before['fence_counter']) + 1),
      });
    });

    test('one identity with other contents: one effect, the others conflict', async () => {
      const grantId = await world.grant({ resources: ['order-1184', 'order-1185'] });
      const request = await reservation(world, { grantId });
      const outcomes = await reserveAll(
        Array.from({ length: 20 }, (_, index) => ({ ...request, resource: `order-118${4 + (index % 2)}` })),
      );
      expect(won(outcomes)).toHaveLength(10);
      expect(new Set(won(outcomes).map(({ effectId }) => effectId)).size).toBe(1);
      expect(won(outcomes).filter(({ duplicate }) => !duplicate)).toHaveLength(1);
      expect(lost(outcomes)).toEqual(Array.from({ length: 10 }, () => 'EFFECT_IDENTITY_CONFLICT'));
    });

    test('20 for 20 events on a grant of one use: one', async () => {
      const grantId = await world.grant({ maxUses: 1n });
      const requests = await Promise.all(Array.from({ length: 20 }, () => reservation(world, { grantId })));
      const outcomes = await reserveAll(requests);
      expect(won(outcomes)).toHaveLength(1);
      expect(lost(outcomes)).toEqual(Array.from({ length: 19 }, () => 'GRANT_EXHAUSTED'));
      expect(await usesOf(world, grantId)).toBe(1);
    });

    test('20 times the same change in other words under one effect key: one live effect', async () => {
      const grantId = await world.grant();
      const effectKey = 'refund:order-1184';
      const requests = await Promise.all(
        Array.from({ length: 20 }, () => reservation(world, { grantId, effectKey })),
      );
      const outcomes = await reserveAll(requests);
      expect(won(outcomes)).toHaveLength(1);
      expect(lost(outcomes)).toEqual(Array.from({ length: 19 }, () => 'EFFECT_KEY_BUSY'));
      expect(await usesOf(world, grantId)).toBe(1);
    });

    test('fences and positions grow together, whichever process gave them out', async () => {
      const grantId = await world.grant();
      const requests = await Promise.all(Array.from({ length: 40 }, () => reservation(world, { grantId })));
      const replies = won(await reserveAll(requests));
      replies.sort((a, b) => Number(a.auditPosition - b.auditPosition));
      const fences = replies.map(({ fence }) => fence);
      expect(fences).toEqual(fences.map((_, index) => (fences[0] ?? 0n) + BigInt(index)));
    });
  });

  describe('against what ends them there is one order: nothing is reserved behind it in the log', () => {
    test.each<[string, string, (grantId: string) => Parameters<E2eWorld['admin']['execute']>[1]]>([
      ['RevokeGrant', 'GRANT_REVOKED', (grantId) => ({ case: 'revokeGrant', value: { grantId } })],
      ['SetFreeze', 'FROZEN', () => ({ case: 'setFreeze', value: { frozen: true } })],
      ['BumpPolicyRevision', 'POLICY_REVISION_STALE', () => ({ case: 'bumpPolicyRevision', value: {} })],
    ])('%s', async (_, reason, mutation) => {
      const grantId = await world.grant();
      const requests = await Promise.all(Array.from({ length: 24 }, () => reservation(world, { grantId })));
      const command = world.admin.execute(ACME, mutation(grantId));
      const [outcomes, { auditPosition }] = await Promise.all([reserveAll(requests), command]);
      const replies = won(outcomes);
      expect(replies.every((reply) => reply.auditPosition < auditPosition)).toBe(true);
      expect(new Set(lost(outcomes))).toEqual(new Set(lost(outcomes).length > 0 ? [reason] : []));
      expect(await usesOf(world, grantId)).toBe(replies.length);
      // And from here on there is none.
      expect(await race([() => reserveAs(world, HARNESS, requests[0] ?? {}, replica(1))])).toEqual(
        typeof outcomes[0] === 'string' ? [reason] : [{ ...outcomes[0], duplicate: true }],
      );
      await put(world, { case: 'setFreeze', value: { frozen: false } });
      await entitle(world);
    });
  });

  test('the log tells the order, whenever the revocation comes: all that is reserved stands before its intent', async () => {
    for (const round of rounds) {
      const grantId = await world.grant();
      const requests = await Promise.all(
        Array.from({ length: ROUNDS - 1 }, () => reservation(world, { grantId })),
      );
      const { headSeq } = await entriesSince(world, 2n ** 40n);
      // Sent after more and more of the reservations, to one process and to the other.
      const calls: (() => Promise<unknown>)[] = requests.map(
        (request, index) => () => reserveAs(world, HARNESS, request, replica(index + round)),
      );
      const revoke = { case: 'revokeGrant', value: { grantId } } as const;
      calls.splice(round, 0, () => world.admin.execute(ACME, revoke));
      const outcomes = await race(calls);
      expect(typeof outcomes[round]).toBe('object');
      const refused = lost(outcomes);
      expect(refused).toEqual(refused.map(() => 'GRANT_REVOKED'));

      const { entries } = await entriesSince(world, headSeq);
      const intent = entries.find(({ command }) => command?.operation === 'revoke_grant')?.seq ?? 0n;
      const reserved = entries.filter(({ effect }) => effect?.grantId === grantId);
      expect(reserved).toHaveLength(requests.length - refused.length);
      for (const { seq } of reserved) expect(seq).toBeLessThan(intent);
      expect(await usesOf(world, grantId)).toBe(reserved.length);
    }
  });

  test('decisions against the revocation of their entitlement: allowed before it, denied behind it', async () => {
    const ask = (index: number) => () =>
      decide(world, `effect-${index}`, {}, HARNESS, replica(index)).then(({ decision, auditPosition }) => ({
        allowed: decision?.allowed,
        auditPosition,
      }));
    const entitlementId = `${DEMO_PRINCIPAL}-effect.cancel`;
    const [answers, { auditPosition }] = await Promise.all([
      race(Array.from({ length: 24 }, (_, index) => ask(index))),
      world.admin.execute(ACME, { case: 'revokeEntitlement', value: { entitlementId } }),
    ]);
    expect(won(answers).map(({ allowed }) => allowed)).toEqual(
      won(answers).map((answer) => answer.auditPosition < auditPosition),
    );
    expect(won(answers)).toHaveLength(24);
    await entitle(world);
  });

  /** A race of two for one effect: exactly one wins, and the effect is where the winner brought it. */
  async function expectOneWinner(
    effectId: string,
    calls: readonly (() => Promise<TransitionResult | undefined>)[],
  ): Promise<{ result: TransitionResult; reasons: unknown[] }> {
    const outcomes = await race(calls);
    const winners = won(outcomes);
    expect(winners).toHaveLength(1);
    const result = winners[0] as TransitionResult;
    expect(result.duplicate).toBe(false);
    const effect = await executors[0].look(effectId);
    expect(effect).toMatchObject({
      state: result.state,
      stateSource: result.stateSource,
      attemptId: result.attemptId,
    });
    return { result, reasons: lost(outcomes) };
  }

  const send =
    (
      method: 'startExecution' | 'markUnknown' | 'acknowledgeTerminal' | 'reconcile',
      session: WorkloadSession,
      index: number,
      request: TransitionRequest,
    ) =>
    async (): Promise<TransitionResult | undefined> => {
      const channel = world.channel(session.registration.spiffeId, replica(index));
      return (await channel.service(EffectService)[method](request)).result;
    };

  const attempt = (effectId: string, who: number): string => `attempt-${who}-of-${effectId}`;
  const rounds = Array.from({ length: ROUNDS }, (_, index) => index);

  test('a start against a cancel: one', async () => {
    const [executor] = executors;
    const states: EffectState[] = [];
    for (const round of rounds) {
      const { effect } = await world.effectIn(PREPARED, executor);
      const { effectId } = effect;
      const { decision } = await decide(world, effectId);
      const start = await executor.start(effect, attempt(effectId, 0));
      const calls = [
        send('startExecution', executor, round, start),
        () => cancel(world, effectId, decision?.decisionId, HARNESS, replica(round + 1)),
      ];
      // Whoever is asked first mostly wins.
      if (round % 4 < 2) calls.reverse();
      const { result, reasons } = await expectOneWinner(effectId, calls);
      expect(reasons).toEqual(['EFFECT_STATE_CONFLICT']);
      expect(await isPending(world, effectId)).toBe(result.state === EXECUTING);
      states.push(result.state);
    }
    expect(states.every((state) => state === EXECUTING || state === CANCELLED)).toBe(true);
  });

  test('two cancels: one is done, the other its duplicate, and one decision is used', async () => {
    for (const round of rounds) {
      const { effectId } = await world.reserve();
      const decisions = [await decide(world, effectId), await decide(world, effectId)];
      const before = await traces(world);
      const results = won(
        await race(
          decisions.map(
            ({ decision }, index) =>
              () =>
                cancel(world, effectId, decision?.decisionId, HARNESS, replica(round + index)),
          ),
        ),
      );
      expect(results.map(({ duplicate }) => duplicate).sort()).toEqual([false, true]);
      expect(results.map(({ auditPosition }) => auditPosition)[0]).toBe(results[1]?.auditPosition);
      expect(await traces(world)).toMatchObject({
        seq: String(Number(before['seq']) + 1),
        decision_uses: String(Number(before['decision_uses']) + 1),
      });
    }
  });

  test('two executors start: one', async () => {
    for (const round of rounds) {
      const { effect } = await world.effectIn(PREPARED, executors[0]);
      const starts = await Promise.all(
        executors.map((executor, who) => executor.start(effect, attempt(effect.effectId, who))),
      );
      const calls = starts.map((request, who) =>
        send('startExecution', executors[who] as WorkloadSession, round + who, request),
      );
      const { result, reasons } = await expectOneWinner(effect.effectId, calls);
      expect(reasons).toEqual(['EFFECT_STATE_CONFLICT']);
      const shown = await executors[0].look(effect.effectId);
      const winner = result.attemptId === attempt(effect.effectId, 0) ? 0 : 1;
      expect(shown.executorRegistrationId).toBe(executors[winner].registration.registrationId);
    }
  });

  test('one start, sent to both: one is done, the other its duplicate', async () => {
    const [executor] = executors;
    const { effect } = await world.effectIn(PREPARED, executor);
    const request = await executor.start(effect, attempt(effect.effectId, 0));
    const results = won(await race(rounds.map((index) => send('startExecution', executor, index, request))));
    expect(results).toHaveLength(ROUNDS);
    expect(results.filter((result) => result?.duplicate === false)).toHaveLength(1);
    expect((await executor.look(effect.effectId)).step).toBe(2n);
  });

  test('an acknowledgement against "unknown": one', async () => {
    const [executor] = executors;
    for (const round of rounds) {
      const { effect, attemptId } = await world.effectIn(EXECUTING, executor);
      const acknowledge = await executor.acknowledge(effect, SUCCEEDED, {
        attemptId,
        receiptId: `receipt-${effect.effectId}`,
        receipt: 'done',
      });
      const unknown = await executor.markUnknown(effect, {
        attemptId,
        reason: 1,
        observationDigest: digest('nothing came back'),
        observedTime: timestampFromMs(await world.now()),
      });
      const calls = [
        send('acknowledgeTerminal', executor, round, acknowledge),
        send('markUnknown', executor, round + 1, unknown),
      ];
      if (round % 4 < 2) calls.reverse();
      const { result, reasons } = await expectOneWinner(effect.effectId, calls);
      const other = result.state === UNKNOWN ? 'EFFECT_MUST_RECONCILE' : 'EFFECT_STATE_CONFLICT';
      expect(reasons).toEqual([other]);
    }
  });

  test('two reconcilers: one', async () => {
    const reconcilers = [await world.reconciler(), await world.reconciler()];
    const effects = [];
    for (const _ of rounds) effects.push(await world.effectIn(UNKNOWN, executors[0]));
    await world.advance(121_000);
    for (const [round, { effect, attemptId }] of effects.entries()) {
      const answers = [SUCCEEDED, FAILED];
      const requests = await Promise.all(
        reconcilers.map(async (reconciler, who) =>
          reconciler.reconcile(effect, answers[(who + round) % 2] ?? FAILED, {
            attemptId,
            authoritySystemId: DEMO_AUTHORITY_SYSTEM,
            queryId: `query-${who}-${effect.effectId}`,
            response: `answer ${who}`,
            observedTime: timestampFromMs(await world.now()),
          }),
        ),
      );
      const calls = requests.map((request, who) =>
        send('reconcile', reconcilers[who] as WorkloadSession, round + who, request),
      );
      const { result, reasons } = await expectOneWinner(effect.effectId, calls);
      expect(reasons).toEqual(['EFFECT_STATE_CONFLICT']);
      expect(result.stateSource).toBe(StateSource.RECONCILER);
    }
  });

  test('two sweeps: each effect is cancelled once', async () => {
    const wish = { reservationTtl: durationFromMs(10_000) };
    const effects = [];
    for (const _ of rounds) effects.push(await world.reserve(wish));
    const before = await traces(world);
    // The clock is the database's, and each process sweeps when it has moved it.
    const clocks = replicas.map((service) => world.channel(OPERATOR, service).service(ClockService));
    await Promise.all(clocks.map((clock) => clock.advance({ by: durationFromMs(10_000) })));
    for (const { effectId } of effects) {
      const shown = await executors[0].look(effectId);
      expect(shown).toMatchObject({ state: CANCELLED, stateSource: StateSource.EXPIRY, step: 2n });
    }
    expect(await traces(world)).toMatchObject({
      seq: String(Number(before['seq']) + ROUNDS),
      pending: String(Number(before['pending']) - ROUNDS),
    });
  });

  test('the log of all this verifies', async () => {
    expect(await findingsOfLog(world)).toEqual(WHOLE_LOG);
  });
});
