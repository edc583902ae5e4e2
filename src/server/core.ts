import type { Logger } from 'pino';
import type { Configuration } from '../config/configuration.js';
import { auditCodec } from '../lane/audit-codec.js';
import { Faults } from '../lane/faults.js';
import { Lanes } from '../lane/lanes.js';
import { Sweeps } from '../lane/sweeps.js';
import type { ClockTools } from '../rpc/clock-service.js';
import type { HandlerTools } from '../rpc/handler.js';
import { newId } from '../rpc/new-id.js';
import { proofKeysOf } from '../rpc/proof-keys.js';
import type { StoreClock } from '../rpc/store-clock.js';
import { PositionPoller } from '../rpc/watch/position-poller.js';
import type { ConnectionSettings } from '../store/connection.js';
import { ConnectionPool } from '../store/connection-pool.js';
import { PgReader } from '../store/pg-reader.js';
import { sweepLanes } from '../store/sweep-lanes.js';
import { NoncePlaces, sweepNonces } from '../store/sweep-nonces.js';
import { PgTestClock } from '../store/test-clock.js';
import { AdmissionWatch } from './admission-watch.js';
import type { LaneEvents, Metrics } from './metrics.js';

/** What works on the store. */
export interface Core {
  readonly tools: HandlerTools;
  readonly lanes: Lanes;
  readonly lanePool: ConnectionPool;
  readonly reader: PgReader;
  readonly sweeps: Sweeps;
  readonly positions: PositionPoller;
  readonly testClock: ClockTools | undefined;
  /** Ends the pools. */
  close(): Promise<void>;
}

/** Puts together what works on the store. Nothing is connected yet, and nothing runs. */
export function composeCore(
  configuration: Configuration,
  settings: ConnectionSettings,
  clock: StoreClock,
  metrics: Metrics,
  log: Logger,
): Core {
  const lanePool = new ConnectionPool(settings, configuration.laneConnections, metrics.poolWait('lane'));
  const reader = new PgReader(settings, configuration.poolSize, auditCodec, metrics.poolWait('read'));
  const lanes = new Lanes({
    pool: lanePool,
    codec: auditCodec,
    faults: new Faults(configuration.fault),
    observer: metrics.laneObserver(laneEvents(log)),
    laneId: newId('lane'),
    queueLimit: configuration.queueLimit,
    batchLimit: configuration.batchLimit,
  });
  const watch = new AdmissionWatch(reader, log);
  metrics.admission.watch(() => watch.reading);
  const places = new NoncePlaces();
  const sweeps = new Sweeps({
    commands: lanes,
    reader,
    newId,
    housekeeping: {
      admission: () => watch.look(),
      nonces: () => sweepNonces(lanePool, { places }),
      lanes: () => sweepLanes(lanePool),
    },
    onError: (error, sweep) =>
      log.warn({ sweep, error: nameOf(error) }, 'a sweep failed; the next round tries again'),
  });
  return {
    tools: { commands: lanes, reader, newId, proofKeys: proofKeysOf(reader) },
    lanes,
    lanePool,
    reader,
    sweeps,
    positions: new PositionPoller(reader),
    testClock: configuration.testClock ? testClockOf(new PgTestClock(lanePool), sweeps, clock) : undefined,
    close: async () => {
      await Promise.all([lanePool.close(), reader.close()]);
    },
  };
}

function laneEvents(log: Logger): LaneEvents {
  return {
    regressed: (domainId) =>
      log.error({ domainId }, 'the store went back behind what this service has seen: the domain is stopped'),
    breaker: (domainId, sink, state) =>
      log.warn({ domainId, sink, state }, "a sink's circuit breaker has changed"),
  };
}

/** The store's clock jumps, and what this process carries on of it jumps along. */
function testClockOf(store: PgTestClock, sweeps: Sweeps, clock: StoreClock): ClockTools {
  return {
    clock: {
      now: () => store.now(),
      advance: async (by) => {
        const now = await store.advance(by);
        if (now !== undefined) clock.observe(now);
        return now;
      },
    },
    sweepOnce: async () => void (await sweeps.sweepOnce()),
  };
}

/** A driver's text may hold data; its name does not. */
function nameOf(error: unknown): string {
  return error instanceof Error
    ? `${error.name}: ${'detail' in error ? String(error.detail) : ''}`
    : typeof error;
}
