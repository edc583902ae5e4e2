import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { percentile } from '../measure/statistics.js';
import type { BenchWorld } from '../world/bench-world.js';
import { readSql, sqlFile } from '../world/sql.js';

const run = promisify(execFile);

/** Its own work is small, and it shares two cores with the server. */
const THREADS = 2;
/** Grants for the first round, before any rate is known, per second over all clients. */
const FIRST_RATE = 8_000;
/** No client runs so much ahead of its share of the round before. */
const HEADROOM = 3;
const LEAST_PER_CLIENT = 200;
const MICROS_PER_MS = 1000;

/** The version of the `pgbench` on the PATH; undefined: there is none. */
export async function pgbenchVersion(): Promise<string | undefined> {
  return run('pgbench', ['--version']).then(
    ({ stdout }) => stdout.trim(),
    () => undefined,
  );
}

/** What `pgbench` is run with besides clients and time, for the report. */
export const PGBENCH_SETTINGS = `-n -M prepared -j ${THREADS}`;

/** `pgbench` calling the one function of `sql/baseline.sql`, one transaction per call. */
export class Pgbench {
  private lastRate = FIRST_RATE;

  constructor(
    private readonly world: BenchWorld,
    private readonly clients: number,
    /** Which function of `sql/baseline.sql` it calls. */
    private readonly script: 'baseline.pgbench' | 'baseline-chained.pgbench' = 'baseline.pgbench',
  ) {}

  /** @returns transactions per second, without the time that connecting takes. @throws Error where one failed */
  async rate(seconds: number): Promise<number> {
    const { stdout } = await this.run(seconds, []);
    const tps = Number(/^tps = ([\d.]+)/m.exec(stdout)?.[1]);
    if (!(tps > 0)) throw new Error('pgbench did not say how fast it was');
    this.lastRate = tps;
    return tps;
  }

  /** @returns the median of how long a transaction took, in milliseconds. @throws Error where one failed */
  async p50Ms(seconds: number): Promise<number> {
    const logs = await mkdtemp(path.join(this.world.folder, 'pgbench-'));
    try {
      await this.run(seconds, ['-l', `--log-prefix=${path.join(logs, 'log')}`]);
      return percentile(await readLatencies(logs), 0.5);
    } finally {
      await rm(logs, { recursive: true });
    }
  }

  private async run(seconds: number, further: readonly string[]): Promise<{ stdout: string; calls: number }> {
    const round = await this.loadGrants(seconds);
    const what = this.script === 'baseline.pgbench' ? 'function' : 'function with a chain';
    return this.world.costs.during(what, ['postgres'], 'pgbench', () =>
      this.pgbench(seconds, round, further),
    );
  }

  private async pgbench(seconds: number, round: number, further: readonly string[]) {
    const { stdout, stderr } = await run(
      'pgbench',
      [
        ...PGBENCH_SETTINGS.split(' '),
        ...['-c', String(this.clients), '-T', String(seconds), '-f', sqlFile(this.script)],
        ...['-D', 'n=0', '-D', `round=${round}`, ...further],
      ],
      { env: environmentOf(this.world.postgres.url) },
    );
    if (/aborted/.test(stdout + stderr)) throw new Error('a transaction of pgbench failed');
    const calls = Number(/^number of transactions actually processed: (\d+)/m.exec(stdout)?.[1] ?? 0);
    return { stdout, calls };
  }

  private async loadGrants(seconds: number): Promise<number> {
    rounds += 1;
    const perClient = Math.ceil((this.lastRate * seconds * HEADROOM) / this.clients);
    await this.world.sql.query(await readSql('load-baseline-grants.sql'), [
      rounds,
      this.clients,
      Math.max(LEAST_PER_CLIENT, perClient),
    ]);
    return rounds;
  }
}

let rounds = 0;

/** A line for each transaction: client, number, microseconds, … */
async function readLatencies(folder: string): Promise<number[]> {
  const latencies: number[] = [];
  for (const name of await readdir(folder)) {
    const text = await readFile(path.join(folder, name), 'utf8');
    for (const line of text.split('\n')) {
      if (line !== '') latencies.push(Number(line.split(' ')[2]) / MICROS_PER_MS);
    }
  }
  return latencies;
}

/** Not as arguments: those are everybody's to read. */
function environmentOf(databaseUrl: string): Record<string, string> {
  const url = new URL(databaseUrl);
  return {
    PATH: process.env['PATH'] ?? '',
    PGHOST: url.hostname,
    PGPORT: url.port,
    PGUSER: decodeURIComponent(url.username),
    PGPASSWORD: decodeURIComponent(url.password),
    PGDATABASE: url.pathname.slice(1),
    PGSSLMODE: 'disable',
  };
}
