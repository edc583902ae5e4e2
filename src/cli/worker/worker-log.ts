import type { WorkerEntry } from './steps.js';

/** One line of a worker's log, without its line break: JSON, or for people. Ids, states, codes and reasons, no content. */
export function workerLine(entry: WorkerEntry, time: Date, json: boolean): string {
  const { step, outcome, actionId, state, reason, code } = entry;
  if (json) {
    const fields = { time: time.toISOString(), step, outcome, action_id: actionId, state, reason, code };
    return JSON.stringify(fields);
  }
  const result = outcome === 'ok' ? [state, reason] : [outcome.replace('_', ' '), reason, code, state];
  return `${time.toISOString()} ${actionId} ${step} ${result.filter((word) => word !== '').join(' ')}`.trimEnd();
}
