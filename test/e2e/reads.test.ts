import { timestampMs } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { WorkloadWish } from '../../src/cli/client/register-workload.js';
import type { Channel } from '../../src/cli/client/service-client.js';
import type { WorkloadSession } from '../../src/cli/client/workload-session.js';
import { OperatorRole } from '../../src/gen/surety/authority/v1/records_pb.js';
import { type Effect, EffectState, StateSource } from '../../src/gen/surety/effect/v1/effect_pb.js';
import {
  EffectService,
  type EffectStep,
  RetryAdvice,
} from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { RecordStatus } from '../../src/gen/surety/identity/v1/workload_pb.js';
import { WorkloadService } from '../../src/gen/surety/identity/v1/workload_service_pb.js';
import {
  ACME,
  AUDITOR,
  type E2eWorld,
  EXECUTOR_A,
  EXECUTOR_B,
  GLOBEX,
  HARNESS,
  openE2eWorld,
  OPERATOR,
  RECONCILER,
  refusedWith,
} from '../support/e2e-world.js';
import {
  addHarness,
  bySuperuser,
  cancel,
  MAILER,
  publishAs,
  put,
  reconcileAs,
  reservation,
  reserveAs,
} from '../support/e2e-parties.js';

const { EXECUTING, UNKNOWN, SUCCEEDED, FAILED, CANCELLED, PREPARED } = EffectState;
const SCOPED_AUDITOR = `spiffe://${GLOBEX}/worker/mailer`;

/** Who asks: a connection, and what it has to say of itself in the request. */
interface Asker {
  readonly channel: Channel;
  readonly request?: { readonly domainId?: string; readonly registrationId?: string };
}

/** Whether the registry has this caller by now. */
function isKnown(channel: Channel): Promise<boolean> {
  const { whoAmI } = channel.service(WorkloadService);
  return whoAmI({}).then(
    () => true,
    () => false,
  );
}

describe('effects.md, Cancel, reads, retry', () => {
  let world: E2eWorld;
  let executor: WorkloadSession;
  let reconciler: WorkloadSession;
  /** Of the planner, for an event that the mailer receives. */
  let effect: Effect;

  beforeAll(async () => {
    world = await openE2eWorld({ globex: true });
    await addHarness(world, { spiffeId: MAILER, harnessId: 'mailer', principalId: 'mona' });
    const sink = { sink: 'mail', authoritySystems: ['postmaster'] };
    await put(world, { case: 'putSink', value: { sink } });
    await world.admin.execute(GLOBEX, {
      case: 'putOperator',
      value: {
        operator: {
          spiffeId: SCOPED_AUDITOR,
          roles: [OperatorRole.AUDITOR],
          status: RecordStatus.ACTIVE,
        },
      },
    });
    executor = await world.executor();
    reconciler = await world.reconciler();
    const eventId = await publishAs(world, HARNESS, { recipientHarnessIds: ['mailer'] });
    ({ effect } = await world.effectIn(PREPARED, executor, { eventId }));
  });
  afterAll(() => world.close());

  const as = (session: WorkloadSession): Asker => ({
    channel: session.channel,
    request: { registrationId: session.registration.registrationId },
  });
  const other = (wish: Partial<WorkloadWish>) => world.executor(EXECUTOR_B, wish);

  /** What each read of one effect answers: its state, or the reason with what else the refusal says. */
  async function readAs(asker: Asker, effectId: string): Promise<unknown[]> {
    const effects = asker.channel.service(EffectService);
    const request = { effectId, ...asker.request };
    const calls = [
      effects.getEffect(request).then((reply) => reply.effect?.state),
      effects.checkRetry(request).then((reply) => reply.state),
      effects.getEffectHistory(request).then((reply) => reply.steps.at(-1)?.toState),
    ];
    return Promise.all(
      calls.map((call) =>
        call.catch((error) => ({ code: error.code, reason: error.reason, message: error.message })),
      ),
    );
  }

  describe('Visible', () => {
    const seen = async (asker: Asker) => expect(await readAs(asker, effect.effectId)).toEqual(SEEN);
    const SEEN = [PREPARED, PREPARED, PREPARED];

    /** Foreign and absent look alike, word for word. */
    async function unseen(asker: Asker): Promise<void> {
      const foreign = await readAs(asker, effect.effectId);
      expect(foreign).toEqual(await readAs(asker, 'eff_of_nobody'));
      for (const answer of foreign) {
        expect(answer).toMatchObject({ code: 'PERMISSION_DENIED', reason: 'NOT_VISIBLE' });
      }
    }

    test('a harness sees what it reserved', () => seen({ channel: world.channel(HARNESS) }));

    test('another harness of the domain does not, a recipient of the event neither', () =>
      unseen({ channel: world.channel(MAILER) }));

    test('nor does the actor while it is not in force', async () => {
      const status = (value: RecordStatus) =>
        put(world, {
          case: 'putPrincipal',
          value: { principal: { principalId: 'paula', status: value } },
        });
      await status(RecordStatus.SUSPENDED);
      const answers = await readAs({ channel: world.channel(HARNESS) }, effect.effectId);
      for (const answer of answers) expect(answer).toMatchObject({ reason: 'PRINCIPAL_INACTIVE' });
      await status(RecordStatus.ACTIVE);
    });

    test('an executor sees what its registration is bound to', async () => {
      const { eventId, grantId } = effect;
      await seen(as(await other({ parentEventId: eventId, grantId })));
      await seen(
        as(await other({ parentEventId: eventId, grantId, overrides: { recipientScope: 'planner' } })),
      );
    });

    test.each<[string, () => Promise<Partial<WorkloadWish>>]>([
      ['to another event', async () => ({ parentEventId: await world.publish(), grantId: effect.grantId })],
      ['to another grant', async () => ({ parentEventId: effect.eventId, grantId: await world.grant() })],
      [
        'to another harness',
        async () => ({
          parentEventId: effect.eventId,
          grantId: effect.grantId,
          overrides: { recipientScope: 'mailer' },
        }),
      ],
    ])('an executor bound %s does not', async (_, wish) => unseen(as(await other(await wish()))));

    test('an executor standing for its sink does, one for another sink or harness does not', async () => {
      await seen(as(await other({ sinks: ['payments'] })));
      await seen(as(await other({ sinks: ['mail', 'payments'] })));
      await unseen(as(await other({ sinks: ['mail'] })));
      await unseen(as(await other({ sinks: ['payments'], overrides: { recipientScope: 'mailer' } })));
    });

    test("a registration is not lent: another workload's looks like one that is absent", async () => {
      const standing = await other({ sinks: ['payments'] });
      await unseen({ channel: world.channel(EXECUTOR_A), request: as(standing).request ?? {} });
      await unseen({ channel: world.channel(EXECUTOR_A), request: { registrationId: 'reg-none' } });
    });

    test('without naming a registration, an executor sees what any of its registrations in force may', async () => {
      await seen({ channel: world.channel(EXECUTOR_A) });
      await put(world, { case: 'bumpRevocationEpoch', value: {} });
      for (const answer of await readAs({ channel: world.channel(EXECUTOR_A) }, effect.effectId)) {
        expect(answer).toMatchObject({ code: 'UNAUTHENTICATED', reason: 'WORKLOAD_NOT_CURRENT' });
      }
      [executor, reconciler] = [await world.executor(), await world.reconciler()];
      await seen({ channel: world.channel(EXECUTOR_A) });
    });

    test('an executor also sees what it started, a reconciler what it settled', async () => {
      const [a, r] = [await world.executor(), await world.reconciler()];
      const unknown = await world.effectIn(UNKNOWN, a);
      await reconcileAs(world, r, unknown, SUCCEEDED);
      // Whatever else they stand for by now.
      for (const { registration } of [a, r]) {
        await bySuperuser(world, `UPDATE registrations SET sinks = '{mail}' WHERE registration_id = $1`, [
          registration.registrationId,
        ]);
      }
      const settled = [SUCCEEDED, SUCCEEDED, SUCCEEDED];
      expect(await readAs(as(a), unknown.effect.effectId)).toEqual(settled);
      expect(await readAs(as(r), unknown.effect.effectId)).toEqual(settled);
      await unseen(as(a));
      await unseen(as(r));
    });

    test('a reconciler sees what it is bound to or stands for, and no other', async () => {
      await seen(as(reconciler));
      const { eventId, grantId } = effect;
      await seen(as(await world.reconciler({ parentEventId: eventId, grantId })));
      await unseen(as(await world.reconciler({ parentEventId: await world.publish(), grantId })));
      await unseen(as(await world.reconciler({ sinks: ['mail'] })));
    });

    test('operators and auditors see their domain, which they name', async () => {
      for (const spiffeId of [OPERATOR, AUDITOR]) {
        await seen({ channel: world.channel(spiffeId), request: { domainId: ACME } });
        await unseen({ channel: world.channel(spiffeId), request: { domainId: GLOBEX } });
      }
    });

    test('an auditor of another domain does not, and sees its own', async () => {
      const channel = world.channel(SCOPED_AUDITOR);
      await unseen({ channel, request: { domainId: ACME } });
      await unseen({ channel, request: { domainId: GLOBEX } });
      const list = await channel.service(EffectService).listEffects({ domainId: GLOBEX });
      expect(list.effects).toEqual([]);
    });

    test('a caller that nobody has registered is no caller', async () => {
      const channel = world.channel(`spiffe://${GLOBEX}/reconciler/bank`);
      for (const answer of await readAs({ channel }, effect.effectId)) {
        expect(answer).toMatchObject({ code: 'UNAUTHENTICATED', reason: 'CALLER_UNKNOWN' });
      }
    });

    test('nobody of another domain does, whatever domain is named', async () => {
      const spiffeId = (path: string) => `spiffe://${GLOBEX}/${path}`;
      await world.executor(spiffeId('executor/payments-a'), { domainId: GLOBEX });
      await world.reconciler({ domainId: GLOBEX, spiffeId: spiffeId('reconciler/bank') });
      for (const path of ['harness/planner', 'executor/payments-a', 'reconciler/bank']) {
        const channel = world.channel(spiffeId(path));
        // Whoever was unknown a moment ago may be so for a moment more.
        await expect.poll(() => isKnown(channel)).toBe(true);
        await unseen({ channel });
        await unseen({ channel, request: { domainId: ACME } });
      }
    });
  });

  test.each([
    ['PREPARED', RetryAdvice.WAIT],
    ['EXECUTING', RetryAdvice.WAIT],
    ['UNKNOWN', RetryAdvice.RECONCILE],
    ['SUCCEEDED', RetryAdvice.DONE],
    ['FAILED', RetryAdvice.NEW_EVENT],
    ['CANCELLED', RetryAdvice.NEW_EVENT],
  ] as const)('CheckRetry of %s', async (name, advice) => {
    const state = EffectState[name];
    const { effectId } = (await world.effectIn(state, executor)).effect;
    const askers: Asker[] = [
      { channel: world.channel(HARNESS) },
      as(executor),
      as(reconciler),
      { channel: world.channel(AUDITOR), request: { domainId: ACME } },
    ];
    for (const { channel, request } of askers) {
      const reply = await channel.service(EffectService).checkRetry({ effectId, ...request });
      expect(reply).toMatchObject({ advice, state });
    }
  });

  describe('GetEffectHistory', () => {
    const history = async (effectId: string, pageSize = 0): Promise<EffectStep[]> => {
      const steps: EffectStep[] = [];
      let pageToken = '';
      do {
        const page = await world
          .channel(HARNESS)
          .service(EffectService)
          .getEffectHistory({ effectId, pageSize, pageToken });
        steps.push(...page.steps);
        pageToken = page.nextPageToken;
      } while (pageToken !== '');
      return steps;
    };

    test('has the steps, contiguous from 1, whatever the size of the page', async () => {
      const unknown = await world.effectIn(UNKNOWN, executor);
      const { effectId } = unknown.effect;
      const late = await executor.acknowledge(unknown.effect, FAILED, {
        attemptId: unknown.attemptId,
        receiptId: 'receipt-late',
        receipt: 'no',
      });
      const acknowledge = executor.channel.service(EffectService).acknowledgeTerminal(late);
      expect(await refusedWith(acknowledge)).toMatchObject({ reason: 'EFFECT_MUST_RECONCILE' });
      await reconcileAs(world, reconciler, unknown, SUCCEEDED);

      const steps = await history(effectId);
      const { attemptId } = unknown;
      const line = (from: EffectState, to: EffectState, source: StateSource, actorSpiffeId: string) => ({
        fromState: from,
        toState: to,
        source,
        actorSpiffeId,
      });
      expect(steps).toMatchObject([
        { ...line(0, PREPARED, StateSource.RESERVATION, HARNESS), attemptId: '' },
        { ...line(PREPARED, EXECUTING, StateSource.EXECUTOR, EXECUTOR_A), attemptId },
        { ...line(EXECUTING, UNKNOWN, StateSource.EXECUTOR, EXECUTOR_A), attemptId },
        { ...line(UNKNOWN, UNKNOWN, StateSource.EXECUTOR, EXECUTOR_A), attemptId, lateEvidence: true },
        { ...line(UNKNOWN, SUCCEEDED, StateSource.RECONCILER, RECONCILER), attemptId, lateEvidence: false },
      ]);
      expect(steps.map(({ step }) => step)).toEqual([1n, 2n, 3n, 4n, 5n]);
      const times = steps.map(({ time }) => (time ? timestampMs(time) : 0));
      expect(times).toEqual([...times].sort((a, b) => a - b));
      steps.forEach((step, index) => {
        const length = index === 0 ? 0 : 32;
        expect([step.evidenceDigest.length, step.proofDigest.length]).toEqual([length, length]);
        expect(step.fence).toBe(unknown.effect.fence);
        expect(step.auditPosition).toBeGreaterThan(steps[index - 1]?.auditPosition ?? 0n);
      });
      for (const pageSize of [1, 2, 3, 5, 1000]) expect(await history(effectId, pageSize)).toEqual(steps);
    });

    test('has nothing of evidence and proof but their digests', async () => {
      const { effectId } = (await world.effectIn(SUCCEEDED, executor)).effect;
      const shown = JSON.stringify([await history(effectId), await executor.look(effectId)], (_, value) =>
        typeof value === 'bigint' ? String(value) : value,
      );
      expect(shown).not.toContain(`receipt-${effectId}`);
      expect(shown).not.toContain(executor.instanceId);
    });

    test('a token of another effect, or made up, is an error of the argument', async () => {
      const [one, two] = [
        (await world.effectIn(EXECUTING, executor)).effect.effectId,
        (await world.effectIn(EXECUTING, executor)).effect.effectId,
      ];
      const effects = world.channel(HARNESS).service(EffectService);
      const { nextPageToken } = await effects.getEffectHistory({ effectId: one, pageSize: 1 });
      expect(nextPageToken).not.toBe('');
      for (const pageToken of [nextPageToken, 'x', `${nextPageToken}x`, '\0', 'A'.repeat(5000)]) {
        const error = await refusedWith(effects.getEffectHistory({ effectId: two, pageToken }));
        expect(error).toMatchObject({ code: 'INVALID_ARGUMENT', reason: 'FIELD_INVALID' });
        expect(error.violations.map(({ field }) => field)).toEqual(['page_token']);
      }
      for (const pageSize of [-1, 1001]) {
        const error = await refusedWith(effects.getEffectHistory({ effectId: one, pageSize }));
        expect(error.violations.map(({ field }) => field)).toEqual(['page_size']);
      }
    });
  });

  test('GetEffect tells what was reserved, by whom and what became of it', async () => {
    const request = await reservation(world, { effectKey: 'shown', repeatable: true });
    const reply = await reserveAs(world, HARNESS, request);
    const shown = await executor.look(reply.effectId);
    expect(shown).toMatchObject({
      effectId: reply.effectId,
      domainId: ACME,
      eventId: request.eventId,
      grantId: request.grantId,
      action: 'refund.create',
      resource: 'order-1184',
      inputSource: 'crm',
      outputSink: 'payments',
      dataClass: request.dataClass,
      requestDigest: Buffer.from(request.request?.value ?? []),
      effectKey: 'shown',
      effectKeyDigest: reply.effectKeyDigest,
      holdsKey: true,
      repeatable: true,
      fence: reply.fence,
      state: PREPARED,
      stateSource: StateSource.RESERVATION,
      harnessId: 'planner',
      principalId: 'paula',
      guestId: '',
      attemptId: '',
      step: 1n,
      auditPosition: reply.auditPosition,
      decisionId: reply.decisionId,
      startBeforeTime: reply.startBeforeTime,
      disputed: false,
      lateEvidenceCount: 0,
    });
    await cancel(world, reply.effectId);
    expect(await executor.look(reply.effectId)).toMatchObject({ state: CANCELLED, step: 2n });
  });
});
