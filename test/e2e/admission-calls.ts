import { fromBinary } from '@bufbuild/protobuf';
import { anyUnpack } from '@bufbuild/protobuf/wkt';
import type { ServiceError } from '@grpc/grpc-js';
import type { SuretyError } from '../../src/cli/client/surety-error.js';
import { DEMO_AUTHORITY_SYSTEM, DEMO_SINK } from '../../src/cli/demo/set-up-domain.js';
import { QuotaFailureSchema } from '../../src/gen/google/rpc/error_details_pb.js';
import { StatusSchema } from '../../src/gen/google/rpc/status_pb.js';
import { ADMITS_ALL_SINK } from '../support/admits-all.js';
import { put } from '../support/e2e-parties.js';
import { ACME, type E2eWorld } from '../support/e2e-world.js';
import type { StillClock } from '../support/still-clock.js';

const MINUTE = 60_000_000n;

/** What refuses nothing; a test narrows what it is about. */
const WIDE = {
  actorRequestsPerMinute: 100_000,
  pendingCeiling: 1_000_000,
  fairnessBurst: 100_000,
  maxHops: 16,
};

/** Changes what acme.test lets through, by a signed command; what is not named is wide. */
export function setLimits(world: E2eWorld, limits: Partial<typeof WIDE> = {}): Promise<void> {
  return put(world, { case: 'setLimits', value: { ...WIDE, ...limits } });
}

/** Changes what the sink bears; what is not named it bears for ever. */
export function setSink(
  world: E2eWorld,
  limits: Partial<Record<keyof typeof ADMITS_ALL_SINK | 'breakerReset', unknown>> = {},
) {
  const sink = { ...ADMITS_ALL_SINK, ...limits, sink: DEMO_SINK, authoritySystems: [DEMO_AUTHORITY_SYSTEM] };
  return put(world, { case: 'putSink', value: { sink: sink as never } });
}

/** Moves a clock that stands to so many microseconds into the next minute: nothing is counted in it yet. */
export function nextMinute(clock: StillClock, into = 0n): Promise<void> {
  return clock.move(MINUTE - (clock.now % MINUTE) + into);
}

/** What is counted of acme.test, as its rows say. */
export async function counted(world: E2eWorld) {
  const domain = await world.sql.query(
    `SELECT minute_start::text, calls, safety_calls, pending, served_calls, served_actors FROM domain_heads WHERE domain_id = $1`,
    [ACME],
  );
  const actors = await world.sql.query(
    `SELECT actor, minute_start::text, calls, safety_calls, window_calls FROM actor_counters WHERE domain_id = $1 ORDER BY actor`,
    [ACME],
  );
  const sinks = await world.sql.query(
    `SELECT sink, breaker, failures, opened_at::text, probe_effect_id, unknown FROM sink_counters WHERE domain_id = $1`,
    [ACME],
  );
  return {
    domain: domain.rows[0] as DomainCounts,
    actors: actors.rows as ActorCounts[],
    sink: sinks.rows.find(({ sink }) => sink === DEMO_SINK) as SinkCounts | undefined,
  };
}

export interface DomainCounts {
  readonly minute_start: string;
  readonly calls: number;
  readonly safety_calls: number;
  readonly pending: number;
}
export interface ActorCounts extends Omit<DomainCounts, 'pending'> {
  readonly actor: string;
  readonly window_calls: number;
}
export interface SinkCounts {
  readonly breaker: string;
  readonly failures: number;
  readonly opened_at: string | null;
  readonly probe_effect_id: string | null;
  readonly unknown: number;
}

/** What QuotaFailure of an error names; undefined where it has none. */
export function quotaOf(error: SuretyError): string | undefined {
  const bytes = (error.cause as ServiceError).metadata.get('grpc-status-details-bin')[0];
  const details = Buffer.isBuffer(bytes) ? fromBinary(StatusSchema, bytes).details : [];
  return details.map((any) => anyUnpack(any, QuotaFailureSchema)).find((one) => one !== undefined)
    ?.violations[0]?.subject;
}
