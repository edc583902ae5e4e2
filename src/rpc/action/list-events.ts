import type { ListEventsRequest } from '../../gen/surety/action/v1/action_service_pb.js';
import { type ActionEvent, ActionEventSchema } from '../../gen/surety/action/v1/event_pb.js';
import { refusal } from '../../ledger/refusal.js';
import { Refused } from '../../ledger/run-decision.js';
import { fillPage } from '../fill-page.js';
import type { CallContext, HandlerTools } from '../handler.js';
import { encodePageToken, readPageToken } from '../page-token.js';
import { Violations } from '../validate.js';
import { seeAction } from './action-viewer.js';
import { readPosition } from './list-scan.js';
import { readActionId } from './read-fields.js';
import { type EventEntryRow, wireEvent } from './wire-event.js';

/** A page of an action's events, which are contiguous: one that is missing is never passed over. */
export async function listEvents(
  { reader }: Pick<HandlerTools, 'reader'>,
  request: ListEventsRequest,
  context: CallContext,
): Promise<{ events: ActionEvent[]; nextPageToken: string }> {
  const { domainId } = context;
  const violations = new Violations();
  const actionId = readActionId(violations, request.actionId);
  const pageSize = violations.pageSize('page_size', request.pageSize);
  const filter = ['action_events', domainId, actionId];
  const after = readPosition(violations, readPageToken(violations, request.pageToken, filter, 1)?.[0]);
  violations.throwIfAny();

  const action = await seeAction(reader, context, actionId);
  const { messages: events, next } = await fillPage(pageSize, {
    schema: ActionEventSchema,
    read: (last: EventEntryRow | undefined, limit) =>
      reader.query<EventEntryRow>('action_events_after', [
        domainId,
        actionId,
        last?.eventNumber ?? after,
        limit,
      ]),
    wire: (rows) => rows.map((row) => wireEvent(domainId, row)),
  });
  events.forEach(({ eventNumber }, index) => {
    const expected = after + 1n + BigInt(index);
    if (eventNumber !== expected) throw eventMissing(actionId, expected);
  });
  const last = events.at(-1)?.eventNumber ?? after;
  if (next === undefined && last < action.eventCount) throw eventMissing(actionId, last + 1n);
  return { events, nextPageToken: next === undefined ? '' : encodePageToken(filter, [last.toString()]) };
}

function eventMissing(actionId: string, eventNumber: bigint): Refused {
  return new Refused(
    refusal('DATA_CORRUPT', 'An event of the action is missing in the log.', {
      metadata: { record: `action/${actionId}/${eventNumber}` },
    }),
  );
}
