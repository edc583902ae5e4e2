import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import type { TestProject } from 'vitest/node';
import { startEmbeddedPostgres } from '../../src/embedded/embedded-postgres.js';
import { prepareServer, testServerSettings } from './suite-postgres.js';

declare module 'vitest' {
  interface ProvidedContext {
    /** Where the development certificates of the suite are, once somebody has had them made. */
    certificatesDirectory: string;
  }
}

/**
 * Starts the one Postgres of the whole suite, in a folder of its own, and makes the migrated template from which
 * each test file gets its database (postgres.ts). The returned function stops it and removes the folder; if this
 * process is killed, the server's watchdog does.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const certificates = await mkdtemp(path.join(os.tmpdir(), 'surety-certs-'));
  const server = await startEmbeddedPostgres({
    dataDir: await mkdtemp(path.join(os.tmpdir(), 'surety-test-')),
    settings: testServerSettings,
    removeWhenDone: true,
  });
  try {
    const prepared = await prepareServer(server.url);
    if (prepared.templateFailure !== undefined) {
      process.stderr.write(`No test gets a database: ${prepared.templateFailure}\n`);
    }
    project.provide('suitePostgres', prepared);
    project.provide('certificatesDirectory', certificates);
  } catch (error) {
    await server.stop();
    throw error;
  }
  return async () => {
    await server.stop();
    await rm(certificates, { recursive: true, force: true });
  };
}
