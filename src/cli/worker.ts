import { awaitStop, exitCodeOf } from '../stop-signals.js';
import { PROCESS_TERMINAL, type Terminal } from './admin/terminal.js';
import { openWorker } from './worker/open-worker.js';
import { readWorkerOptions } from './worker/read-options.js';
import type { WorkerEntry } from './worker/steps.js';
import { workerLine } from './worker/worker-log.js';

export const WORKER_HELP = `surety worker --provider <url> [options]

A reference worker for governed actions: leases what is approved, dispatches it at most once over HTTP, settles
doubt by bounded readings, accepts, verifies, completes. It keeps nothing of its own: killed at any moment, it goes on from the
service. Needs a registration with the role action_worker. One line for each step goes to the standard output, free of content.

  --provider        the outside system: POST <url>/executions with Idempotency-Key, GET <url>/executions/<key>
  --scope           only this source, or with * at its end those that begin so; --type narrows further, and repeats
  --registration    of a worker with several registrations, the id of the one that it speaks as
  --target, --cert, --key, --roots
                    where the service listens, the worker's certificate and key, and whom it trusts for the service; unless
                    given, SURETY_LISTEN and the development worker's
  --lease           of one action, 60s unless given; one dispatch and its answer fit into it
  --timeout         of one request to the provider, 10s
  --window, --observations
                    for how long, and how often, the outcome of a dispatch is looked at: 10m, 10
  --delay           between two observations, and before what has to wait is looked at again, 5s
  --poll            where nothing was ready, 1s
  --validator       a module whose default export judges each view before its dispatch
  --executor-cert, --executor-key, --executor-registration, --executor-signing-key
                    an executor beside the worker, for actions that carry an effect
  --once            ends where nothing is ready any more; with 1 where the service does not tell whether anything is
  --json            one JSON object a line

SIGTERM or Ctrl-C: finishes the action in hand and ends with 0; a second one, a second later or more: at once. An answer of the provider is a JSON object with
execution_digest, status (done, refused, pending, unknown), id and retryable.`;

/** Runs until it is told to stop, or with --once until nothing is ready. @returns the exit code */
export async function workerCommand(
  args: readonly string[],
  terminal: Terminal = PROCESS_TERMINAL,
): Promise<number> {
  const options = readWorkerOptions(args);
  const tell = (entry: WorkerEntry): void => {
    // A lease that was asked for and not there is no news.
    if (entry.actionId === '' && entry.outcome === 'ok') return;
    terminal.out(`${workerLine(entry, new Date(), options.json)}\n`);
  };
  const stop = new AbortController();
  const signals = awaitStop({
    signals: ['SIGINT', 'SIGTERM'],
    endAtOnce: (signal) => process.exit(exitCodeOf(signal)),
  });
  void signals.asked.then(() => stop.abort());
  const { worker, close } = await openWorker(options, tell);
  try {
    await (options.once ? worker.drain(stop.signal) : worker.run(stop.signal));
    return 0;
  } finally {
    close();
    signals.release();
  }
}
