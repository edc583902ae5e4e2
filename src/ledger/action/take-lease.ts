import type { Part } from '../encoding.js';
import type { RegistrationRow } from '../identity/records.js';
import { mergeReads, type Reads } from '../reads.js';
import { refusal } from '../refusal.js';
import { Refused } from '../run-decision.js';
import { sameDigest } from '../encoding.js';
import type { Digest } from '../types.js';
import type { Draft } from '../working-set.js';
import { ANY_ACTION } from '../reads.js';
import { takeEvent } from './action-event.js';
import { callerReads, type CurrentCaller } from './action-callers.js';
import type { ActionScope, LeaseNext, LeaseObservation, LeaseReply } from './commands.js';
import { requestDigest } from './exact-repeat.js';
import type { ActionLeaseRow, ActionRow } from './records.js';
import type { ActionState } from './states.js';
import { requireUnchanged } from './verified-action.js';

type LeaseCommand = LeaseNext | LeaseObservation;

/** The rows that a call which takes a lease is judged by. */
export function leaseReads(command: LeaseCommand, states: readonly ActionState[]): Reads {
  const { caller, requestId, scope } = command;
  return mergeReads([
    callerReads(command),
    {
      leaseRequests: [{ spiffeId: caller.spiffeId, requestId }],
      expiredLeases: [ANY_ACTION],
      readyActions: [{ ...scope, states }],
    },
  ]);
}

/** What a request for a lease is known by, besides its id. */
export function leaseRequestDigest(
  method: string,
  command: LeaseCommand,
  states: readonly ActionState[],
): Digest {
  const { source, sourcePrefix, types, actionIds } = command.scope;
  const scope: Part[] = [source ?? undefined, sourcePrefix ?? undefined, types, actionIds];
  return requestDigest(method, command.caller.spiffeId, [scope, states, command.duration]);
}

/**
 * The lease that the same request got before, with the action as it stands; undefined: it got none.
 *
 * @throws {Refused} REQUEST_ID_CONFLICT where the request asked for something else
 */
export function repeatedLease(draft: Draft, command: LeaseCommand, digest: Digest): LeaseReply | undefined {
  const [lease] = draft.find('leaseOfRequest', command.caller.spiffeId, command.requestId);
  if (!lease) return undefined;
  if (!sameDigest(lease.requestDigest, digest)) {
    throw new Refused(refusal('REQUEST_ID_CONFLICT', 'The request id was used for another request.'));
  }
  const action = draft.get('actions', lease.actionId);
  if (!action) throw new Error(`lease ${lease.leaseToken} without its action`);
  return { leased: { action: requireUnchanged(draft.domainId, action), lease }, duplicate: true };
}

/** What is ready in a scope, in the order in which it is handed out (actions.md, LeaseNext). */
export function readyInScope(draft: Draft, scope: ActionScope, states: readonly ActionState[]): ActionRow[] {
  return draft
    .find('unleasedActions', ANY_ACTION)
    .filter(
      (action) =>
        states.includes(action.state) && action.nextAttemptAt <= draft.now && isInScope(action, scope),
    )
    .sort(byTurn);
}

function isInScope(action: ActionRow, { source, sourcePrefix, types, actionIds }: ActionScope): boolean {
  return (
    (source === null || action.source === source) &&
    (sourcePrefix === null || action.source.startsWith(sourcePrefix)) &&
    (types.length === 0 || types.includes(action.type)) &&
    (actionIds.length === 0 || actionIds.includes(action.actionId))
  );
}

/** By the next attempt, then by creation, then by id. */
function byTurn(a: ActionRow, b: ActionRow): number {
  if (a.nextAttemptAt !== b.nextAttemptAt) return a.nextAttemptAt < b.nextAttemptAt ? -1 : 1;
  if (a.createdAt !== b.createdAt) return a.createdAt < b.createdAt ? -1 : 1;
  return Buffer.compare(Buffer.from(a.actionId), Buffer.from(b.actionId));
}

/** Gives the action to the worker, with a fresh token (actions.md, I3). */
export function takeLease(
  draft: Draft,
  action: ActionRow,
  command: LeaseCommand,
  worker: Extract<CurrentCaller, { as: 'worker' }>,
  event: { readonly kind: 'leased' | 'observation_leased'; readonly requestDigest: Digest },
): LeaseReply {
  const { spiffeId } = command.caller;
  const lease: ActionLeaseRow = {
    leaseToken: draft.nextFence(),
    actionId: action.actionId,
    holderSpiffeId: spiffeId,
    registrationId: longestLived(worker.registrations).registrationId,
    requestId: command.requestId,
    requestDigest: event.requestDigest,
    leasedAt: draft.now,
    expiresAt: draft.now + command.duration,
  };
  draft.put('action_leases', lease);
  const leased = takeEvent(
    draft,
    action,
    {
      leaseToken: lease.leaseToken,
      leaseHolder: spiffeId,
      leaseRegistrationId: lease.registrationId,
      leaseKeys: worker.keys,
      leasedAt: lease.leasedAt,
      leaseExpiresAt: lease.expiresAt,
    },
    {
      kind: event.kind,
      commandId: command.commandId,
      actorSpiffeId: spiffeId,
      leaseToken: lease.leaseToken,
    },
  );
  return { leased: { action: leased, lease }, duplicate: false };
}

function longestLived(registrations: readonly RegistrationRow[]): RegistrationRow {
  return registrations.reduce((best, one) =>
    one.expiresAt > best.expiresAt ||
    (one.expiresAt === best.expiresAt && one.registrationId < best.registrationId)
      ? one
      : best,
  );
}
