import { parseArgs } from 'node:util';
import { readConfiguration } from '../config/configuration.js';
import { migrate } from '../store/migrate.js';
import { UsageError } from './failure.js';

export const MIGRATE_HELP = `surety migrate [--test]

Brings the schema of SURETY_MIGRATION_URL (or, where that is not set, SURETY_DATABASE_URL) up to date. Safe to run
by several at once, and again.

  --test   also marks the database as one for tests, whose clock can be moved; there is no way back`;

/** Migrates once. @returns the exit code */
export async function migrateCommand(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({ args: [...args], options: { test: { type: 'boolean', default: false } } });
  const { migrationUrl, databaseUrl } = readConfiguration(process.env, 'migrate');
  const url = migrationUrl ?? databaseUrl;
  if (url === undefined) throw new UsageError('SURETY_MIGRATION_URL or SURETY_DATABASE_URL: must be set');
  const log = (line: string): void => void process.stdout.write(`${line}\n`);
  const { version, applied } = await migrate({ url, test: values.test, log });
  const what = applied.length === 0 ? 'nothing was to be done' : `${applied.length} applied`;
  log(`The schema has version ${version}: ${what}.${values.test ? ' It is marked as a test database.' : ''}`);
  return 0;
}
