import type { MessageInitShape } from '@bufbuild/protobuf';
import type { ActionScopeSchema } from '../../gen/surety/action/v1/action_pb.js';
import type { Held, WorkerSession } from '../client/worker-session.js';
import type { ActionEffects } from './action-effects.js';
import type { Provider } from './provider.js';
import type { Steps } from './steps.js';
import type { Validator } from './validator.js';

/** For how long, and how often; all in milliseconds but the count. */
export interface WorkerPolicy {
  /** What a lease is taken for: one dispatch and its answer fit into it. */
  readonly leaseMs: number;
  /** How long the outcome of a dispatch may be observed. */
  readonly observationWindowMs: number;
  /** How many observations there may be. */
  readonly maxObservations: number;
  /** A request to the provider, and an answer of it, may take so long. */
  readonly providerTimeoutMs: number;
  /** After an observation that told nothing, the next is made so much later. */
  readonly observeDelayMs: number;
  /** What cannot be dispatched or verified now is looked at again so much later. */
  readonly retryDelayMs: number;
  /** What the provider accepted and does not confirm for so long has failed. */
  readonly verifyWindowMs: number;
  /** Where nothing was ready, the worker asks again so much later. */
  readonly pollMs: number;
}

export const DEFAULT_POLICY: WorkerPolicy = {
  leaseMs: 60_000,
  observationWindowMs: 600_000,
  maxObservations: 10,
  providerTimeoutMs: 10_000,
  observeDelayMs: 5_000,
  retryDelayMs: 5_000,
  verifyWindowMs: 600_000,
  pollMs: 1_000,
};

/** All that a worker works with. */
export interface WorkerContext {
  readonly session: WorkerSession;
  readonly provider: Provider;
  readonly policy: WorkerPolicy;
  readonly validator: Validator;
  /** Where this process also holds an executor's identity; without, an action that carries an effect is not for it. */
  readonly effects?: ActionEffects;
  readonly scope?: MessageInitShape<typeof ActionScopeSchema>;
  readonly steps: Steps;
  /** Milliseconds of a clock that only goes forward. */
  readonly clock: () => number;
}

/** A lease, and until when it surely lasts. */
export interface Lease extends Held {
  /** On the worker's monotonic clock: counted from before the call that took it, so it is over here before it is there. */
  readonly untilMs: number;
}

/** What is left of a lease, in milliseconds; 0 or less: nothing. */
export function timeLeft({ clock }: WorkerContext, { untilMs }: Lease): number {
  return untilMs - clock();
}
