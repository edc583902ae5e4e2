import { setTimeout as sleep } from 'node:timers/promises';
import { refusal } from '../ledger/refusal.js';
import type { CallGate } from '../rpc/call-gate.js';
import type { GrpcAdapter } from '../rpc/grpc-adapter.js';
import type { HealthState } from '../rpc/health-state.js';

/** What a drain touches, in the order in which it does. */
export interface DrainParts {
  readonly health: HealthState;
  readonly gate: CallGate;
  readonly adapter: GrpcAdapter;
  /** What comes between the end of the watches and the end of the calls: pollers, sweeps, reloads. */
  readonly stopBackground: () => Promise<void>;
  /** Closes the port, says GOAWAY and waits for calls, at most so long. */
  readonly closeListener: (graceMs: number) => Promise<void>;
  /** Waits for what the lanes have begun. */
  readonly drainLanes: () => Promise<void>;
  /** Pools, then the admin port. */
  readonly closeStore: () => Promise<void>;
}

/** Watchers of health hear that it goes before their streams end. */
const HEALTH_FIRST_MS = 50;

const DRAINING = refusal('DRAINING', 'The service is shutting down.', { retryAfter: 1_000_000n });

/**
 * Ends a service without cutting anything off: health first, then nothing new, watches end, calls in flight finish, the
 * lanes finish what they have begun, and only then the pools go.
 *
 * @param graceMs how long calls may take; after it their connections are cut, and their commands go on
 */
export async function drain(parts: DrainParts, graceMs: number): Promise<void> {
  parts.health.drain();
  parts.gate.drain();
  await sleep(Math.min(HEALTH_FIRST_MS, graceMs));
  parts.adapter.endStreams(DRAINING);
  await parts.stopBackground();
  await parts.closeListener(graceMs);
  await untilIdle(parts.adapter, graceMs);
  await parts.drainLanes();
  await parts.closeStore();
}

/** A call whose connection was cut may still be at work; what it began must not meet a closed pool. */
async function untilIdle(adapter: GrpcAdapter, graceMs: number): Promise<void> {
  const end = performance.now() + graceMs;
  while (adapter.activeCalls > 0 && performance.now() < end) await sleep(10);
}
