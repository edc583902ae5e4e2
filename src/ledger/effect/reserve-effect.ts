import { type ActorKey, admitCall, harnessActor } from '../admission/admit-call.js';
import { admitReservation } from '../admission/admit-effect.js';
import { actingSubject, decidePolicy, deniedAfterAll, type PolicyVerdict } from '../authority/policy.js';
import { contextDigest, denialKey, type PolicyQuestion } from '../authority/policy-question.js';
import { grantConsumptionRefusal, grantShapeRefusal, type GrantHolder } from '../authority/grant-rules.js';
import { recordDecision, repeatedDenial } from '../authority/record-decision.js';
import type { GrantRow } from '../authority/records.js';
import {
  accept,
  type CommandBase,
  type Decision,
  type Outcome,
  refuse,
  refuseRecorded,
} from '../decision.js';
import { derived } from '../derived.js';
import type { EventRow } from '../event/records.js';
import { type Refusal, refusal } from '../refusal.js';
import type { Caller, DataClass, Digest, EffectState, Micros } from '../types.js';
import type { Draft } from '../working-set.js';
import { effectIdentity } from './effect-identity.js';
import { effectKeyDigest, effectKeyRefusal } from './effect-key.js';
import { frozenRefusal } from './frozen.js';
import { DEFAULT_RESERVATION_TTL } from './limits.js';
import { parentEventRefusal } from './parent-event.js';
import type { EffectRow, TombstoneRow } from './records.js';
import { repeatedReservation } from './repeated-reservation.js';

/** effects.md, Reserve: what a harness asks for. */
export interface ReserveEffectCommand extends CommandBase {
  readonly caller: Caller;
  readonly eventId: string;
  readonly grantId: string;
  readonly action: string;
  readonly resource: string;
  readonly inputSource: string;
  readonly outputSink: string;
  readonly dataClass: DataClass;
  readonly requestDigest: Digest;
  /** Empty: the default key. */
  readonly effectKey: string;
  readonly repeatable: boolean;
  readonly reservationTtl: Micros | null;
  readonly executionDeadline: Micros | null;
  /** Minted for the effect and for its decision, should they come to be. */
  readonly effectId: string;
  readonly decisionId: string;
}

export interface ReserveEffectReply {
  /** Of a duplicate it may be the tombstone. */
  readonly effect: EffectRow | TombstoneRow;
  readonly duplicate: boolean;
  readonly currentState: EffectState;
}

/** Reserves an effect: decision, grant use, pending work, reservation and audit, or no trace of any. */
export const reserveEffect: Decision<ReserveEffectCommand, ReserveEffectReply> = {
  kind: 'effect.reserve',
  reads: (command) => ({
    callerHarness: [command.caller.spiffeId],
    entitlementsOfCaller: [
      { spiffeId: command.caller.spiffeId, action: command.action, resource: command.resource },
    ],
    events: [command.eventId],
    grants: [command.grantId],
    sinks: [command.outputSink],
    oldestUnknown: [command.outputSink],
    effectIdentities: [{ eventId: command.eventId, identityDigest: digestsOf(command).identity }],
    effectKeys: [{ sink: command.outputSink, keyDigest: digestsOf(command).key }],
    denials: [digestsOf(command).denial],
  }),
  decide,
};

function decide(draft: Draft, command: ReserveEffectCommand, now: Micros): Outcome<ReserveEffectReply> {
  const asker = actingSubject(draft, command.caller);
  if (!asker) return refuse(refusal('CALLER_UNKNOWN', 'The caller is not a harness of the domain.'));

  const actor = harnessActor(asker.harnessId);

  // Rule 1.
  const digests = digestsOf(command);
  const stored = draft.find('effectOfIdentity', digests.identity)[0];
  if (stored) return repeatedReservation(draft, command, stored);
  const archived = draft.find('tombstoneOfIdentity', digests.identity)[0];
  if (archived) return repeatedReservation(draft, command, archived);

  // Rules 2 and 3: refused without a record.
  const event = draft.get('events', command.eventId);
  const grant = draft.get('grants', command.grantId);
  const unrecorded =
    parentEventRefusal(draft, event, asker.harnessId, command.dataClass) ??
    grantShapeRefusal(grant, asker, command, now) ??
    sinkRefusal(draft, command.outputSink);
  if (unrecorded || !event || !grant) return refuse(unrecorded ?? missingRow());

  // Rule 4: recorded whether it allows or denies.
  const question = questionOf(command, digests, event);
  const verdict = decidePolicy(draft, question);
  if (!verdict.allowed) return recordedDenial(draft, command, actor, question, verdict, verdict.refusal);

  // Rule 5, and the freeze: nothing is written.
  const { key: keyDigest } = digests;
  const inTheWay =
    frozenRefusal(draft, command.outputSink) ??
    effectKeyRefusal(
      draft,
      { sink: command.outputSink, keyDigest },
      asker,
      command.repeatable && grant.repeatable,
    );
  if (inTheWay) return refuse(inTheWay);

  // Rule 6.
  const exhausted = grantConsumptionRefusal(grant, draft.domain, verdict.actor.harness);
  if (exhausted)
    return recordedDenial(draft, command, actor, question, deniedAfterAll(verdict, exhausted), exhausted);

  // Rule 7: its refusals cost nothing.
  const held = admitReservation(draft, command.outputSink, actor);
  if (held) return refuse(held);

  // Rule 8.
  recordDecision(draft, command, question, verdict);
  draft.put('grants', { ...grant, uses: grant.uses + 1n });
  draft.put('pending_work', { effectId: command.effectId, openedAt: now });
  const effect = insertEffect(draft, command, { event, grant, asker, keyDigest, ...verdict.actor.harness });
  return accept({ effect, duplicate: false, currentState: effect.state });
}

/** The digests of what a command says; its reads name them, and its rules compare them. */
const digestsOf = derived((command: ReserveEffectCommand) => {
  const { domainId, eventId, outputSink: sink, requestDigest } = command;
  const context = contextDigest(command);
  return {
    identity: effectIdentity({ domainId, eventId, sink, requestDigest }),
    key: effectKeyDigest(command),
    context,
    denial: denialKey(questionOf(command, { context }, undefined)),
  };
});

/** Every effect is a protected operation, decided under the event's policy revision. */
function questionOf(
  command: ReserveEffectCommand,
  { context, denial }: { readonly context: Digest; readonly denial?: Digest },
  event: EventRow | undefined,
): PolicyQuestion {
  const { caller, action, resource, inputSource, outputSink, dataClass, requestDigest, eventId, grantId } =
    command;
  return {
    caller,
    action,
    resource,
    inputSource,
    outputSink,
    dataClass,
    requestDigest,
    eventId,
    grantId,
    context,
    ...(denial === undefined ? {} : { denial }),
    ...(event === undefined ? {} : { policyRevision: event.policyRevision }),
    protectedOperation: true,
    leaveGrantUse: true,
  };
}

/** An outcome at a sink that the domain does not name could never be reconciled. */
function sinkRefusal(draft: Draft, sink: string): Refusal | undefined {
  return draft.get('sinks', sink)
    ? undefined
    : refusal('SINK_UNKNOWN', 'The sink is not one that the domain names.');
}

function missingRow(): Refusal {
  return refusal('GRANT_MISSING', 'The grant does not exist.');
}

/**
 * A denial commits the recorded decision and its audit entry, and nothing else; it counts against the actor's quota, and is
 * not even recorded where that is used up.
 */
function recordedDenial(
  draft: Draft,
  command: ReserveEffectCommand,
  actor: ActorKey,
  question: PolicyQuestion,
  verdict: PolicyVerdict,
  refused: Refusal,
): Outcome<ReserveEffectReply> {
  const stored = repeatedDenial(draft, question, verdict);
  const held = stored ? undefined : admitCall(draft, actor);
  if (held) return refuse(held);
  const decision = stored ?? recordDecision(draft, command, question, verdict);
  const metadata = { ...refused.metadata, decision_id: decision.decisionId };
  return refuseRecorded({ ...refused, metadata });
}

function insertEffect(
  draft: Draft,
  command: ReserveEffectCommand,
  parts: {
    readonly event: EventRow;
    readonly grant: GrantRow;
    readonly asker: GrantHolder;
    readonly keyDigest: Digest;
    readonly assurance: string;
    readonly credentialEpoch: bigint;
  },
): EffectRow {
  const fence = draft.nextFence();
  const identityDigest = digestsOf(command).identity;
  const { eventId, grantId, decisionId, effectId } = command;
  const position = draft.append({
    kind: 'effect_step',
    actorSpiffeId: command.caller.spiffeId,
    commandId: command.commandId,
    effect: {
      effectId,
      step: 1n,
      toState: 'PREPARED',
      source: 'reservation',
      fence,
      sink: command.outputSink,
      identityDigest,
      decisionId,
      grantId,
      eventId,
    },
  });
  const effect: EffectRow = {
    effectId,
    identityDigest,
    eventId,
    sink: command.outputSink,
    requestDigest: command.requestDigest,
    actorKind: parts.asker.actorKind,
    actorId: parts.asker.actorId,
    harnessId: parts.asker.harnessId,
    assurance: parts.assurance,
    credentialEpoch: parts.credentialEpoch,
    grantId,
    action: command.action,
    resource: command.resource,
    inputSource: command.inputSource,
    dataClass: command.dataClass,
    effectKey: command.effectKey,
    keyDigest: parts.keyDigest,
    holdsKey: true,
    repeatable: command.repeatable,
    reservationTtl: command.reservationTtl,
    executionDeadline: command.executionDeadline,
    startBefore: startBefore(draft.now, command.reservationTtl, parts.grant, parts.event),
    policyRevision: draft.domain.policyRevision,
    decisionId,
    fence,
    state: 'PREPARED',
    stateSource: 'reservation',
    reservedAt: draft.now,
    reserveSeq: position.seq,
    reserveLeaf: position.leaf,
    ...NOT_STARTED,
    stateAt: draft.now,
    step: 1n,
    lastSeq: position.seq,
    stateStep: 1n,
    stateSeq: position.seq,
    stateLeaf: position.leaf,
  };
  draft.put('effects', effect);
  return effect;
}

const NOT_STARTED = {
  attemptId: null,
  executorRegistrationId: null,
  executorSessionId: null,
  executorProcessId: null,
  executorProcessStart: null,
  startedAt: null,
  lostAt: null,
  sendWindow: null,
  unknownAt: null,
  settledAt: null,
  reconcilerRegistrationId: null,
  evidenceDigest: null,
  outputDigest: null,
  disputed: false,
  lateEvidenceCount: 0,
} as const;

/** effects.md, Start before: the earliest of ttl, grant expiry and event deadline. */
function startBefore(now: Micros, ttl: Micros | null, grant: GrantRow, event: EventRow): Micros {
  let earliest = now + (ttl ?? DEFAULT_RESERVATION_TTL);
  if (grant.expiresAt < earliest) earliest = grant.expiresAt;
  if (event.effectDeadline !== null && event.effectDeadline < earliest) earliest = event.effectDeadline;
  return earliest;
}
