import { accept } from '../decision.js';
import { sameDigest, sha256 } from '../encoding.js';
import { EVERY_SHAPE, mergeReads } from '../reads.js';
import { refusal } from '../refusal.js';
import { Refused } from '../run-decision.js';
import type { Draft } from '../working-set.js';
import { frozenRefusal } from '../effect/frozen.js';
import { readEffect } from '../effect/verified-effect.js';
import { nextEventNumber, takeEvent } from './action-event.js';
import type { BeginDispatch, BeginDispatchReply } from './commands.js';
import { fieldInvalid } from './fields-invalid.js';
import type { ActionReceiptRow, ActionRow } from './records.js';
import { putContract } from './recovery.js';
import { useBoundedGrant } from './rules/bounded-grant.js';
import { requireGate } from './rules/dispatch-gate.js';
import { heldAction, holderReads, requireExpected, requireLease } from './rules/lease.js';
import type { ReceiptClass } from './states.js';
import { viewDigest } from './view-digest.js';
import { counted } from './counted.js';

const CLASSES: readonly ReceiptClass[] = ['gate', 'recovery', 'observation', 'general'];

/**
 * actions.md, BeginDispatch: the one mutation ever (I6). Everything that the caller believes is compared, the gate is judged
 * again (I4), and the dispatch commits together with the contract that allows nothing but observing (I5). Any refusal changes
 * nothing; it never answers success twice.
 */
export const beginDispatch = counted<BeginDispatch, BeginDispatchReply>('ordinary', {
  kind: 'action.begin_dispatch',
  serializeBy: (command) => command.actionId,
  reads: (command) => {
    const { actionId, effectId } = command;
    return mergeReads([
      holderReads(command),
      {
        gateContext: [actionId],
        allGateShapes: [EVERY_SHAPE],
        receiptsOf: CLASSES.map((receiptClass) => ({ actionId, receiptClass })),
        ...(effectId === null ? {} : { effectContext: [effectId], effectActions: [effectId] }),
      },
    ]);
  },
  decide(draft, command) {
    const { action, worker } = heldAction(draft, command);
    requireLease(draft, action, command, ['GATED']);
    requireReached(draft, action);
    requireUnfrozen(draft, command.effectId);
    requireExpectations(action, command);
    const leaseholder = {
      spiffeId: command.caller.spiffeId,
      keys: [...worker.keys, ...action.leaseKeys],
    };
    const { grant } = requireGate(draft, action, command, leaseholder);
    requireView(draft, action, command);
    requireNoContract(draft, action);
    requireEffect(draft, action, command);
    if (grant) useBoundedGrant(draft, grant, action.actionId);
    return accept(dispatch(draft, action, command));
  },
});

function dispatch(draft: Draft, action: ActionRow, command: BeginDispatch): BeginDispatchReply {
  const { executionDigest, effectId } = command;
  const { spiffeId } = command.caller;
  const deadline = draft.now + command.observationWindow;
  const terms = {
    executionDigest,
    issuedAt: draft.now,
    deadline,
    budget: command.maxObservations,
    effectId,
  };
  const contract = putContract(draft, action, terms, spiffeId);
  const dispatched = takeEvent(
    draft,
    action,
    {
      state: 'DISPATCHED',
      attemptCount: action.attemptCount + 1,
      dispatchedAt: draft.now,
      dispatchEvent: nextEventNumber(action),
      executionDigest,
      observationDeadline: deadline,
      maxObservations: command.maxObservations,
      effectId,
    },
    {
      kind: 'dispatched',
      commandId: command.commandId,
      actorSpiffeId: spiffeId,
      leaseToken: action.leaseToken,
      receipt: contract,
    },
  );
  return { action: dispatched, contract };
}

function requireReached(draft: Draft, action: ActionRow): void {
  if (draft.now >= action.nextAttemptAt) return;
  throw new Refused(
    refusal('ACTION_NOT_READY', "The action's next attempt is not reached.", {
      retryAfter: action.nextAttemptAt - draft.now,
    }),
  );
}

/** A freeze stops the domain, and with an effect also its sink (authority.md, Freeze). */
function requireUnfrozen(draft: Draft, effectId: string | null): void {
  const effect = effectId === null ? undefined : draft.get('effects', effectId);
  if (effect) {
    const refused = frozenRefusal(draft, effect.sink);
    if (refused) throw new Refused(refused);
  } else if (draft.domain.frozen) {
    throw new Refused(refusal('FROZEN', 'An operator froze the domain.', { metadata: { scope: 'domain' } }));
  }
}

function requireExpectations(action: ActionRow, command: BeginDispatch): void {
  if (command.sourceRef === '') throw fieldInvalid('source_ref', 'must not be empty');
  requireExpected(action.source === command.source, 'source');
  requireExpected(action.sourceRef === command.sourceRef, 'source_ref');
  requireExpected(action.type === command.type, 'type');
  requireExpected(sameDigest(action.payloadDigest, sha256(command.payload)), 'payload');
}

/** The judgement of a validator of the caller's own: over the very view that is there now, and not past its time. */
function requireView(draft: Draft, action: ActionRow, { authorization }: BeginDispatch): void {
  if (!authorization) return;
  const rule = !sameDigest(authorization.viewDigest, currentView(draft, action))
    ? 'view_digest'
    : draft.now >= authorization.expiresAt
      ? 'authorization_expire_time'
      : undefined;
  if (rule === undefined) return;
  const message = "The validator's judgement is of another view, or past its time.";
  throw new Refused(refusal('VIEW_NOT_CURRENT', message, { metadata: { rule } }));
}

function currentView(draft: Draft, action: ActionRow) {
  const receipts: ActionReceiptRow[] = CLASSES.flatMap((receiptClass) =>
    draft.find('receiptsOf', action.actionId, receiptClass),
  );
  return viewDigest(draft.domainId, action, receipts);
}

function requireNoContract(draft: Draft, action: ActionRow): void {
  if (draft.find('receiptsOf', action.actionId, 'recovery').length === 0) return;
  throw new Refused(refusal('RECOVERY_CONTRACT_EXISTS', 'The action has a recovery contract already.'));
}

/** actions.md, With an effect: PREPARED, of this domain, for this very request, and no other action's. */
function requireEffect(draft: Draft, action: ActionRow, command: BeginDispatch): void {
  const { effectId } = command;
  if (effectId === null) return;
  const effect = readEffect(draft, effectId);
  const rule = !effect
    ? 'missing'
    : effect.state !== 'PREPARED'
      ? 'state'
      : !sameDigest(effect.requestDigest, command.executionDigest)
        ? 'request_digest'
        : draft.find('actionOfEffect', effectId).some(({ actionId }) => actionId !== action.actionId)
          ? 'bound'
          : undefined;
  if (rule === undefined) return;
  throw new Refused(refusal('EFFECT_NOT_BINDABLE', 'The effect cannot be carried.', { metadata: { rule } }));
}
