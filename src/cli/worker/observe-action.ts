import { acceptAction } from './accept-action.js';
import { deferObservation, failAction, readProvider } from './moves.js';
import { stateOf } from './steps.js';
import type { Lease, WorkerContext } from './worker-context.js';

/**
 * A DISPATCHED action: journalled first, then read, never sent (actions.md, I6 and I7). Whoever leases it need not be the
 * process that dispatched it, and does not know how far that one came.
 */
export async function observeAction(context: WorkerContext, lease: Lease): Promise<void> {
  const { session, steps, effects } = context;
  const { actionId, effectId } = lease.action;
  if (effectId !== '') await effects?.doubt(actionId, effectId);
  const begun = await steps.take(
    'BeginObservation',
    actionId,
    () => session.beginObservation(lease),
    ({ action }) => stateOf(action),
  );
  // Without a journalled observation the action has ended as ambiguous, and nothing may be read any more.
  if (!begun.observation) return;
  const answer = await readProvider(context, lease);
  if (answer.is === 'done') return acceptAction(context, lease, answer);
  if (answer.is === 'refused') return failAction(context, lease, 'the provider refused it', answer);
  await deferObservation(context, lease, begun.observationNumber);
}
