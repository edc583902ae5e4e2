import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { FailureReason } from '../../gen/surety/action/v1/action_pb.js';
import { ActionService } from '../../gen/surety/action/v1/action_service_pb.js';
import { SuretyError } from '../client/surety-error.js';
import type { StepName, WorkerEntry } from '../worker/steps.js';
import type { RoleHandle } from './role-handle.js';
import type { Stage } from './stage.js';
import type { Expectation, Timeline } from './timeline.js';
import { verifyChain } from './verify-chain.js';

/** Who plays in the story of actions, each in a process and with a certificate of its own. */
export interface ActionCast extends Stage {
  readonly harness: RoleHandle;
  readonly owner: RoleHandle;
  readonly mailer: RoleHandle;
  readonly courier: RoleHandle;
}

const AUDITOR = 'spiffe://surety.test/auditor/ann';

/** An approval, or a lease, that ends while the story looks on, in milliseconds. */
const SHORT_MS = 2_000;
/** The store's clock is the same machine's; a little more than what must be over. */
const MARGIN_MS = 300;

/** Governed actions, done for real: doubt that is settled, doubt that is not, a lease that is lost and an approval that died. */
export async function tellActions(cast: ActionCast, timeline: Timeline): Promise<void> {
  await lostAnswer(cast, timeline);
  await budgetUsed(cast, timeline);
  await stolenLease(cast, timeline);
  await expiredApproval(cast, timeline);
  timeline.chain(await verifyChain(cast.auditor, cast.domainId));
}

/** Reply one: sent once, the answer is lost; two looks settle it. */
async function lostAnswer(cast: ActionCast, timeline: Timeline): Promise<void> {
  timeline.scene('A reply is sent, and the answer is lost.');
  const { actionId } = await proposed(cast, timeline, 'the provider loses the answer');
  await approved(cast, timeline, actionId);
  await tellWork(timeline, cast.mailer, actionId, 'work', [...SENT_IN_DOUBT]);
  await tellWork(timeline, cast.mailer, actionId, 'work', [
    ...LOOKED,
    ['Read', 'doubt'],
    ['DeferObservation', 'DISPATCHED'],
  ]);
  await tellWork(timeline, cast.mailer, actionId, 'work', [...LOOKED, ['Read', 'done'], ...SETTLED]);
}

/** Reply two: lost on the way; what nobody can tell is not guessed, and not sent again. */
async function budgetUsed(cast: ActionCast, timeline: Timeline): Promise<void> {
  timeline.scene('A second one is lost on the way, and its budget of observations runs out.');
  const { actionId, key } = await proposed(cast, timeline, 'the provider loses the request');
  await approved(cast, timeline, actionId);
  await tellWork(timeline, cast.mailer, actionId, 'work', [...SENT_IN_DOUBT]);
  const looked = [...LOOKED, ['Read', 'doubt']] as const;
  await tellWork(timeline, cast.mailer, actionId, 'work', [...looked, ['DeferObservation', 'DISPATCHED']]);
  await tellWork(timeline, cast.mailer, actionId, 'work', [...looked, ['DeferObservation', 'FAILED']]);
  await timeline.step(
    {
      name: 'Proposing it again is answered by the action that there is',
      actor: cast.harness.spiffeId,
      rpc: 'ProposeAction',
    },
    () => cast.harness.call('propose', { key, text: 'the provider loses the request' }),
    { outcome: 'ok', state: 'FAILED' },
  );
  await left(cast, timeline, actionId, 'OBSERVATIONS_EXHAUSTED');
}

/** Reply three: a worker falls asleep over its lease, and wakes when another has it. */
async function stolenLease(cast: ActionCast, timeline: Timeline): Promise<void> {
  timeline.scene('A worker sleeps until its lease is over, and another goes on.');
  const { mailer, courier } = cast;
  const { actionId } = await proposed(cast, timeline, 'a reply that two workers had');
  await approved(cast, timeline, actionId);
  const take = (worker: RoleHandle, leaseMs: number, name: string) =>
    timeline.step(
      { name, actor: worker.spiffeId, rpc: 'LeaseNext', actionId },
      () => worker.call('lease', { actionId, leaseMs: String(leaseMs) }),
      { outcome: 'ok', state: 'GATED' },
    );
  await take(mailer, SHORT_MS, 'One worker takes it, for two seconds');
  const { gate = '' } = await mailer.must('gate', { actionId });
  await take(courier, SHORT_MS * 30, 'They are over: another takes it');
  await timeline.step(
    { name: 'The first wakes, and may not send', actor: mailer.spiffeId, rpc: 'BeginDispatch', actionId },
    () => mailer.call('dispatch', { actionId, gate }),
    { outcome: 'refused', code: 'ABORTED', reason: 'LEASE_LOST' },
  );
  const [, ...afterLease] = SENT;
  await tellWork(timeline, courier, actionId, 'goOn', [...afterLease, ...SETTLED]);
}

/** Reply four: approved, but for two seconds. */
async function expiredApproval(cast: ActionCast, timeline: Timeline): Promise<void> {
  timeline.scene('An approval dies before its use.');
  const { actionId } = await proposed(cast, timeline, 'a reply that came too late');
  await approved(cast, timeline, actionId, SHORT_MS);
  await sleep(SHORT_MS + MARGIN_MS);
  await tellWork(timeline, cast.courier, actionId, 'work', [
    ['LeaseNext', 'GATED'],
    ['GetDispatchView', 'GATED'],
    ['BeginDispatch', { outcome: 'refused', code: 'FAILED_PRECONDITION', reason: 'APPROVAL_EXPIRED' }],
    ['FailAction', 'FAILED'],
  ]);
  await left(cast, timeline, actionId, 'APPROVAL_EXPIRED');
}

/** An auditor reads what is left of an action that failed, and why it did: what the worker said, or what the service found. */
async function left(
  { auditor, domainId }: ActionCast,
  timeline: Timeline,
  actionId: string,
  why: string,
): Promise<void> {
  const read = async (): Promise<Readonly<Record<string, string>>> => {
    const { deadLetters } = await auditor.service(ActionService).listDeadLetters({ domainId });
    const letter = deadLetters.find((each) => each.actionId === actionId);
    if (!letter) throw new Error('there is no dead letter');
    const { failureReason, detail } = letter;
    const said = failureReason === FailureReason.WORKER ? detail : FailureReason[failureReason];
    return { actionId, state: 'FAILED', reason: said };
  };
  const name = 'An auditor reads its dead letter: what the service found, or the detail that the worker gave';
  const { reason } = await timeline.step({ name, actor: AUDITOR, rpc: 'ListDeadLetters', actionId }, read, {
    outcome: 'ok',
    state: 'FAILED',
  });
  if (reason !== why) timeline.surprises.push(`${name}: ${reason}, not ${why}`);
}

async function proposed(
  { harness }: ActionCast,
  timeline: Timeline,
  text: string,
): Promise<{ readonly actionId: string; readonly key: string }> {
  const key = `reply-${randomUUID()}`;
  const { actionId = '' } = await timeline.step(
    { name: 'An agent proposes a reply by mail', actor: harness.spiffeId, rpc: 'ProposeAction' },
    () => harness.call('propose', { key, text }),
    { outcome: 'ok', state: 'PROPOSED' },
  );
  return { actionId, key };
}

async function approved(
  { owner, domainId }: ActionCast,
  timeline: Timeline,
  actionId: string,
  validForMs?: number,
): Promise<void> {
  const { spiffeId } = owner;
  const valid = validForMs === undefined ? '' : String(validForMs);
  const name = valid === '' ? 'Its owner looks at it and signs' : 'Its owner signs, for two seconds';
  await timeline.step(
    { name, actor: spiffeId, rpc: 'GateAction', actionId },
    () => owner.call('approve', { domainId, spiffeId, actionId, validForMs: valid }),
    { outcome: 'ok', state: 'GATED' },
  );
}

/** A step of a worker, and the state that it must come to, or its refusal. */
type Expected = readonly [step: StepName, found: string | Expectation];

const SENT: readonly Expected[] = [
  ['LeaseNext', 'GATED'],
  ['GetDispatchView', 'GATED'],
  ['BeginDispatch', 'DISPATCHED'],
  ['Send', 'done'],
];
const SENT_IN_DOUBT: readonly Expected[] = [
  ...SENT.slice(0, -1),
  ['Send', 'doubt'],
  ['DeferObservation', 'DISPATCHED'],
];
const LOOKED: readonly Expected[] = [
  ['LeaseObservation', 'DISPATCHED'],
  ['BeginObservation', 'DISPATCHED'],
];
const SETTLED: readonly Expected[] = [
  ['AcceptAction', 'ACCEPTED'],
  ['GetDispatchView', 'ACCEPTED'],
  ['Read', 'done'],
  ['AddReceipt', 'recorded'],
  ['VerifyAction', 'VERIFIED'],
  ['CompleteAction', 'COMPLETED'],
];

/** What each step of a worker is called in the story. */
const NAMES: Readonly<Partial<Record<StepName, string>>> = {
  LeaseNext: 'A worker takes it',
  LeaseObservation: 'A worker takes it, to look what became of it',
  GetDispatchView: 'It looks at the action and its receipts',
  BeginDispatch: 'It asks for the one dispatch',
  Send: 'It sends the request, once',
  DeferObservation: 'Nothing is known yet: it lets the action go',
  BeginObservation: 'The look is journalled before it is made',
  Read: 'It asks the provider by the digest of the request',
  AcceptAction: 'The provider has it',
  AddReceipt: 'What the provider says on being asked again is the witness',
  VerifyAction: 'Receipts witness it',
  CompleteAction: 'It is done',
  FailAction: "It gives it up: that is a worker's failure, and why is its detail",
};

/** Has a worker do what there is to do, and tells each step; one more or less than must be is a surprise. */
async function tellWork(
  timeline: Timeline,
  worker: RoleHandle,
  actionId: string,
  call: 'work' | 'goOn',
  expected: readonly Expected[],
): Promise<void> {
  const result = await worker.must(call, { actionId });
  const entries = JSON.parse(result['entries'] ?? '[]') as readonly WorkerEntry[];
  for (const [index, entry] of entries.entries()) {
    const [step, found] = expected[index] ?? [undefined, ''];
    const name = NAMES[entry.step] ?? entry.step;
    const must: Expectation = typeof found === 'string' ? { outcome: 'ok', state: found } : found;
    const who = { name, actor: worker.spiffeId, rpc: entry.step, actionId };
    await timeline.step(who, () => outcomeOf(entry), must);
    if (step !== entry.step)
      timeline.surprises.push(`${name}: ${entry.step}, not ${step ?? 'anything more'}`);
  }
  for (const [step] of expected.slice(entries.length)) timeline.surprises.push(`${step} did not come`);
}

/** A step that another process has told, as one that is made now. */
async function outcomeOf(entry: WorkerEntry): Promise<Readonly<Record<string, string>>> {
  const { outcome, code, reason, state, actionId } = entry;
  if (outcome === 'ok') return { actionId, state, reason };
  throw new SuretyError(code, reason, '', { state, action_id: actionId }, [], undefined);
}
