import { currentReader } from '../audit/current-reader.js';
import type { Reads } from '../reads.js';
import { Refused } from '../run-decision.js';
import type { Caller, CallerKind } from '../types.js';
import type { Draft } from '../working-set.js';
import { callerReads, type CurrentCaller, currentCaller, isParty, requireVisible } from './action-callers.js';
import type { ActionCaller } from './commands.js';
import type { ActionRow } from './records.js';
import { readAction } from './verified-action.js';

/** Who asks to see actions. */
export interface ActionViewerRequest {
  readonly caller: Caller;
  readonly kind: CallerKind;
}

/** Who sees actions, judged by the rows of one transaction (actions.md, RPCs: party, operator, auditor). */
export type ActionViewer =
  | { readonly as: 'party'; readonly spiffeId: string; readonly current: CurrentCaller }
  /** Operators and auditors: all of the domain. */
  | { readonly as: 'overseer' };

/** The rows that say who somebody is. */
export function actionViewerReads({ caller, kind }: ActionViewerRequest): Reads {
  if (isPartyKind(kind)) return callerReads({ caller, kind });
  return { operators: [caller.spiffeId], platformOperators: [caller.spiffeId] };
}

/** The rows that say whether somebody sees one action. */
export function visibleActionReads(request: ActionViewerRequest, actionId: string): Reads {
  const { spiffeId } = request.caller;
  return { ...actionViewerReads(request), actions: [actionId], leaseHolders: [{ actionId, spiffeId }] };
}

/**
 * Who the caller is as a viewer of actions. Nothing here depends on an action. Needs {@link actionViewerReads}.
 *
 * @throws {Refused} the reasons of `currentCaller` and `currentReader`
 */
export function actionViewer(draft: Draft, { caller, kind }: ActionViewerRequest): ActionViewer {
  if (isPartyKind(kind)) {
    return { as: 'party', spiffeId: caller.spiffeId, current: currentCaller(draft, { caller, kind }) };
  }
  const result = currentReader(draft, caller, ['operator', 'auditor']);
  if ('refused' in result) throw new Refused(result.refused);
  return { as: 'overseer' };
}

/**
 * An action that the viewer may see, held against its digests. Needs {@link visibleActionReads}.
 *
 * @throws {Refused} NOT_VISIBLE where it may not, or there is none: both look alike; DATA_CORRUPT
 */
export function visibleAction(draft: Draft, viewer: ActionViewer, actionId: string): ActionRow {
  const stored = draft.get('actions', actionId);
  const sees =
    stored !== undefined &&
    (viewer.as === 'overseer' || isParty(draft, viewer.spiffeId, viewer.current, stored));
  requireVisible(sees);
  return readAction(draft, actionId) as ActionRow;
}

function isPartyKind(kind: CallerKind): kind is ActionCaller<'harness' | 'worker' | 'owner'>['kind'] {
  return kind === 'harness' || kind === 'worker' || kind === 'owner';
}
