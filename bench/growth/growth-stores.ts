import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import pg from 'pg';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/embedded/embedded-postgres.js';
import { serviceRole } from '../../src/store/migrate-roles.js';
import type { LaneOrder } from '../lane/messages.js';
import { Child } from '../measure/child.js';
import { BATCH_LIMIT, BenchWorld } from '../world/bench-world.js';
import { DOMAIN, HARNESSES } from '../world/names.js';
import { Undoing } from '../world/undoing.js';
import { type LoadPlan, type LoadTimes, loadEffects } from './load-effects.js';
import { insertGrants, publishLoadedEvents } from './parents.js';
import { liveRealLives, type RealLife } from './real-lives.js';
import { verifyLoad } from './verify-load.js';

/**
 * For the load alone: what is written into a table that was emptied in the same transaction needs no WAL, and no checkpoint
 * comes in between. What is measured runs on the server as it comes.
 */
const LOAD_SETTINGS = {
  wal_level: 'minimal',
  max_wal_senders: '0',
  checkpoint_timeout: '1h',
  max_wal_size: '8GB',
  shared_buffers: '512MB',
  autovacuum: 'off',
};

/**
 * A store in service has the indexes that each reservation is looked up in within the machine's memory; behind a restart, or a
 * load that wrote more than there is of it, the first minutes would measure the disk.
 */
const WARM = `CREATE EXTENSION pg_prewarm;
  SELECT pg_prewarm(indexrelid, 'read') FROM pg_index WHERE indrelid IN ('effects'::regclass, 'grants'::regclass)`;

/** A database with so much in it, and a lane's process of its own on it. */
export interface GrowthStore {
  readonly sql: pg.Client;
  readonly lane: Child<LaneOrder>;
  readonly times: LoadTimes;
  /** What the clients reserved, besides what was loaded. */
  reserved: number;
}

/** Databases of the same content in different amounts, on one server of their own. */
export interface GrowthStores<Name extends string> {
  readonly postgres: EmbeddedPostgres;
  readonly events: readonly (readonly string[])[];
  readonly stores: Readonly<Record<Name, GrowthStore>>;
}

/** Makes them: a domain set up by commands, lives through a service, and a copy of both for each plan, filled. */
export async function openGrowthStores<Name extends string>(
  undoing: Undoing,
  plans: Readonly<Record<Name, LoadPlan>>,
  onProgress: (what: string) => void,
): Promise<GrowthStores<Name>> {
  const folder = await mkdtemp(path.join(tmpdir(), 'surety-growth-'));
  undoing.add(() => rm(folder, { recursive: true, force: true }));
  const place = { dataDir: path.join(folder, 'postgres'), removeWhenDone: true };
  const loading = await startEmbeddedPostgres({ ...place, settings: LOAD_SETTINGS });
  undoing.add(() => loading.stop());
  onProgress('a domain and its first lives');
  const { lives, events } = await firstLives(undoing, loading);
  const names = Object.keys(plans) as Name[];
  const times = new Map<Name, LoadTimes>();
  for (const name of names) {
    await copyDatabase(loading.url, name);
    const url = databaseUrl(loading.url, name);
    const say = (what: string): void => onProgress(`${name}: ${what}`);
    times.set(name, await loadEffects(url, lives, plans[name], say));
    say(`loaded in ${times.get(name)?.all} s`);
    await verifyLoad(url, plans[name], say);
  }
  await loading.stop({ keepData: true });
  const postgres = await startEmbeddedPostgres(place);
  undoing.add(() => postgres.stop());
  const stores = {} as Record<Name, GrowthStore>;
  for (const name of names) {
    const url = databaseUrl(postgres.url, name);
    stores[name] = await openStore(undoing, url, times.get(name) as LoadTimes);
  }
  return { postgres, events, stores };
}

async function firstLives(
  undoing: Undoing,
  postgres: EmbeddedPostgres,
): Promise<{ lives: RealLife[]; events: readonly (readonly string[])[] }> {
  const own = new Undoing();
  undoing.add(() => own.run());
  try {
    const world = await BenchWorld.open(own, undefined, postgres);
    await insertGrants(world.sql, 0, HARNESSES.length);
    await publishLoadedEvents(postgres.url, 0, HARNESSES.length);
    return { lives: await liveRealLives(world), events: world.events[DOMAIN] ?? [] };
  } finally {
    await own.run();
  }
}

/** A database is copied from the one that the server begins with, which nobody may be connected to. */
async function copyDatabase(url: string, name: string): Promise<void> {
  const sql = new pg.Client({ connectionString: databaseUrl(url, 'template1') });
  await sql.connect();
  try {
    await sql.query(`CREATE DATABASE ${name} TEMPLATE postgres`);
  } finally {
    await sql.end();
  }
}

async function openStore(undoing: Undoing, url: string, times: LoadTimes): Promise<GrowthStore> {
  const sql = new pg.Client({ connectionString: url });
  await sql.connect();
  undoing.add(() => sql.end());
  await sql.query(WARM);
  const lane = Child.start<LaneOrder>('lane/lane-main.js');
  undoing.add(() => lane.stop());
  await lane.send({ kind: 'open', url, role: serviceRole, batchLimit: BATCH_LIMIT });
  return { sql, lane, times, reserved: 0 };
}

function databaseUrl(url: string, name: string): string {
  const changed = new URL(url);
  changed.pathname = `/${name}`;
  return changed.href;
}
