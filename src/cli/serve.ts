import { parseArgs } from 'node:util';
import { type Configuration, readConfiguration } from '../config/configuration.js';
import { runService } from '../main.js';
import { createLog } from '../server/log.js';
import type { ServiceConfiguration } from '../server/service.js';

export const SERVE_HELP = `surety serve

Runs the service with the database and the certificates that it is given, and makes nothing of its own. It needs
SURETY_DATABASE_URL, SURETY_TLS_CERT_FILE, SURETY_TLS_KEY_FILE and SURETY_BUNDLES_DIR; surety help configuration
lists all variables. The schema is brought up to date first, and the database must have been bootstrapped.

SIGTERM or SIGINT drains it: health says NOT_SERVING, watches end, calls finish. A second signal, a second
later or more, ends it at once.
Writes its log to the standard output, one JSON object a line.`;

/** Runs until it is told to stop. @returns the exit code */
export async function serve(args: readonly string[]): Promise<number> {
  parseArgs({ args: [...args], options: {} });
  const configuration = readConfiguration(process.env, 'serve');
  if (!isComplete(configuration)) throw new TypeError('a required variable is not there');
  await runService({ configuration, log: createLog(configuration.logLevel, 1) });
  return 0;
}

function isComplete(configuration: Configuration): configuration is ServiceConfiguration {
  return configuration.tls !== undefined && configuration.databaseUrl !== undefined;
}
