import { create } from '@bufbuild/protobuf';
import { type Action, ActionSchema } from '../../gen/surety/action/v1/action_pb.js';
import type { ListActionsRequest } from '../../gen/surety/action/v1/action_service_pb.js';
import { readAction } from '../../ledger/action/verified-action.js';
import type { Reader } from '../../store/reader.js';
import { PageBudget } from '../fill-page.js';
import type { CallContext, HandlerTools } from '../handler.js';
import { encodePageToken, readPageToken } from '../page-token.js';
import { Violations } from '../validate.js';
import { STATES } from './action-enums.js';
import { gather, readViewerFilter, type ViewerFilter } from './action-viewer.js';
import { listedAction } from './encode-action.js';
import { MAX_LOOK_MS, MAX_SCANNED, readPosition } from './list-scan.js';
import { MAX_NAME_OCTETS } from './read-fields.js';

/** Actions are read with their payloads, which are hashed again: so many at a time are some 2 MiB at most. */
const SHOWN_AT_ONCE = 32;

/** What is asked for; empty texts ask for all. */
interface ActionFilter {
  readonly state: string;
  readonly source: string;
  readonly type: string;
}

/** A row of the query `actions_after`; the action is null where none matched. */
interface ScanRow {
  readonly actionId: string | null;
  readonly proposedSeq: bigint | null;
  /** Of the last row that was looked at; null where there was none. */
  readonly lastSeq: bigint | null;
  readonly scanned: bigint;
}

interface FoundAction {
  readonly actionId: string;
  readonly proposedSeq: bigint;
}

/**
 * A page of the actions that the caller may see, in the order of their proposals. Each payload is hashed again; one that
 * contradicts its digest ends the call with DATA_CORRUPT, naming it, since a list that left it out would hide it.
 */
export async function listActions(
  { reader }: Pick<HandlerTools, 'reader'>,
  request: ListActionsRequest,
  context: CallContext,
): Promise<{ actions: Action[]; nextPageToken: string }> {
  const { domainId } = context;
  const violations = new Violations();
  const filter = readFilter(violations, request);
  const pageSize = violations.pageSize('page_size', request.pageSize);
  const list = ['actions', domainId, filter.state, filter.source, filter.type];
  let after = readPosition(violations, readPageToken(violations, request.pageToken, list, 1)?.[0]);
  violations.throwIfAny();

  const viewer = await readViewerFilter(reader, context);
  const actions: Action[] = [];
  const budget = new PageBudget();
  const tokenBehind = (position: bigint) => encodePageToken(list, [position.toString()]);
  const lookUntil = performance.now() + MAX_LOOK_MS;
  do {
    const wanted = Math.min(pageSize - actions.length, SHOWN_AT_ONCE);
    const { found, next } = await scan(reader, domainId, { viewer, filter, after, wanted });
    for (const { action, proposedSeq } of await show(reader, domainId, filter, found)) {
      if (!budget.takesMessage(ActionSchema, action)) {
        return { actions, nextPageToken: tokenBehind(proposedSeq - 1n) };
      }
      actions.push(action);
    }
    if (next === undefined) return { actions, nextPageToken: '' };
    after = next;
  } while (actions.length < pageSize && performance.now() < lookUntil && !context.signal.aborted);
  return { actions, nextPageToken: tokenBehind(after) };
}

function readFilter(violations: Violations, request: ListActionsRequest): ActionFilter {
  const name = (field: string, value: string) =>
    violations.optionalId(field, value, 1, MAX_NAME_OCTETS) ?? '';
  return {
    state: request.state === 0 ? '' : violations.choice('state', request.state, STATES),
    source: name('source', request.source),
    type: name('type', request.type),
  };
}

async function scan(
  reader: Reader,
  domainId: string,
  input: {
    readonly viewer: ViewerFilter;
    readonly filter: ActionFilter;
    readonly after: bigint;
    readonly wanted: number;
  },
): Promise<{ readonly found: readonly FoundAction[]; readonly next: bigint | undefined }> {
  const { viewer, filter, after, wanted } = input;
  const rows = await reader.query<ScanRow>('actions_after', [
    domainId,
    after,
    MAX_SCANNED,
    // One more than wanted tells whether there is another page.
    wanted + 1,
    viewer.proposer,
    viewer.party,
    filter.state,
    filter.source,
    filter.type,
    viewer.sources,
    viewer.types,
  ]);
  const all = rows.filter((row): row is ScanRow & FoundAction => row.actionId !== null);
  const found = all.slice(0, wanted);
  if (all.length > wanted) return { found, next: found.at(-1)?.proposedSeq };
  const exhausted = Number(rows[0]?.scanned ?? 0n) < MAX_SCANNED;
  return { found, next: exhausted ? undefined : (rows[0]?.lastSeq ?? undefined) };
}

/** What was found may have changed since: its state is judged again. */
async function show(
  reader: Reader,
  domainId: string,
  filter: ActionFilter,
  found: readonly FoundAction[],
): Promise<{ readonly action: Action; readonly proposedSeq: bigint }[]> {
  if (found.length === 0) return [];
  const draft = await gather(reader, domainId, { actions: found.map(({ actionId }) => actionId) });
  return found.flatMap(({ actionId, proposedSeq }) => {
    const action = readAction(draft, actionId);
    if (!action || (filter.state !== '' && action.state !== filter.state)) return [];
    return [{ action: create(ActionSchema, listedAction(domainId, action)), proposedSeq }];
  });
}
