import { readFile } from 'node:fs/promises';
import os from 'node:os';
import type pg from 'pg';
import { fdatasyncMicros } from '../measure/disk.js';
import { pgbenchVersion } from '../sides/pgbench.js';

const BYTES_PER_GIB = 2 ** 30;

/** What every commit of a side must wait for. */
const DURABILITY = ['fsync', 'synchronous_commit', 'full_page_writes'] as const;
const FURTHER = ['shared_buffers', 'max_wal_size', 'wal_sync_method', 'commit_delay', 'autovacuum'] as const;

/** What the run is made on. @param loadBefore the load average before anything was started */
export async function machineOf(loadBefore: number): Promise<Readonly<Record<string, string | number>>> {
  const cpus = os.cpus();
  return {
    cpus: cpus.length,
    cpu: cpus[0]?.model.trim() ?? 'unknown',
    memory_gib: Number((os.totalmem() / BYTES_PER_GIB).toFixed(1)),
    system: `${os.type()} ${os.release()} ${os.arch()}`,
    load_before: Number(loadBefore.toFixed(2)),
    fdatasync_us: await fdatasyncMicros(),
    load_after: Number((os.loadavg()[0] ?? 0).toFixed(2)),
  };
}

export async function versionsOf(sql: pg.Client): Promise<Readonly<Record<string, string>>> {
  const manifest = JSON.parse(await readFile('package.json', 'utf8')) as { version: string };
  const { rows } = await sql.query<{ server_version: string }>('SHOW server_version');
  const pgbench = /[\d.]+/.exec((await pgbenchVersion()) ?? '')?.[0];
  return {
    surety: manifest.version,
    node: process.versions.node,
    postgres: rows[0]?.server_version ?? 'unknown',
    ...(pgbench === undefined ? {} : { pgbench }),
  };
}

/** Settings of the Postgres that both sides are on. @throws Error where one that makes a commit durable is off */
export async function postgresSettings(sql: pg.Client): Promise<Readonly<Record<string, string>>> {
  const settings: Record<string, string> = {};
  for (const name of [...DURABILITY, ...FURTHER]) {
    const { rows } = await sql.query<Record<string, string>>(`SHOW ${name}`);
    settings[name] = rows[0]?.[name] ?? '';
  }
  for (const name of DURABILITY) {
    if (settings[name] !== 'on') throw new Error(`the benchmark's Postgres has ${name} = ${settings[name]}`);
  }
  return settings;
}
