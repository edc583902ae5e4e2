import type { Decision, Outcome } from '../../src/ledger/decision.js';
import { acknowledgeTerminal } from '../../src/ledger/effect/acknowledge-terminal.js';
import { markUnknown } from '../../src/ledger/effect/mark-unknown.js';
import { reconcile } from '../../src/ledger/effect/reconcile.js';
import type { EffectRow } from '../../src/ledger/effect/records.js';
import { reserveEffect } from '../../src/ledger/effect/reserve-effect.js';
import { startExecution } from '../../src/ledger/effect/start-execution.js';
import { sha256 } from '../../src/ledger/encoding.js';
import type { RegistrationRow } from '../../src/ledger/identity/records.js';
import type { TerminalState } from '../../src/ledger/types.js';
import {
  type EffectWorld,
  EXECUTOR_A,
  evidence,
  freshId,
  nowMicros,
  publish,
  RECONCILER,
  type Replica,
  reservation,
  seedGrant,
  seedRegistration,
  transitionOf,
} from '../support/effect-world.js';

/** A command with the decision that runs it: submitted as often as a caller repeats the exact call. */
export interface Call {
  readonly decision: Decision<never, { readonly effect: EffectRow; readonly duplicate: boolean }>;
  readonly command: { readonly domainId: string; readonly commandId: string };
}

/** What all calls about an effect answer with. */
export type EffectOutcome = Outcome<{ readonly effect: EffectRow; readonly duplicate: boolean }>;

/** Who executes and who reconciles. */
export interface Workers {
  readonly executor: RegistrationRow;
  readonly reconciler: RegistrationRow;
}

/** Whatever runs commands. */
export type LaneOwner = Pick<Replica, 'lanes'>;

/** A grant and workers for any number of effects. */
export async function seedWorkers(world: EffectWorld): Promise<Workers & { grantId: string }> {
  const { grantId } = await seedGrant(world);
  return {
    grantId,
    executor: await seedRegistration(world, EXECUTOR_A),
    reconciler: await seedRegistration(world, RECONCILER),
  };
}

/** A reservation for an event of its own. */
export async function reserveCall(
  replica: LaneOwner,
  grantId: string,
  overrides: Parameters<typeof reservation>[2] = {},
): Promise<Call> {
  return call(reserveEffect, reservation(await publish(replica as Replica), grantId, overrides));
}

/** The start of a reserved effect. */
export function startCall(executor: RegistrationRow, effect: EffectRow, caller = EXECUTOR_A): Call {
  const execution = evidence<'execution'>({
    attemptId: freshId('attempt'),
    executorInstanceId: freshId('instance'),
    requestDigest: effect.requestDigest,
    startedAt: nowMicros(),
  });
  return call(startExecution, transitionOf(caller, executor, effect, 'EXECUTING', execution));
}

/** The executor does not know. */
export function unknownCall(executor: RegistrationRow, effect: EffectRow): Call {
  const uncertainty = evidence<'uncertainty'>({
    attemptId: effect.attemptId ?? '',
    reason: 'TIMEOUT',
    observationDigest: sha256('nothing'),
    observedAt: nowMicros(),
  });
  return call(markUnknown, transitionOf(EXECUTOR_A, executor, effect, 'UNKNOWN', uncertainty));
}

/** The executor knows. */
export function acknowledgeCall(
  executor: RegistrationRow,
  effect: EffectRow,
  state: TerminalState = 'SUCCEEDED',
): Call {
  const terminal = evidence<'terminal'>({
    attemptId: effect.attemptId ?? '',
    externalReceiptId: freshId('receipt'),
    externalReceiptDigest: sha256('receipt'),
    observedAt: nowMicros(),
  });
  return call(acknowledgeTerminal, transitionOf(EXECUTOR_A, executor, effect, state, terminal));
}

/** The reconciler asked, and it was done, or what else it was. */
export function reconcileCall(
  reconciler: RegistrationRow,
  effect: EffectRow,
  state: TerminalState = 'SUCCEEDED',
): Call {
  const answer = evidence<'reconciliation'>({
    attemptId: effect.attemptId ?? '',
    authoritySystemId: 'bank-ledger',
    queryId: freshId('query'),
    queryResponseDigest: sha256('answer'),
    // After the step that it follows, by whichever clock.
    observedAt: (effect.unknownAt ?? nowMicros()) + 1n,
    terminalState: state,
  });
  return call(reconcile, transitionOf(RECONCILER, reconciler, effect, state, answer));
}

/**
 * Submits a call, as a repeat with a command id of its own.
 *
 * @param deadline as `SubmitOptions` has it
 */
export function submit(
  replica: LaneOwner,
  { decision, command }: Call,
  deadline?: number,
): Promise<EffectOutcome> {
  const repeat = { ...command, commandId: freshId('cmd') };
  return replica.lanes.submit(decision, repeat as never, deadline === undefined ? {} : { deadline });
}

/** The effect that a call answered with, or a failure that says why not. */
export async function done(outcome: EffectOutcome | Promise<EffectOutcome>): Promise<EffectRow> {
  const settled = await outcome;
  if (!settled.ok) throw new Error(JSON.stringify(settled.refusal));
  return settled.reply.effect;
}

function call<Command>(
  decision: Decision<Command & Call['command'], never> | object,
  command: Command,
): Call {
  return { decision, command } as unknown as Call;
}

/** A reserved effect. */
export async function reserved(replica: LaneOwner, workers: { grantId: string }): Promise<EffectRow> {
  return done(submit(replica, await reserveCall(replica, workers.grantId)));
}

/** A started effect. */
export async function started(
  replica: LaneOwner,
  workers: Workers & { grantId: string },
): Promise<EffectRow> {
  const effect = await reserved(replica, workers);
  return done(submit(replica, startCall(workers.executor, effect)));
}
