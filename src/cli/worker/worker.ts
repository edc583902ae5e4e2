import { setTimeout as sleep } from 'node:timers/promises';
import { ActionState } from '../../gen/surety/action/v1/action_pb.js';
import { OutcomeUnknown } from '../client/send-exactly.js';
import { SuretyError } from '../client/surety-error.js';
import { dispatchAction } from './dispatch-action.js';
import { leaseNext, leaseObservation } from './lease-actions.js';
import { failAction } from './moves.js';
import { observeAction } from './observe-action.js';
import { meaningOf } from './refusals.js';
import { completeAction, verifyAction } from './verify-action.js';
import type { Lease, WorkerContext } from './worker-context.js';

/**
 * The reference worker of governed actions (actions.md): leases, checks, dispatches at most once, observes with bounded
 * readings, accepts, verifies, completes. It keeps nothing: whatever it was doing when it ended, it or another goes on from the
 * store by leases and observations alone.
 */
export class Worker {
  constructor(private readonly context: WorkerContext) {}

  /** Works until it is told to stop; what it has in hand then, it brings to where it can be left. */
  async run(stop: AbortSignal): Promise<void> {
    while (!stop.aborted) {
      if ((await this.workOnce(stop)).is === 'moved') continue;
      await sleep(this.context.policy.pollMs, undefined, { signal: stop }).catch(() => {});
    }
  }

  /**
   * Works on what is ready, one action after the other, until nothing is or it is told to stop.
   *
   * @throws {DrainFailed} where the service does not tell whether anything is
   */
  async drain(stop?: AbortSignal): Promise<void> {
    for (;;) {
      const worked = await this.workOnce(stop);
      if (stop?.aborted || worked.is === 'nothing') return;
      if (worked.is === 'unknown') throw new DrainFailed(worked.error);
    }
  }

  /** Settles one doubt and moves one action on, where there are such. */
  async workOnce(stop?: AbortSignal): Promise<Worked> {
    const observed = await this.work(leaseObservation);
    if (stop?.aborted) return observed;
    const next = await this.work(leaseNext);
    return next.is === 'moved' || observed.is === 'nothing' ? next : observed;
  }

  private async work(take: (context: WorkerContext) => Promise<Lease | undefined>): Promise<Worked> {
    let lease: Lease | undefined;
    try {
      lease = await take(this.context);
    } catch (error) {
      // Taken all the same, the lease runs out.
      if (isOfWorker(error)) throw error;
      return { is: 'unknown', error };
    }
    if (!lease) return { is: 'nothing' };
    await this.moveOn(lease);
    return { is: 'moved' };
  }

  /** Moves one action on, as far as it goes now, under a lease that was taken. */
  async moveOn(lease: Lease): Promise<void> {
    try {
      await this.stage(lease);
    } catch (error) {
      if (meaningOf(error) === 'final') await this.giveUp(lease, error as SuretyError);
      // Lost, it is another's; else its lease runs out, and it is leased again, by what it is then.
      else if (isOfWorker(error)) throw error;
    }
  }

  private stage(lease: Lease): Promise<void> {
    switch (lease.action.state) {
      case ActionState.GATED:
        return dispatchAction(this.context, lease);
      case ActionState.DISPATCHED:
        return observeAction(this.context, lease);
      case ActionState.ACCEPTED:
        return verifyAction(this.context, lease);
      case ActionState.VERIFIED:
        return completeAction(this.context, lease);
      case ActionState.UNSPECIFIED:
      case ActionState.PROPOSED:
      case ActionState.COMPLETED:
      case ActionState.FAILED:
        throw new Error(`leased in state ${ActionState[lease.action.state]}`);
    }
  }

  private async giveUp(lease: Lease, { reason }: SuretyError): Promise<void> {
    try {
      await failAction(this.context, lease, reason);
    } catch (error) {
      if (isOfWorker(error)) throw error;
    }
  }
}

/** What became of looking for something to do. */
export type Worked =
  | { readonly is: 'moved' }
  | { readonly is: 'nothing' }
  /** The service did not tell; `error` is why. */
  | { readonly is: 'unknown'; readonly error: unknown };

/** Whether everything that was ready is done cannot be told. */
export class DrainFailed extends Error {
  override readonly name = 'DrainFailed';

  constructor(cause: unknown) {
    const of = cause instanceof OutcomeUnknown ? cause.cause : cause;
    const why = of instanceof SuretyError ? of.message : 'there was no answer';
    super(`whether anything is ready is not known: ${why}`, { cause });
  }
}

/** Codes of refusals that no other action would be spared. */
const ABOUT_THE_CALLER: ReadonlySet<string> = new Set([
  'UNAUTHENTICATED',
  'PERMISSION_DENIED',
  'UNIMPLEMENTED',
]);

/** Whether an error ends the worker: one that is not of the service, or that is about who the worker is. */
function isOfWorker(error: unknown): boolean {
  if (meaningOf(error) !== 'other') return false;
  return !(error instanceof SuretyError) || ABOUT_THE_CALLER.has(error.code);
}
