import type { MessageInitShape } from '@bufbuild/protobuf';
import {
  type EffectSchema,
  EffectState as WireState,
  StateSource as WireSource,
} from '../../gen/surety/effect/v1/effect_pb.js';
import type {
  ReserveEffectResponseSchema,
  StartExecutionResponseSchema,
  TransitionResultSchema,
} from '../../gen/surety/effect/v1/effect_service_pb.js';
import type { DataClass as WireClass } from '../../gen/surety/provenance/v1/record_pb.js';
import { microsToTimestamp } from '../../identity/timestamp.js';
import type { EffectRow } from '../../ledger/effect/records.js';
import type { ReserveEffectReply } from '../../ledger/effect/reserve-effect.js';
import type { TransitionReply } from '../../ledger/effect/transition-command.js';
import type { ProvenanceRow } from '../../ledger/provenance/records.js';
import { type Digest, type EffectState, type Micros, SECOND, type StateSource } from '../../ledger/types.js';
import { wireReference } from '../provenance-codec.js';
import type { TimeFields } from '../validate.js';

const NANOS_PER_MICRO = 1000n;

/** States by their number in the contract. */
export const STATES: Readonly<Record<number, EffectState>> = {
  [WireState.PREPARED]: 'PREPARED',
  [WireState.EXECUTING]: 'EXECUTING',
  [WireState.SUCCEEDED]: 'SUCCEEDED',
  [WireState.FAILED]: 'FAILED',
  [WireState.CANCELLED]: 'CANCELLED',
  [WireState.UNKNOWN]: 'UNKNOWN',
};

const SOURCES: Readonly<Record<StateSource, WireSource>> = {
  reservation: WireSource.RESERVATION,
  executor: WireSource.EXECUTOR,
  reconciler: WireSource.RECONCILER,
  actor: WireSource.ACTOR,
  expiry: WireSource.EXPIRY,
  executor_lost: WireSource.EXECUTOR_LOST,
  restore: WireSource.RESTORE,
};

/** A state's number in the contract. */
export function wireState(state: EffectState): WireState {
  return WireState[state];
}

/** An effect as it is shown: ids, states, times and digests (effects.md, Cancel, reads, retry). */
export function wireEffect(
  domainId: string,
  effect: EffectRow,
  output: ProvenanceRow | undefined,
): MessageInitShape<typeof EffectSchema> {
  return {
    ...reservation(domainId, effect),
    ...execution(effect),
    holdsKey: effect.holdsKey,
    state: WireState[effect.state],
    stateSource: SOURCES[effect.stateSource],
    disputed: effect.disputed,
    lateEvidenceCount: effect.lateEvidenceCount,
    step: effect.step,
    auditPosition: effect.lastSeq,
    ...(output && { outputReference: wireReference(domainId, output) }),
  };
}

/** The reply to a reservation, or to its repetition. */
export function wireReservation({
  effect,
  duplicate,
  currentState,
}: ReserveEffectReply): MessageInitShape<typeof ReserveEffectResponseSchema> {
  return {
    effectId: effect.effectId,
    fence: effect.fence,
    decisionId: effect.decisionId,
    auditPosition: effect.reserveSeq,
    auditLeaf: bytes(effect.reserveLeaf),
    duplicate,
    currentState: WireState[currentState],
    startBeforeTime: microsToTimestamp(effect.startBefore),
    effectKeyDigest: bytes(effect.keyDigest),
  };
}

/** The stored result of a transition or of a cancel. */
export function wireTransition(
  domainId: string,
  { effect, duplicate, output }: TransitionReply,
): MessageInitShape<typeof TransitionResultSchema> {
  return {
    effectId: effect.effectId,
    state: WireState[effect.state],
    stateSource: SOURCES[effect.stateSource],
    fence: effect.fence,
    attemptId: effect.attemptId ?? '',
    duplicate,
    auditPosition: effect.stateSeq,
    auditLeaf: bytes(effect.stateLeaf),
    step: effect.stateStep,
    transitionTime: microsToTimestamp(effect.stateAt),
    ...(output && { outputReference: wireReference(domainId, output) }),
  };
}

/** The reply to a start, or to its repetition: how long the executor may send still, and when it counts as lost. */
export function wireStart(
  domainId: string,
  reply: TransitionReply,
): MessageInitShape<typeof StartExecutionResponseSchema> {
  const { sendWindow, effect } = reply;
  return {
    result: wireTransition(domainId, reply),
    ...(sendWindow === undefined ? {} : { sendWindow: microsToDuration(sendWindow) }),
    ...time('executionDeadlineTime', effect.lostAt),
  };
}

function reservation(domainId: string, effect: EffectRow) {
  return {
    effectId: effect.effectId,
    domainId,
    eventId: effect.eventId,
    grantId: effect.grantId,
    action: effect.action,
    resource: effect.resource,
    inputSource: effect.inputSource,
    outputSink: effect.sink,
    dataClass: effect.dataClass as number as WireClass,
    requestDigest: bytes(effect.requestDigest),
    effectKey: effect.effectKey,
    effectKeyDigest: bytes(effect.keyDigest),
    repeatable: effect.repeatable,
    fence: effect.fence,
    decisionId: effect.decisionId,
    harnessId: effect.harnessId,
    principalId: effect.actorKind === 'principal' ? effect.actorId : '',
    guestId: effect.actorKind === 'guest' ? effect.actorId : '',
    reserveTime: microsToTimestamp(effect.reservedAt),
    startBeforeTime: microsToTimestamp(effect.startBefore),
  };
}

function execution(effect: EffectRow) {
  return {
    attemptId: effect.attemptId ?? '',
    executorRegistrationId: effect.executorRegistrationId ?? '',
    reconcilerRegistrationId: effect.reconcilerRegistrationId ?? '',
    ...time('startTime', effect.startedAt),
    ...time('executionDeadlineTime', effect.lostAt),
    ...time('unknownTime', effect.unknownAt),
    ...time('settleTime', effect.settledAt),
    evidenceDigest: bytes(effect.evidenceDigest),
    ...(effect.sendWindow === null ? {} : { sendWindow: microsToDuration(effect.sendWindow) }),
  };
}

function time<Name extends string>(name: Name, micros: Micros | null): { [N in Name]?: TimeFields } {
  return micros === null ? {} : ({ [name]: microsToTimestamp(micros) } as { [N in Name]: TimeFields });
}

/** Microseconds, not negative, as the fields of a `google.protobuf.Duration`. */
function microsToDuration(micros: Micros): TimeFields {
  return { seconds: micros / SECOND, nanos: Number((micros % SECOND) * NANOS_PER_MICRO) };
}

/** The messages take plain arrays. */
function bytes(digest: Digest | null): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(digest ?? []);
}
