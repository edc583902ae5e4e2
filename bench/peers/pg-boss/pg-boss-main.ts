import { countRows } from '../count-rows.js';
import type { OpenPeerOrder } from '../messages.js';
import { loadPackage } from '../packages.js';
import type { Peer } from '../peer.js';
import { servePeer } from '../serve-peer.js';

/** What is used of the package. */
interface PgBossModule {
  readonly PgBoss: new (options: { connectionString: string }) => PgBoss;
}

interface PgBoss {
  on(event: 'error', listener: (error: Error) => void): void;
  start(): Promise<unknown>;
  createQueue(name: string): Promise<void>;
  send(name: string, data: object): Promise<string | null>;
  fetch(name: string): Promise<readonly { readonly id: string }[]>;
  complete(name: string, id: string): Promise<unknown>;
}

const QUEUE = 'life';
const DONE = `SELECT count(*) FROM pgboss.job WHERE name = '${QUEUE}' AND state = 'completed'`;

/** Sends a job, fetches one (perhaps another caller's, as workers do) and completes it; all else is as the package has it. */
async function openPgBoss({ packages, databaseUrl }: OpenPeerOrder): Promise<Peer> {
  const { PgBoss } = await loadPackage<PgBossModule>(packages, 'pg-boss');
  const boss = new PgBoss({ connectionString: databaseUrl });
  // Without a listener the first one would end the process; calls that fail reject by themselves.
  boss.on('error', ({ message }) => process.stderr.write(`pg-boss: ${message}\n`));
  await boss.start();
  await boss.createQueue(QUEUE);
  return {
    async runOnce(key) {
      if ((await boss.send(QUEUE, { key })) === null) throw new Error('pg-boss did not take a job');
      const [job] = await boss.fetch(QUEUE);
      if (!job) throw new Error('pg-boss had no job, though one was sent');
      await boss.complete(QUEUE, job.id);
    },
    countDone: () => countRows(databaseUrl, DONE),
  };
}

servePeer(openPgBoss);
