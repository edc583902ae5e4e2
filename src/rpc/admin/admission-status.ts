import { create, type MessageInitShape } from '@bufbuild/protobuf';
import type { GetAdmissionStatusResponseSchema } from '../../gen/surety/authority/v1/admin_service_pb.js';
import {
  ActorAdmissionSchema,
  type AdmissionStatusSchema,
  type FairnessWindowSchema,
  type MinuteUseSchema,
  type ServiceSharesSchema,
  type SinkAdmission,
  SinkAdmissionSchema,
} from '../../gen/surety/authority/v1/admission_pb.js';
import { microsToTimestamp } from '../../identity/timestamp.js';
import { currentMinute, type Minute, ordinaryLeft } from '../../ledger/admission/admit-call.js';
import { tryTime } from '../../ledger/admission/circuit-breaker.js';
import { callsIn, servedIn, windowOf } from '../../ledger/admission/fairness.js';
import { actorBurst, actorLimit } from '../../ledger/admission/limits.js';
import type { ActorCounterRow, SinkCounterRow } from '../../ledger/admission/records.js';
import type { SinkRow } from '../../ledger/authority/records.js';
import { liveNonces, MAX_LIVE_NONCES } from '../../ledger/replay/live-nonces.js';
import type { Micros } from '../../ledger/types.js';
import type { Draft } from '../../ledger/working-set.js';
import { PageBudget } from '../fill-page.js';
import type { CallContext, HandlerTools } from '../handler.js';
import { type RecordList, readPage } from '../paged-list.js';
import { requireReader } from '../reader-access.js';
import { WIRE_BREAKERS } from '../wire-enums.js';

/** As many sinks as a domain is shown with. */
const MAX_SINKS_SHOWN = 1000;
const MAX_SINK_BYTES = 1024 * 1024;
/** Different numbers of calls in one window: half a million calls of ten seconds have no more. */
const MAX_SERVED_SHOWN = 1000;

/** An actor's counters and those of its nonces, with the clock that they were read by. */
type ReadActor = ActorCounterRow & {
  readonly readAt: Micros;
  /** Null, as are its counts, where it consumed no nonce. */
  readonly firstBucket: bigint | null;
  readonly counts: readonly number[] | null;
};

/** A sink as the statement reads it: its limits beside its counters. */
type ReadSink = SinkCounterRow &
  Pick<SinkRow, 'breakerThreshold' | 'breakerReset' | 'unknownCeiling' | 'unknownAge'> & {
    readonly oldestUnknownAt: Micros | null;
  };

/**
 * `GetAdmissionStatus`: every counter of the domain that the call acts in, as of the store's clock, with a page of its
 * actors (authority.md, Admission).
 *
 * @throws {Refused} NOT_VISIBLE where the caller is no operator of the domain; FIELD_INVALID
 */
export async function getAdmissionStatus(
  tools: HandlerTools,
  context: CallContext,
  request: { readonly pageSize: number; readonly pageToken: string },
): Promise<MessageInitShape<typeof GetAdmissionStatusResponseSchema>> {
  const { domainId } = context;
  const draft = await requireReader(tools, context, domainId, ['operator'], { shares: ['all'] });
  const { records, nextPageToken } = await readPage(tools.reader, actorsOf(draft), domainId, request);
  const sinks = await tools.reader.query<ReadSink>('sinks_admission', [domainId, MAX_SINKS_SHOWN]);
  return { status: wireStatus(draft, sinks), actors: records, nextPageToken };
}

function wireStatus(
  draft: Draft,
  sinks: readonly ReadSink[],
): MessageInitShape<typeof AdmissionStatusSchema> {
  const { limits } = draft.domain;
  const { counters } = draft.head;
  return {
    nowTime: microsToTimestamp(draft.now),
    limits: {
      ...limits,
      actorRequestsPerMinute: actorLimit(limits),
      fairnessBurst: actorBurst(limits),
    },
    minute: wireMinute(currentMinute(counters, draft.now), limits.requestsPerMinute),
    pending: counters.pending,
    window: wireWindow(draft),
    sinks: shownSinks(sinks, draft.now),
    ...wireShares(draft),
    liveNonceCeiling: MAX_LIVE_NONCES,
  };
}

function wireMinute(minute: Minute, limit: number): MessageInitShape<typeof MinuteUseSchema> {
  return {
    startTime: microsToTimestamp(minute.minuteStart),
    ordinary: minute.calls,
    safety: minute.safetyCalls,
    ordinaryLeft: ordinaryLeft(minute, limit),
  };
}

function wireWindow(draft: Draft): MessageInitShape<typeof FairnessWindowSchema> {
  const start = windowOf(draft.now);
  const served = servedIn(draft.head.counters, start);
  return {
    startTime: microsToTimestamp(start),
    activeActors: served.reduce((sum, { actors }) => sum + actors, 0),
    leastServed: served[0]?.calls ?? 0,
    mostServed: served.at(-1)?.calls ?? 0,
    served: served.slice(0, MAX_SERVED_SHOWN).map((one) => ({ ...one })),
  };
}

/** Only the service's own domain tells of the others, and only their sum. */
function wireShares(draft: Draft): { readonly service?: MessageInitShape<typeof ServiceSharesSchema> } {
  if (draft.domainId !== draft.facts.serviceDomainId) return {};
  const { service, others } = draft.shares;
  const givenOut = BigInt(others + draft.domain.limits.requestsPerMinute);
  return { service: { requestsPerMinute: service, givenOut } };
}

function shownSinks(rows: readonly ReadSink[], now: Micros): SinkAdmission[] {
  const budget = new PageBudget(MAX_SINK_BYTES);
  const shown: SinkAdmission[] = [];
  for (const row of rows) {
    const sink = create(SinkAdmissionSchema, wireSink(row, now));
    if (!budget.takesMessage(SinkAdmissionSchema, sink)) break;
    shown.push(sink);
  }
  return shown;
}

function wireSink(row: ReadSink, now: Micros): MessageInitShape<typeof SinkAdmissionSchema> {
  const { openedAt, oldestUnknownAt } = row;
  const tried = tryTime(row, row);
  // What became UNKNOWN behind the reading of the clock is of no age yet.
  const age = oldestUnknownAt === null || oldestUnknownAt > now ? 0n : now - oldestUnknownAt;
  return {
    sink: row.sink,
    breaker: WIRE_BREAKERS[row.breaker],
    failures: row.failures,
    breakerThreshold: row.breakerThreshold,
    ...(openedAt === null ? {} : { openTime: microsToTimestamp(openedAt) }),
    ...(tried === undefined ? {} : { tryTime: microsToTimestamp(tried) }),
    probeEffectId: row.probeEffectId ?? '',
    unknown: row.unknown,
    unknownCeiling: row.unknownCeiling,
    ...(oldestUnknownAt === null ? {} : { oldestUnknownAge: microsToTimestamp(age) }),
    unknownAge: microsToTimestamp(row.unknownAge),
  };
}

function actorsOf(draft: Draft): RecordList<ReadActor, typeof ActorAdmissionSchema> {
  const limit = actorLimit(draft.domain.limits);
  return {
    name: 'actors_admission_page',
    key: ({ actor }) => actor,
    schema: ActorAdmissionSchema,
    wire: (rows) =>
      rows.map((row) => {
        // The page is read behind the domain: a minute may have begun in between.
        const now = row.readAt > draft.now ? row.readAt : draft.now;
        return {
          actor: row.actor,
          minute: wireMinute(currentMinute(row, now), limit),
          windowCalls: callsIn(row, windowOf(now)),
          liveNonces: noncesOf(row, now),
        };
      }),
  };
}

function noncesOf({ firstBucket, counts }: ReadActor, now: Micros): number {
  return firstBucket === null || counts === null ? 0 : liveNonces({ firstBucket, counts }, now);
}
