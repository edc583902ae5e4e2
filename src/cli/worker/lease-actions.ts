import type { Action } from '../../gen/surety/action/v1/action_pb.js';
import type { Held } from '../client/worker-session.js';
import { stateOf } from './steps.js';
import type { Lease, WorkerContext } from './worker-context.js';

/** Leases the next action that can be moved on; undefined: there is none. */
export function leaseNext(context: WorkerContext): Promise<Lease | undefined> {
  const { session, scope, policy } = context;
  const { leaseMs } = policy;
  return take(context, 'LeaseNext', () => session.leaseNext({ leaseMs, ...(scope && { scope }) }));
}

/** Leases the next action that is to be observed; undefined: there is none. */
export function leaseObservation(context: WorkerContext): Promise<Lease | undefined> {
  const { session, scope, policy } = context;
  const { leaseMs } = policy;
  return take(context, 'LeaseObservation', () =>
    session.leaseObservation({ leaseMs, ...(scope && { scope }) }),
  );
}

/** The same lease, with the action as an answer showed it. */
export function answerLease(lease: Lease, action: Action | undefined): Lease {
  return action ? { ...lease, action } : lease;
}

async function take(
  { steps, clock, policy }: WorkerContext,
  step: 'LeaseNext' | 'LeaseObservation',
  lease: () => Promise<Held | undefined>,
): Promise<Lease | undefined> {
  const from = clock();
  const held = await steps.take(step, '', lease, (answer) => stateOf(answer?.action));
  // A repeated call may have been answered with a lease that has ended since.
  return held?.action.lease ? { ...held, untilMs: from + policy.leaseMs } : undefined;
}
