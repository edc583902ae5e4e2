import type { Logger } from 'pino';
import { type Service, type ServiceConfiguration, startService } from './server/service.js';
import { awaitStop } from './stop-signals.js';

/** What a process may do around its service. */
export interface ProcessOptions {
  readonly configuration: ServiceConfiguration;
  readonly log: Logger;
  /** Called once it serves. */
  readonly onServing?: (service: Service) => void;
}

const STOP_SIGNALS = ['SIGTERM', 'SIGINT'] as const;

/** As a shell would report a process that the signal ended. */
const EXIT_OF_SECOND_SIGNAL = 130;

/**
 * Runs a service until it is told to stop: SIGTERM or SIGINT drains it, a second one, a while later, exits at once.
 *
 * @returns when everything has ended
 * @throws what `startService` throws
 */
export async function runService({ configuration, log, onServing }: ProcessOptions): Promise<void> {
  endOnBugs(log);
  const stop = stopRequested(log);
  const service = await startService(configuration, log);
  onServing?.(service);
  await stop;
  await service.drain();
  log.info('drained');
}

async function stopRequested(log: Logger): Promise<void> {
  const signal = await awaitStop({
    signals: STOP_SIGNALS,
    endAtOnce: () => process.exit(EXIT_OF_SECOND_SIGNAL),
    onSecondCounts: () => log.info('a second signal ends at once'),
  }).asked;
  log.info({ signal }, 'draining');
}

/** After an error that nobody caught the state of the process is unknown. All that counts is in the store. */
function endOnBugs(log: Logger): void {
  process.on('uncaughtException', (error, origin) => {
    log.fatal({ error: error.stack, origin }, 'uncaught');
    process.exit(1);
  });
}
