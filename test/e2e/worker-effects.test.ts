import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { toJsonString } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { WorkerSession } from '../../src/cli/client/worker-session.js';
import { digest, type WorkloadSession } from '../../src/cli/client/workload-session.js';
import { FakeProvider, type ProviderConduct } from '../../src/cli/demo/fake-provider.js';
import { executionRequest } from '../../src/cli/worker/execution-request.js';
import { EFFECT_RECEIPT_KIND } from '../../src/cli/worker/gate-of-view.js';
import { type StepName, type WorkerEntry } from '../../src/cli/worker/steps.js';
import { ActionState, FailureReason } from '../../src/gen/surety/action/v1/action_pb.js';
import { ActionService } from '../../src/gen/surety/action/v1/action_service_pb.js';
import { EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { RegistrationSpecSchema } from '../../src/gen/surety/identity/v1/workload_pb.js';
import { ActionParties, DELIVERY, OWNER, WORKER } from '../support/action-parties.js';
import { runCommand } from '../support/command-process.js';
import { AUDITOR, type E2eWorld, EXECUTOR_A, openE2eWorld, refusedWith } from '../support/e2e-world.js';
import {
  FLEET_POLICY,
  type Interception,
  intercepted,
  Killed,
  lostAnswer,
  makeWorker,
} from '../support/worker-fleet.js';

// actions.md, With an effect: one dispatch, one effect, one trail; and what the reference worker makes of answers.

let world: E2eWorld;
let parties: ActionParties;
let executor: WorkloadSession;
let provider: FakeProvider;
beforeAll(async () => {
  world = await openE2eWorld();
  parties = await ActionParties.join(world);
  executor = await world.executor();
  provider = await FakeProvider.start((body) => ({
    conduct: (/conduct=(\w+)/.exec(body)?.[1] ?? 'honest') as ProviderConduct,
    lateMs: 4_000,
  }));
}, 60_000);
afterAll(async () => {
  await provider.close();
  await world.close();
});

function proposal(conduct: ProviderConduct) {
  const payload = { tool_name: 'mail.send', text: `conduct=${conduct}` };
  return { payload: Uint8Array.from(Buffer.from(JSON.stringify(payload))) };
}

/** Proposed, an effect reserved for its exact request, which a receipt of the proposer's names, and approved. */
async function withEffect(conduct: ProviderConduct, requestDigest?: Uint8Array<ArrayBuffer>) {
  const action = await parties.propose(proposal(conduct));
  const { actionId } = action;
  const seen = await parties.owner.look(actionId);
  const value = requestDigest ?? executionRequest(seen).executionDigest;
  const request = { case: 'requestDigest' as const, value };
  const { effectId } = await world.reserve({ request, effectKey: actionId });
  await parties.proposer.addReceipt({
    actionId,
    receipt: {
      receiptKey: 'effect',
      kind: EFFECT_RECEIPT_KIND,
      status: 'reserved',
      externalId: effectId,
      evidence: Uint8Array.from(Buffer.from('{}')),
    },
  });
  const approval = await parties.owner.approval(seen, { fields: DELIVERY });
  await world.channel(OWNER).service(ActionService).gateAction(approval);
  return { actionId, effectId };
}

/** Works on one action until nothing is ready. */
async function work(actionId: string, parts: Partial<Parameters<typeof makeWorker>[0]> = {}) {
  const entries: WorkerEntry[] = [];
  const worker = makeWorker({
    ...{ session: parties.worker, providerUrl: provider.url, scope: { actionIds: [actionId] }, executor },
    tell: (entry) => void entries.push(entry),
    ...parts,
  });
  await worker.drain();
  return entries.filter(({ actionId: id }) => id !== '').map(({ step, state }) => `${step} ${state}`.trim());
}

const effectOf = (effectId: string) => executor.look(effectId);
const requestsOf = (action: { executionDigest: Uint8Array }) =>
  provider.records.get(Buffer.from(action.executionDigest).toString('hex'))?.requests ?? 0;

describe('an action that carries an effect', () => {
  test('is dispatched, the effect started before the request and acknowledged after', async () => {
    const { actionId, effectId } = await withEffect('honest');
    expect((await work(actionId)).slice(2, 7)).toEqual([
      'BeginDispatch DISPATCHED',
      'StartExecution EXECUTING',
      'Send done',
      'AcknowledgeTerminal SUCCEEDED',
      'AcceptAction ACCEPTED',
    ]);
    const action = await parties.owner.look(actionId);
    expect(action).toMatchObject({ state: ActionState.COMPLETED, effectId });
    expect(await effectOf(effectId)).toMatchObject({ state: EffectState.SUCCEEDED });
    expect(requestsOf(action)).toBe(1);
  });

  test('whose answer is lost leaves the effect to a reconciler, and is settled itself by looking', async () => {
    const { actionId, effectId } = await withEffect('loses_answer');
    expect(await work(actionId)).toEqual(
      expect.arrayContaining(['Send doubt', 'MarkUnknown UNKNOWN', 'CompleteAction COMPLETED']),
    );
    expect(await effectOf(effectId)).toMatchObject({ state: EffectState.UNKNOWN });
  });

  test('that the provider refuses has failed, and so has the effect', async () => {
    const { actionId, effectId } = await withEffect('retryable');
    await work(actionId);
    const action = await parties.owner.look(actionId);
    expect(action).toMatchObject({ state: ActionState.FAILED, retryable: true, attemptCount: 1 });
    expect(await effectOf(effectId)).toMatchObject({ state: EffectState.FAILED });
    expect(requestsOf(action)).toBe(1);
  });

  test('is not sent where the effect cannot be started', async () => {
    const { actionId, effectId } = await withEffect('honest');
    const stranger = Object.create(executor, {
      registration: { value: { ...executor.registration, workloadId: 'another' } },
    }) as WorkloadSession;
    expect((await work(actionId, { executor: stranger })).slice(2)).toEqual([
      'BeginDispatch DISPATCHED',
      'StartExecution',
      'FailAction FAILED',
    ]);
    const action = await parties.owner.look(actionId);
    expect([action.failureReason, requestsOf(action)]).toEqual([FailureReason.WORKER, 0]);
    expect(await effectOf(effectId)).toMatchObject({ state: EffectState.PREPARED });
  });

  test('is not dispatched with an effect of another request, nor by a worker without an executor', async () => {
    const other = await withEffect('honest', digest('another request'));
    expect((await work(other.actionId)).slice(-2)).toEqual(['BeginDispatch', 'FailAction FAILED']);
    const { actionId } = await withEffect('honest');
    const entries: WorkerEntry[] = [];
    const alone = makeWorker({
      ...{ session: parties.worker, providerUrl: provider.url, scope: { actionIds: [actionId] } },
      tell: (entry) => void entries.push(entry),
    });
    await alone.drain();
    expect(entries.map(({ step }) => step)).toContain('DeferLeased');
    expect((await parties.owner.look(actionId)).attemptCount).toBe(0);
  });

  test.each([
    ['after', 'BeginDispatch'],
    ['before', 'Send'],
  ] as const)(
    'is not sent where the lease was over %s %s, and the effect is cancelled',
    async (moment, when) => {
      const { actionId, effectId } = await withEffect('honest');
      let slept = 0;
      const hook = (at: 'before' | 'after', step: StepName): void => {
        if (at === moment && step === when) slept = FLEET_POLICY.leaseMs;
      };
      const clock = (): number => performance.now() + slept;
      expect((await work(actionId, { hook, clock })).slice(3)).toEqual([
        'StartExecution EXECUTING',
        'Send not_sent',
        'AcknowledgeTerminal CANCELLED',
        'FailAction FAILED',
      ]);
      expect(requestsOf(await parties.owner.look(actionId))).toBe(0);
      expect(await effectOf(effectId)).toMatchObject({ state: EffectState.CANCELLED });
    },
  );

  test('is worked on by `surety worker` with the files of an executor beside its own', async () => {
    const { actionId, effectId } = await withEffect('honest');
    const folder = mkdtempSync(path.join(tmpdir(), 'surety-executor-'));
    try {
      const [registration, signingKey] = ['registration.json', 'signing-key.pem'].map((name) =>
        path.join(folder, name),
      ) as [string, string];
      writeFileSync(registration, toJsonString(RegistrationSpecSchema, executor.registration));
      writeFileSync(signingKey, executor.key.privateKey.export({ type: 'pkcs8', format: 'pem' }));
      const [own, executors] = [WORKER, EXECUTOR_A].map((id) => world.layout.callers[id]);
      const { code, out, err } = await runCommand([
        ...['worker', '--once', '--target', world.service.target, '--roots', world.layout.serviceBundle],
        ...['--cert', own?.cert ?? '', '--key', own?.key ?? '', '--provider', provider.url],
        ...['--registration', parties.worker.registration.registrationId, '--delay', '1h'],
        ...['--executor-cert', executors?.cert ?? '', '--executor-key', executors?.key ?? ''],
        ...['--executor-registration', registration, '--executor-signing-key', signingKey],
      ]);
      expect([code, err]).toEqual([0, '']);
      expect(out).toContain(`${actionId} AcknowledgeTerminal SUCCEEDED`);
    } finally {
      rmSync(folder, { recursive: true });
    }
    expect((await parties.owner.look(actionId)).state).toBe(ActionState.COMPLETED);
    expect((await effectOf(effectId)).state).toBe(EffectState.SUCCEEDED);
  });

  const deaths: readonly (readonly [StepName, 'before' | 'after', EffectState, ActionState, number])[] = [
    ['StartExecution', 'before', EffectState.PREPARED, ActionState.FAILED, 0],
    ['StartExecution', 'after', EffectState.UNKNOWN, ActionState.FAILED, 0],
    ['Send', 'after', EffectState.UNKNOWN, ActionState.COMPLETED, 1],
    ['AcknowledgeTerminal', 'after', EffectState.SUCCEEDED, ActionState.COMPLETED, 1],
  ];
  test.each(deaths)(
    'whose worker dies at %s (%s) is only looked at',
    async (step, moment, effect, end, sent) => {
      const { actionId, effectId } = await withEffect('honest');
      const hook = (at: 'before' | 'after', taken: StepName): void => {
        if (at === moment && taken === step) throw new Killed();
      };
      const policy = { leaseMs: 60_000 };
      await expect(work(actionId, { hook, policy })).rejects.toThrow(Killed);
      await world.advance(61_000);
      await work(actionId);
      const action = await parties.owner.look(actionId);
      expect(action.state).toBe(end);
      expect(requestsOf(action)).toBe(sent);
      expect((await effectOf(effectId)).state).toBe(effect);
    },
  );
});

describe('BeginDispatch without an answer', () => {
  /** A worker that waits for nothing but the test clock. */
  const patience = { sendings: 1 };
  const through = (around: Interception) =>
    new WorkerSession(intercepted(parties.worker.channel, around), parties.worker.registration, patience);

  test('that was done leaves only looking: nothing is sent', async () => {
    const { actionId } = (await parties.gated(proposal('honest'))).action;
    const session = through(async (method, call) => {
      const answer = await call();
      if (method === 'beginDispatch') throw lostAnswer();
      return answer;
    });
    const steps = await work(actionId, { session });
    expect(steps.slice(2, 5)).toEqual([
      'BeginDispatch',
      'DeferLeased DISPATCHED',
      'DeferObservation DISPATCHED',
    ]);
    const action = await parties.owner.look(actionId);
    expect(action).toMatchObject({ failureReason: FailureReason.OBSERVATIONS_EXHAUSTED, attemptCount: 1 });
    expect([steps.includes('Send done'), requestsOf(action)]).toEqual([false, 0]);
  });

  test('that was not done, and comes after the lease was given away, is refused; another lease dispatches', async () => {
    const { actionId } = (await parties.gated(proposal('honest'))).action;
    let late: (() => Promise<unknown>) | undefined;
    const session = through(async (method, call) => {
      if (method !== 'beginDispatch') return call();
      late = call;
      throw lostAnswer();
    });
    expect((await work(actionId, { session })).slice(2)).toEqual(['BeginDispatch', 'DeferLeased GATED']);
    expect(await refusedWith(late?.() ?? Promise.resolve())).toMatchObject({ reason: 'LEASE_LOST' });
    await world.advance(61_000);
    expect((await work(actionId)).at(-1)).toBe('CompleteAction COMPLETED');
    expect(requestsOf(await parties.owner.look(actionId))).toBe(1);
  });
});

describe('a provider that lies or is silent', () => {
  test.each([
    ['wrong_digest', ActionState.COMPLETED, FailureReason.UNSPECIFIED],
    ['late', ActionState.COMPLETED, FailureReason.UNSPECIFIED],
    ['loses_request', ActionState.FAILED, FailureReason.OBSERVATIONS_EXHAUSTED],
    ['refuses', ActionState.FAILED, FailureReason.WORKER],
  ] as const)('(%s) is believed nothing that a reading does not show', async (conduct, state, reason) => {
    const { action } = await parties.gated(proposal(conduct));
    // Readings are not late, however slow the machine.
    await work(action.actionId, conduct === 'late' ? { policy: { providerTimeoutMs: 1_500 } } : {});
    const ended = await parties.owner.look(action.actionId);
    expect(ended).toMatchObject({ state, failureReason: reason });
    expect(requestsOf(ended)).toBe(1);
  });

  test('(false_done) fails once its acceptance is not confirmed in time', async () => {
    const { action } = await parties.gated(proposal('false_done'));
    const { actionId } = action;
    expect((await work(actionId)).at(-1)).toBe('DeferLeased ACCEPTED');
    await world.advance(61_000);
    await work(actionId);
    expect(await parties.owner.look(actionId)).toMatchObject({ state: ActionState.FAILED });
    const { deadLetters } = await world
      .channel(AUDITOR)
      .service(ActionService)
      .listDeadLetters({ domainId: action.domainId });
    expect(deadLetters.find((letter) => letter.actionId === actionId)?.detail).toBe(
      'the provider does not confirm what it accepted',
    );
  });
});
