import { randomUUID } from 'node:crypto';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { WorkloadRole } from '../../gen/surety/identity/v1/workload_pb.js';
import type { AdminSession } from '../client/admin-session.js';
import type { Channel } from '../client/service-client.js';
import type { FakeBank } from './fake-bank.js';
import { registerRole } from './register-role.js';
import type { RoleHandle } from './role-handle.js';
import {
  DEMO_ACTION,
  DEMO_AUTHORITY_SYSTEM,
  DEMO_DATA_CLASS,
  DEMO_HARNESS,
  DEMO_INPUT_SOURCE,
  DEMO_PRINCIPAL,
  DEMO_SINK,
} from './set-up-domain.js';
import type { Timeline } from './timeline.js';
import { verifyChain } from './verify-chain.js';

/** Who plays in the story, each in a process and with a certificate of its own. */
export interface Cast {
  readonly domainId: string;
  readonly admin: AdminSession;
  readonly operator: Channel;
  readonly auditor: Channel;
  readonly harness: RoleHandle;
  readonly executorA: RoleHandle;
  readonly executorB: RoleHandle;
  readonly reconciler: RoleHandle;
  readonly bank: FakeBank;
}

const YEAR_MS = 365 * 86_400_000;

/** The main job of the service, done for real: one effect that goes well, one that loses its answer, and what is refused. */
export async function tellStory(cast: Cast, timeline: Timeline): Promise<void> {
  const run = randomUUID().slice(0, 8);
  await registerAll(cast);
  const happy = await happyPath(cast, timeline, run);
  await lostAnswer(cast, timeline, run);
  await replayedNonce(cast, timeline, run, happy);
  timeline.chain(await verifyChain(cast.auditor, cast.domainId));
}

/** Refund one: reserved, started, sent, acknowledged. */
async function happyPath(cast: Cast, timeline: Timeline, run: string): Promise<string> {
  const { harness, executorA, bank } = cast;
  const order = `order-1184-${run}`;
  const reserved = await reserveFor(cast, timeline, run, order, {
    name: 'A refund is reserved',
    expect: { outcome: 'ok', state: 'PREPARED' },
  });
  const attemptId = `attempt-${randomUUID()}`;
  await timeline.step(
    { name: 'Executor A asks for leave to send', actor: executorA.spiffeId, rpc: 'StartExecution' },
    () => executorA.call('start', { effectId: reserved, attemptId }),
    { outcome: 'ok', state: 'EXECUTING' },
  );
  const receipt = bank.refund(order);
  await timeline.step(
    {
      name: 'The bank answered: executor A acknowledges',
      actor: executorA.spiffeId,
      rpc: 'AcknowledgeTerminal',
      effectId: reserved,
    },
    () =>
      executorA.call('acknowledge', {
        effectId: reserved,
        attemptId,
        receiptId: receipt.id,
        receipt: receipt.text,
      }),
    { outcome: 'ok', state: 'SUCCEEDED' },
  );
  await timeline.step(
    { name: 'The same refund under another event is refused', actor: harness.spiffeId, rpc: 'ReserveEffect' },
    () => reserveCall(cast, run, `${order}-again`, order, `refund:${order}`, 'please refund it'),
    { outcome: 'refused', code: 'FAILED_PRECONDITION', reason: 'EFFECT_KEY_DONE' },
  );
  return reserved;
}

/** Refund two: sent, but the answer is lost; nobody guesses. */
async function lostAnswer(cast: Cast, timeline: Timeline, run: string): Promise<void> {
  const { harness, executorB, reconciler, bank } = cast;
  const order = `order-2077-${run}`;
  const effectId = await reserveFor(cast, timeline, run, order, {
    name: 'A second refund is reserved',
    expect: { outcome: 'ok', state: 'PREPARED' },
  });
  const attemptId = `attempt-${randomUUID()}`;
  await timeline.step(
    { name: 'Executor B asks for leave to send', actor: executorB.spiffeId, rpc: 'StartExecution' },
    () => executorB.call('start', { effectId, attemptId }),
    { outcome: 'ok', state: 'EXECUTING' },
  );
  bank.refund(order);
  await timeline.step(
    {
      name: 'The answer is lost: executor B says that it does not know',
      actor: executorB.spiffeId,
      rpc: 'MarkUnknown',
      effectId,
    },
    () => executorB.call('markUnknown', { effectId, attemptId }),
    { outcome: 'ok', state: 'UNKNOWN' },
  );
  await timeline.step(
    {
      name: 'A blind acknowledgement is refused',
      actor: executorB.spiffeId,
      rpc: 'AcknowledgeTerminal',
      effectId,
    },
    () =>
      executorB.call('acknowledge', {
        effectId,
        attemptId,
        receiptId: 'no-receipt-seen',
        receipt: 'it must have worked',
      }),
    { outcome: 'refused', code: 'FAILED_PRECONDITION', reason: 'EFFECT_MUST_RECONCILE' },
  );
  await timeline.step(
    {
      name: 'Executor B may not settle its own doubt',
      actor: executorB.spiffeId,
      rpc: 'Reconcile',
      effectId,
    },
    () =>
      executorB.call('reconcile', {
        effectId,
        attemptId,
        authoritySystemId: DEMO_AUTHORITY_SYSTEM,
        queryId: 'query-by-executor',
        response: 'I say so',
      }),
    { outcome: 'refused', code: 'PERMISSION_DENIED', reason: 'METHOD_NOT_ALLOWED' },
  );
  await timeline.step(
    { name: 'A reworded retry is refused: the key is held', actor: harness.spiffeId, rpc: 'ReserveEffect' },
    () =>
      reserveCall(
        cast,
        run,
        `${order}-retry`,
        order,
        `refund:${order}`,
        'kindly refund this order, thank you',
      ),
    { outcome: 'refused', code: 'FAILED_PRECONDITION', reason: 'EFFECT_KEY_BUSY' },
  );
  const answer = bank.ask(order);
  await timeline.step(
    {
      name: 'The reconciler asks the bank and settles it',
      actor: reconciler.spiffeId,
      rpc: 'Reconcile',
      effectId,
    },
    () =>
      reconciler.call('reconcile', {
        effectId,
        attemptId,
        authoritySystemId: DEMO_AUTHORITY_SYSTEM,
        queryId: answer.queryId,
        response: answer.text,
      }),
    { outcome: 'ok', state: 'SUCCEEDED' },
  );
}

/** Refund three: a token that was spent opens nothing, and the reservation is taken back. */
async function replayedNonce(cast: Cast, timeline: Timeline, run: string, spentOn: string): Promise<void> {
  const { harness, executorA } = cast;
  const order = `order-3001-${run}`;
  const effectId = await reserveFor(cast, timeline, run, order, {
    name: 'A third refund is reserved',
    expect: { outcome: 'ok', state: 'PREPARED' },
  });
  await timeline.step(
    {
      name: 'A spent nonce in a new statement is refused',
      actor: executorA.spiffeId,
      rpc: 'StartExecution',
      effectId,
    },
    () => executorA.call('startWithSpentNonce', { effectId, attemptId: `attempt-${randomUUID()}`, spentOn }),
    { outcome: 'refused', code: 'ALREADY_EXISTS', reason: 'PROOF_REPLAYED' },
  );
  await timeline.step(
    { name: 'The harness cancels what was not started', actor: harness.spiffeId, rpc: 'CancelEffect' },
    () => harness.call('cancel', { effectId }),
    { outcome: 'ok', state: 'CANCELLED' },
  );
}

async function reserveFor(
  cast: Cast,
  timeline: Timeline,
  run: string,
  order: string,
  telling: { name: string; expect: { outcome: 'ok'; state: string } },
): Promise<string> {
  const result = await timeline.step(
    { name: telling.name, actor: cast.harness.spiffeId, rpc: 'ReserveEffect' },
    () => reserveCall(cast, run, order, order, `refund:${order}`, `refund ${order}`),
    telling.expect,
  );
  return result['effectId'] ?? '';
}

/** Publishes an event of its own, has a grant issued for it, and reserves. */
async function reserveCall(
  cast: Cast,
  run: string,
  event: string,
  resource: string,
  effectKey: string,
  request: string,
): Promise<Readonly<Record<string, string>>> {
  const eventId = `ticket-${event}`;
  const grantId = `grant-${event}`;
  await cast.harness.must('publish', { eventId, payload: `ticket about ${resource} in run ${run}` });
  await cast.admin.execute(
    cast.domainId,
    {
      case: 'createGrant',
      value: {
        grant: {
          grantId,
          principalId: DEMO_PRINCIPAL,
          harnessId: DEMO_HARNESS,
          actions: [DEMO_ACTION],
          resources: [resource],
          inputSources: [DEMO_INPUT_SOURCE],
          outputSinks: [DEMO_SINK],
          dataClasses: [DEMO_DATA_CLASS],
          maxUses: 1n,
          expireTime: timestampFromMs(Date.now() + YEAR_MS),
        },
      },
    },
    'one refund',
  );
  return cast.harness.call('reserve', { eventId, grantId, resource, request, effectKey });
}

async function registerAll(cast: Cast): Promise<void> {
  for (const handle of [cast.executorA, cast.executorB, cast.reconciler]) {
    const reconciler = handle === cast.reconciler;
    await registerRole(cast, handle, {
      role: reconciler ? WorkloadRole.EFFECT_RECONCILER : WorkloadRole.EFFECT_EXECUTOR,
      workloadId: reconciler ? `effect-system:${DEMO_AUTHORITY_SYSTEM}` : handle.name,
      sinks: [DEMO_SINK],
    });
  }
}
