import type { ActionRow } from '../../ledger/action/records.js';
import {
  actionViewer,
  actionViewerReads,
  visibleAction,
  visibleActionReads,
} from '../../ledger/action/visible-action.js';
import { notVisible } from '../../ledger/audit/current-reader.js';
import { WILDCARD } from '../../ledger/authority/grant-rules.js';
import type { Reads } from '../../ledger/reads.js';
import { Refused } from '../../ledger/run-decision.js';
import { Draft } from '../../ledger/working-set.js';
import type { Reader } from '../../store/reader.js';
import type { CallContext } from '../handler.js';

type Asker = Pick<CallContext, 'caller' | 'kind' | 'domainId'>;

/** What of a domain's actions a caller sees, for statements; what is empty or null does not narrow. */
export interface ViewerFilter {
  /** Whose proposals alone, which are found by it. */
  readonly proposer: string;
  /** Who must have proposed or ever held it. */
  readonly party: string;
  readonly sources: readonly string[] | null;
  readonly types: readonly string[] | null;
}

const EVERYTHING: ViewerFilter = { proposer: '', party: '', sources: null, types: null };

/**
 * One action for whoever may see it (actions.md, RPCs: party, operator, auditor); who asks and what is shown are of one
 * snapshot.
 *
 * @throws {Refused} the reasons of `actionViewer`; NOT_VISIBLE; DATA_CORRUPT
 */
export async function seeAction(reader: Reader, asker: Asker, actionId: string): Promise<ActionRow> {
  const draft = await gather(reader, asker.domainId, visibleActionReads(asker, actionId));
  return visibleAction(draft, actionViewer(draft, asker), actionId);
}

/**
 * What a caller's lists and watches hold, read anew whenever it is needed: rights end at once.
 *
 * @throws {Refused} the reasons of `actionViewer`
 */
export async function readViewerFilter(reader: Reader, asker: Asker): Promise<ViewerFilter> {
  const viewer = actionViewer(await gather(reader, asker.domainId, actionViewerReads(asker)), asker);
  if (viewer.as === 'overseer') return EVERYTHING;
  const { spiffeId, current } = viewer;
  switch (current.as) {
    case 'harness':
      return { ...EVERYTHING, proposer: spiffeId, party: spiffeId };
    case 'worker':
      return { ...EVERYTHING, party: spiffeId };
    case 'owner': {
      const { sourceScopes, typeScopes } = current.owner;
      return { ...EVERYTHING, sources: narrowed(sourceScopes), types: narrowed(typeScopes) };
    }
  }
}

/** @throws {Refused} NOT_VISIBLE where there is no such domain */
export async function gather(reader: Reader, domainId: string, reads: Reads): Promise<Draft> {
  const set = await reader.gather(domainId, reads);
  if (!set) throw new Refused(notVisible());
  return new Draft(set);
}

function narrowed(scopes: readonly string[]): readonly string[] | null {
  return scopes.includes(WILDCARD) ? null : scopes;
}
