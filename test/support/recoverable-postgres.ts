import { spawn } from 'node:child_process';
import { chmod, chown, mkdir, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { Client } from 'pg';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/embedded/embedded-postgres.js';
import type { PostgresSettings } from '../../src/embedded/server-settings.js';
import { createDatabaseOn, type TestDatabase } from './postgres.js';
import { prepareServer, testServerSettings } from './suite-postgres.js';

/** A server of the test's own that archives its log, so that it can be brought back to any moment since its backup. */
export interface RecoverablePostgres {
  createTestDatabase(): Promise<TestDatabase>;
  /** Copies the data files while the server runs. */
  takeBackup(): Promise<void>;
  /** Names the present moment. */
  markMoment(name: string): Promise<void>;
  /** Stops the server, and starts it on the backup, rolled forward to a moment: on the same port, with the same logins. */
  bringBackTo(name: string): Promise<void>;
  /** Stops it and removes everything. Call it in any case. */
  stop(): Promise<void>;
}

/** Starts a server with an archive. */
export async function startRecoverablePostgres(): Promise<RecoverablePostgres> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'surety-pitr-'));
  const [archive, backup] = [path.join(folder, 'archive'), path.join(folder, 'backup')];
  await mkdir(archive);
  // As root the server runs under another account, which has to pass through here and write there.
  await chmod(folder, 0o755);
  await chmod(archive, 0o777);
  const settings: PostgresSettings = {
    ...testServerSettings,
    archive_mode: 'on',
    archive_command: `test ! -f ${archive}/%f && cp %p ${archive}/%f`,
  };
  const dataDir = path.join(folder, 'server');
  const start = (more: PostgresSettings = {}, port?: number): Promise<EmbeddedPostgres> =>
    startEmbeddedPostgres({
      dataDir,
      settings: { ...settings, ...more },
      removeWhenDone: true,
      ...(port === undefined ? {} : { port }),
    });
  let server = await start().catch(async (error: unknown) => {
    await rm(folder, { recursive: true, force: true });
    throw error;
  });
  const prepared = await prepareServer(server.url);
  return {
    createTestDatabase: () => createDatabaseOn(prepared),
    takeBackup: () => copyWhileRunning(server, backup),
    markMoment: (name) =>
      asSuperuser(server.url, async (client) => {
        await client.query('SELECT pg_create_restore_point($1)', [name]);
      }),
    bringBackTo: async (name) => {
      const { data, port } = server;
      // A fast shutdown archives what is left of the log.
      await server.stop({ keepData: true });
      await rm(data, { recursive: true });
      await run('cp', ['-a', backup, data]);
      await writeAsOwner(path.join(data, 'recovery.signal'), '');
      server = await start(
        {
          restore_command: `cp ${archive}/%f %p`,
          recovery_target_name: name,
          recovery_target_action: 'promote',
        },
        port,
      );
      await untilPromoted(server.url);
    },
    stop: async () => {
      await server.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** A backup by file copy, as Postgres' manual has it: between start and stop, with the label that stop answers. */
async function copyWhileRunning({ url, data }: EmbeddedPostgres, backup: string): Promise<void> {
  await asSuperuser(url, async (client) => {
    await client.query("SELECT pg_backup_start('test', true)");
    // Files may vanish under the copy: what is missing comes back from the log.
    await run('cp', ['-a', data, backup], [0, 1]);
    for (const name of await readdir(path.join(backup, 'pg_wal'))) {
      await rm(path.join(backup, 'pg_wal', name), { recursive: true });
    }
    for (const name of ['postmaster.pid', 'postmaster.opts']) {
      await rm(path.join(backup, name), { force: true });
    }
    const { rows } = await client.query('SELECT labelfile FROM pg_backup_stop()');
    await writeAsOwner(path.join(backup, 'backup_label'), rows[0].labelfile);
  });
}

/** Writes a file that belongs to whom its folder belongs to. */
async function writeAsOwner(file: string, content: string): Promise<void> {
  await writeFile(file, content);
  const { uid, gid } = await stat(path.dirname(file));
  if (process.getuid?.() === 0) await chown(file, uid, gid);
}

async function untilPromoted(url: string): Promise<void> {
  await asSuperuser(url, async (client) => {
    for (;;) {
      const { rows } = await client.query('SELECT pg_is_in_recovery() AS recovering');
      if (rows[0].recovering === false) return;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  });
}

async function asSuperuser(url: string, work: (client: Client) => Promise<void>): Promise<void> {
  const client = new Client(url);
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}

async function run(program: string, args: readonly string[], fine: readonly number[] = [0]): Promise<void> {
  const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  child.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()));
  const code = await new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  if (!fine.includes(code as number)) throw new Error(`${program} ended with ${String(code)}: ${said}`);
}
