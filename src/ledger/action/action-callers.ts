import { notVisible } from '../audit/current-reader.js';
import { currentActor } from '../authority/current-actor.js';
import { WILDCARD } from '../authority/grant-rules.js';
import type { OwnerRow } from '../authority/records.js';
import { currentRegistrations, workloadReads } from '../identity/current-registrations.js';
import type { RegistrationRow } from '../identity/records.js';
import { mergeReads, type Reads } from '../reads.js';
import { refusal } from '../refusal.js';
import { Refused } from '../run-decision.js';
import type { Draft } from '../working-set.js';
import type { ActionCaller } from './commands.js';
import type { ActionRow } from './records.js';

/** The kinds of caller that can be a party of an action (actions.md, RPCs). */
export type PartyKind = 'harness' | 'worker' | 'owner';

/** Somebody who may be a party, current by the rows of this transaction. */
export type CurrentCaller =
  | { readonly as: 'harness'; readonly keys: readonly string[] }
  | {
      readonly as: 'worker';
      readonly keys: readonly string[];
      readonly registrations: readonly RegistrationRow[];
    }
  | { readonly as: 'owner'; readonly keys: readonly string[]; readonly owner: OwnerRow };

/** The rows that say who a caller is. */
export function callerReads(request: ActionCaller<PartyKind>): Reads {
  const { caller, kind } = request;
  if (kind === 'harness') return { callerHarness: [caller.spiffeId] };
  if (kind === 'owner') return { owners: [caller.spiffeId] };
  return workloadReads(request);
}

/** The rows that say whether a caller is a party of an action. */
export function partyReads(request: ActionCaller<PartyKind>, actionId: string): Reads {
  const leaseHolders = [{ actionId, spiffeId: request.caller.spiffeId }];
  return mergeReads([callerReads(request), { actions: [actionId], leaseHolders }]);
}

/**
 * Who the caller is now: each call looks again (actions.md, RPCs). Needs {@link callerReads}.
 *
 * @throws {Refused} the reasons of `currentActor`, of `currentRegistrations`, and of {@link currentOwner}
 */
export function currentCaller(draft: Draft, request: ActionCaller<PartyKind>): CurrentCaller {
  const { caller, kind } = request;
  if (kind === 'harness') {
    const result = currentActor(draft, caller);
    if ('refused' in result) throw new Refused(result.refused);
    return { as: 'harness', keys: [caller.keyThumbprint] };
  }
  if (kind === 'owner') return currentOwner(draft, request);
  return currentWorker(draft, request);
}

/** A worker with its registrations in force. @throws {Refused} the reasons of `currentRegistrations` */
export function currentWorker(
  draft: Draft,
  request: ActionCaller<PartyKind>,
): Extract<CurrentCaller, { as: 'worker' }> {
  const registrations = currentRegistrations(draft, request, 'action_worker');
  const signing = registrations.map(({ proofKeyThumbprint }) => proofKeyThumbprint);
  return {
    as: 'worker',
    registrations,
    keys: [...new Set([request.caller.keyThumbprint, ...signing])].sort(),
  };
}

/** An owner of the domain. @throws {Refused} DOMAIN_INACTIVE, CALLER_UNKNOWN, OWNER_NOT_CURRENT */
export function currentOwner(
  draft: Draft,
  { caller }: ActionCaller<PartyKind>,
): Extract<CurrentCaller, { as: 'owner' }> {
  if (draft.domain.status !== 'active') {
    throw new Refused(refusal('DOMAIN_INACTIVE', 'The domain is not active.'));
  }
  if (caller.notAfter <= draft.now) {
    throw new Refused(refusal('CALLER_UNKNOWN', 'The certificate is past its validity.'));
  }
  const owner = draft.get('owners', caller.spiffeId);
  if (owner?.status !== 'active') throw ownerNotCurrent('owner');
  return { as: 'owner', owner, keys: [caller.keyThumbprint] };
}

/** The refusal of an owner who is none any more, or whose key is another by now. */
export function ownerNotCurrent(rule: 'owner' | 'key'): Refused {
  const message = 'The owner is not active, or its registered key is another one.';
  return new Refused(refusal('OWNER_NOT_CURRENT', message, { metadata: { rule } }));
}

/** Which of an owner's scopes does not cover a source or a type; undefined: both do. */
export function uncoveredScope(owner: OwnerRow, source: string, type: string): 'source' | 'type' | undefined {
  if (!covers(owner.sourceScopes, source)) return 'source';
  return covers(owner.typeScopes, type) ? undefined : 'type';
}

function covers(scopes: readonly string[], value: string): boolean {
  return scopes.includes(WILDCARD) || scopes.includes(value);
}

/**
 * Whether the caller is a party of the action: its proposer, an owner in scope, or whoever ever held a lease of it. Needs
 * {@link partyReads}.
 */
export function isParty(draft: Draft, spiffeId: string, current: CurrentCaller, action: ActionRow): boolean {
  if (current.as === 'owner') return uncoveredScope(current.owner, action.source, action.type) === undefined;
  if (action.proposerSpiffeId === spiffeId) return true;
  return current.as === 'worker' && draft.find('leasesOfHolder', action.actionId, spiffeId).length > 0;
}

/** @throws {Refused} NOT_VISIBLE: an action that is absent and one that is not the caller's look alike */
export function requireVisible(visible: boolean): void {
  if (!visible) throw new Refused(notVisible());
}
