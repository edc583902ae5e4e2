import type { MessageInitShape } from '@bufbuild/protobuf';
import type {
  WatchActionsRequest,
  WatchActionsResponseSchema,
} from '../../gen/surety/action/v1/action_service_pb.js';
import { refusal } from '../../ledger/refusal.js';
import { Refused } from '../../ledger/run-decision.js';
import type { Reader } from '../../store/reader.js';
import type { CallContext, HandlerTools } from '../handler.js';
import { Violations } from '../validate.js';
import { followLog, type LogPage, messagesUpToFault } from '../watch/follow-log.js';
import type { PositionPoller } from '../watch/position-poller.js';
import { readViewerFilter, type ViewerFilter } from './action-viewer.js';
import { MAX_NAME_OCTETS, MAX_POSITION } from './read-fields.js';
import { wireEvent } from './wire-event.js';

/** Entries of the log per statement; a watcher holds one page: at most some 100 KB. */
const PAGE_SIZE = 250;

type EventMessage = MessageInitShape<typeof WatchActionsResponseSchema>;

/** A row of the query `action_entries_after`. */
interface WatchRow {
  readonly seq: bigint;
  /** Null for entries about something else. */
  readonly actionId: string | null;
  readonly eventNumber: bigint | null;
  /** Null for those and for entries about other actions than the watched one. */
  readonly entry: Buffer | null;
  readonly leafHash: Buffer | null;
  /** Null where there is no action. */
  readonly source: string | null;
  readonly type: string | null;
  readonly proposerSpiffeId: string | null;
  /** Whether the caller ever held a lease of it. */
  readonly held: boolean;
}

/** An entry about an action, with what says who may see it. */
interface WatchedEntry {
  readonly row: Parameters<typeof wireEvent>[1];
  readonly place: Place;
}

interface Place {
  readonly source: string;
  readonly type: string;
  readonly party: boolean;
}

/**
 * The events of actions as they come, from a position of the log on: in its order, none left out that the caller may see.
 * Whether it may is judged by the rows after a page was read: a worker hears of an action from the lease on.
 */
export async function* watchActions(
  { reader }: Pick<HandlerTools, 'reader'>,
  positions: PositionPoller,
  request: WatchActionsRequest,
  context: CallContext,
): AsyncGenerator<EventMessage> {
  const violations = new Violations();
  const afterPosition = violations.integer('after_position', request.afterPosition, 0n, MAX_POSITION);
  const actionId = violations.optionalId('action_id', request.actionId, 1, MAX_NAME_OCTETS) ?? '';
  violations.throwIfAny();
  yield* followLog({
    context,
    positions,
    afterPosition,
    recheck: async () => void (await readViewerFilter(reader, context)),
    readPage: (position) => readPage(reader, context, actionId, position),
    heartbeat: (position) => ({ position }),
  });
}

async function readPage(
  reader: Reader,
  context: CallContext,
  watched: string,
  after: bigint,
): Promise<LogPage<EventMessage>> {
  const { domainId, caller } = context;
  const rows = await reader.query<WatchRow>('action_entries_after', [
    domainId,
    after,
    PAGE_SIZE,
    watched,
    caller.spiffeId,
  ]);
  const watchedRows = rows.filter(isWatched);
  // Most pages of a busy domain hold nothing for a watcher of one action: nobody is asked who it is for that.
  const filter = watchedRows.length === 0 ? undefined : await readViewerFilter(reader, context);
  const told = messagesUpToFault(watchedRows, (watchedRow) => {
    const { row, place } = watchedEntry(watchedRow, caller.spiffeId);
    if (filter === undefined || !isListed(filter, place)) return undefined;
    return { position: row.seq, event: wireEvent(domainId, row) };
  });
  return {
    ...told,
    position: rows.at(-1)?.seq ?? after,
    more: rows.length === PAGE_SIZE,
  };
}

type ActionRow = WatchRow & { readonly actionId: string; readonly eventNumber: bigint };

/** Whether it is about a watched action, or about one that is missing. */
function isWatched(row: WatchRow): row is ActionRow {
  if (row.actionId === null || row.eventNumber === null) return false;
  return row.source === null || row.type === null || (row.entry !== null && row.leafHash !== null);
}

function watchedEntry(row: ActionRow, spiffeId: string): WatchedEntry {
  const { seq, actionId, eventNumber, entry, leafHash, source, type } = row;
  // Without the action nobody can say who may see the event, and it must not be left out.
  const exists = source !== null && type !== null && entry !== null && leafHash !== null;
  if (!exists) throw actionMissing(actionId, seq);
  const party = row.held || row.proposerSpiffeId === spiffeId;
  return { row: { seq, entry, leafHash, actionId, eventNumber }, place: { source, type, party } };
}

function isListed({ party, sources, types }: ViewerFilter, place: Place): boolean {
  if (party !== '' && !place.party) return false;
  return (sources?.includes(place.source) ?? true) && (types?.includes(place.type) ?? true);
}

function actionMissing(actionId: string, seq: bigint): Refused {
  return new Refused(
    refusal('DATA_CORRUPT', 'An action that the log tells of is missing.', {
      metadata: { record: `action/${actionId}`, position: String(seq) },
    }),
  );
}
