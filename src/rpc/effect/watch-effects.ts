import type { MessageInitShape } from '@bufbuild/protobuf';
import type {
  WatchEffectsRequest,
  WatchEffectsResponseSchema,
} from '../../gen/surety/effect/v1/effect_service_pb.js';
import type { EffectPlace } from '../../ledger/effect/rules/visible.js';
import type { ViewerRequest } from '../../ledger/effect/visible-effect.js';
import { refusal } from '../../ledger/refusal.js';
import { Refused } from '../../ledger/run-decision.js';
import type { Reader } from '../../store/reader.js';
import type { CallContext, HandlerTools } from '../handler.js';
import { Violations } from '../validate.js';
import { followLog, type LogPage, messagesUpToFault } from '../watch/follow-log.js';
import type { PositionPoller } from '../watch/position-poller.js';
import { type EntryRow, wireStep } from './effect-step.js';
import { isListed, readListScope } from './list-scope.js';
import { MAX_POSITION, readViewer } from './read-request.js';

/** Entries of the log per statement; a watcher holds one page: at most some 100 KB. */
const PAGE_SIZE = 250;
const MAX_SINK_OCTETS = 256;

type StepMessage = MessageInitShape<typeof WatchEffectsResponseSchema>;

/** A row of the query `effect_entries_after`. */
interface WatchRow extends Omit<EffectPlace, 'sink' | 'eventId' | 'grantId' | 'harnessId'> {
  readonly seq: bigint;
  /** Null for entries about something else. */
  readonly effectId: string | null;
  /** Null for those and for entries about effects at other sinks. */
  readonly entry: Buffer | null;
  readonly leafHash: Buffer | null;
  /** Null where there is no effect. */
  readonly sink: string | null;
  readonly eventId: string | null;
  readonly grantId: string | null;
  readonly harnessId: string | null;
}

/**
 * The steps of effects as they come, from a position of the log on: in its order, none left out that the caller may see.
 * Whether it may is judged by the rows after a page was read, so that a registration that was there before a step is
 * never too new for it.
 */
export async function* watchEffects(
  { reader }: Pick<HandlerTools, 'reader'>,
  positions: PositionPoller,
  request: WatchEffectsRequest,
  context: CallContext,
): AsyncGenerator<StepMessage> {
  const { domainId } = context;
  const violations = new Violations();
  const afterPosition = violations.integer('after_position', request.afterPosition, 0n, MAX_POSITION);
  const sink = violations.optionalId('output_sink', request.outputSink, 1, MAX_SINK_OCTETS) ?? '';
  const asker = readViewer(violations, context, request.registrationId);
  violations.throwIfAny();
  yield* followLog({
    context,
    positions,
    afterPosition,
    recheck: async () => void (await readListScope(reader, domainId, asker)),
    readPage: (position) => readPage(reader, { domainId, asker, sink }, position),
    heartbeat: (position) => ({ position }),
  });
}

async function readPage(
  reader: Reader,
  watch: { readonly domainId: string; readonly asker: ViewerRequest; readonly sink: string },
  after: bigint,
): Promise<LogPage<StepMessage>> {
  const { domainId, asker, sink } = watch;
  const rows = await reader.query<WatchRow>('effect_entries_after', [domainId, after, PAGE_SIZE, sink]);
  const watched = rows.filter(isWatched);
  // Most pages hold nothing for a quiet sink: nobody is asked who the caller is for that.
  const scope = watched.length === 0 ? undefined : await readListScope(reader, domainId, asker);
  const told = messagesUpToFault(watched, (watchedRow) => {
    const { row, place } = effectEntry(watchedRow);
    if (scope === undefined || !isListed(scope, place)) return undefined;
    return { position: row.seq, step: wireStep(domainId, row) };
  });
  return {
    ...told,
    position: rows.at(-1)?.seq ?? after,
    more: rows.length === PAGE_SIZE,
  };
}

type EffectRow = WatchRow & { readonly effectId: string };

/** Whether it is about an effect at the watched sink, or about one that is missing. */
function isWatched(row: WatchRow): row is EffectRow {
  return row.effectId !== null && (row.sink === null || (row.entry !== null && row.leafHash !== null));
}

/** An entry about an effect, with what says who may see it. */
function effectEntry(row: EffectRow): { readonly row: EntryRow; readonly place: EffectPlace } {
  const { seq, effectId, entry, leafHash, sink, eventId, grantId, harnessId } = row;
  // An effect lives or has a tombstone: without either nobody can say who may see the step, and it must not be left out.
  const exists = sink !== null && eventId !== null && grantId !== null && harnessId !== null;
  if (!exists || entry === null || leafHash === null) throw effectMissing(effectId, seq);
  const { executorRegistrationId, reconcilerRegistrationId } = row;
  const place: EffectPlace = {
    sink,
    eventId,
    grantId,
    harnessId,
    executorRegistrationId,
    reconcilerRegistrationId,
  };
  return { row: { seq, effectId, entry, leafHash }, place };
}

function effectMissing(effectId: string, seq: bigint): Refused {
  return new Refused(
    refusal('DATA_CORRUPT', 'An effect that the log tells of is missing.', {
      metadata: { record: `effect/${effectId}`, position: String(seq) },
    }),
  );
}
