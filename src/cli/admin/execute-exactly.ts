import { setTimeout as sleep } from 'node:timers/promises';
import { AdminService, type ExecuteCommandResponse } from '../../gen/surety/authority/v1/admin_service_pb.js';
import type { ServiceClient } from '../client/service-client.js';
import { SuretyError } from '../client/surety-error.js';

/** How often one command is sent at most: a service that is down for longer is not waited for. */
const MAX_SENDINGS = 5;
/** One sending is given up after so long, in milliseconds. */
const SENDING_TIMEOUT_MS = 10_000;
/** The pause before the first repetition, in milliseconds; each later one is twice as long. */
const FIRST_PAUSE_MS = 200;
/** However long the service asks to wait, all sendings together stay within a command's validity. */
const MAX_PAUSE_MS = 10_000;

/** Codes that say nothing about the command where no reason of the service comes with them. */
const ANSWERLESS: ReadonlySet<string> = new Set([
  'UNAVAILABLE',
  'DEADLINE_EXCEEDED',
  'CANCELLED',
  'UNKNOWN',
  'INTERNAL',
]);
/** Reasons after which the exact same command may be sent again. */
const REPEATABLE: ReadonlySet<string> = new Set(['OUTCOME_UNKNOWN', 'STORE_UNAVAILABLE', 'DRAINING']);

/** A command of which it is not known whether it was done. */
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
 * Sends a signed command, and sends the very same again while its answer is lost (api.md, "After a lost answer"): it is
 * done at most once, and its repetition answers the first result as `duplicate`.
 *
 * @param onRepeat told why, before each repetition
 * @throws {SuretyError} where the service refuses it
 * @throws {OutcomeUnknown} where no sending was answered
 */
export async function executeExactly(
  admin: Pick<ServiceClient<(typeof AdminService)['method']>, 'executeCommand'>,
  commandJws: string,
  onRepeat: (error: SuretyError) => void = () => {},
  { sendings = MAX_SENDINGS, timeoutMs = SENDING_TIMEOUT_MS, firstPauseMs = FIRST_PAUSE_MS }: Patience = {},
): Promise<ExecuteCommandResponse> {
  let pauseMs = firstPauseMs;
  for (let sending = 1; ; sending += 1) {
    try {
      return await admin.executeCommand({ commandJws }, { timeoutMs });
    } catch (error) {
      if (!(error instanceof SuretyError) || !mayBeDone(error)) throw error;
      if (sending === sendings) throw new OutcomeUnknown({ cause: error });
      onRepeat(error);
      await sleep(Math.min(Math.max(pauseMs, error.retryAfterMs ?? 0), MAX_PAUSE_MS));
      pauseMs *= 2;
    }
  }
}

function mayBeDone({ code, reason }: SuretyError): boolean {
  return reason === '' ? ANSWERLESS.has(code) : REPEATABLE.has(reason);
}
