import { setTimeout as sleep } from 'node:timers/promises';
import { SuretyError } from './surety-error.js';

/** How often one request is sent at most: a service that is down for longer is not waited for. */
const MAX_SENDINGS = 5;
/** One sending is given up after so long, in milliseconds. */
const SENDING_TIMEOUT_MS = 10_000;
/** The pause before the first repetition, in milliseconds; each later one is twice as long. */
const FIRST_PAUSE_MS = 200;
/** However long the service asks to wait, all sendings together stay within a signed command's validity. */
const MAX_PAUSE_MS = 10_000;

/** Codes that say nothing about the request where no reason of the service comes with them. */
const ANSWERLESS: ReadonlySet<string> = new Set([
  'UNAVAILABLE',
  'DEADLINE_EXCEEDED',
  'CANCELLED',
  'UNKNOWN',
  'INTERNAL',
]);
/** Reasons after which the exact same request may be sent again. */
const REPEATABLE: ReadonlySet<string> = new Set(['OUTCOME_UNKNOWN', 'STORE_UNAVAILABLE', 'DRAINING']);

/** A request of which it is not known whether it was done. */
export class OutcomeUnknown extends Error {
  override readonly name = 'OutcomeUnknown';
  constructor(options: ErrorOptions) {
    super('whether it was done is not known', options);
  }
}

/** How often, and how long between. */
export interface Patience {
  readonly sendings?: number;
  readonly timeoutMs?: number;
  readonly firstPauseMs?: number;
}

/**
 * Sends a request, and sends the very same again while its answer is lost (api.md, "After a lost answer"): for methods whose
 * exact repetition is answered like the first sending. `BeginDispatch` is none of them.
 *
 * @param send sends the same request each time
 * @param onRepeat told why, before each repetition
 * @throws {SuretyError} where the service refuses it
 * @throws {OutcomeUnknown} where no sending was answered
 */
export async function sendExactly<Answer>(
  send: (options: { readonly timeoutMs: number }) => Promise<Answer>,
  onRepeat: (error: SuretyError) => void = () => {},
  { sendings = MAX_SENDINGS, timeoutMs = SENDING_TIMEOUT_MS, firstPauseMs = FIRST_PAUSE_MS }: Patience = {},
): Promise<Answer> {
  let pauseMs = firstPauseMs;
  for (let sending = 1; ; sending += 1) {
    try {
      return await send({ timeoutMs });
    } catch (error) {
      if (!(error instanceof SuretyError) || !mayBeDone(error)) throw error;
      if (sending === sendings) throw new OutcomeUnknown({ cause: error });
      onRepeat(error);
      await sleep(Math.min(Math.max(pauseMs, error.retryAfterMs ?? 0), MAX_PAUSE_MS));
      pauseMs *= 2;
    }
  }
}

/** Whether a request that failed so may have been done all the same. */
export function mayBeDone({ code, reason }: SuretyError): boolean {
  return reason === '' ? ANSWERLESS.has(code) : REPEATABLE.has(reason);
}
