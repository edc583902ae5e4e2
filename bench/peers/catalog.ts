/** What the service is compared with, and how it is run. */
export interface PeerKind {
  readonly name: string;
  /** Below `bench/peers`: its package.json and lockfile, and its `<folder>-main`. */
  readonly folder: string;
  /** One piece of work. */
  readonly what: string;
  /** It wants a later Node than we do. */
  readonly needsNode22: boolean;
  /** Tiers of the run that it uses. */
  readonly tiers: readonly string[];
  readonly durability: string;
  readonly processes: string;
  /** bench.md, B6. */
  readonly goal: number;
}

const SAME_POSTGRES =
  'that of the run’s Postgres: a database of its own on the same server, fsync, synchronous_commit and full_page_writes on';

export const PEERS: readonly PeerKind[] = [
  {
    name: 'DBOS',
    folder: 'dbos',
    what: 'a workflow with one step, called with an id of its own',
    needsNode22: false,
    tiers: ['postgres'],
    durability: SAME_POSTGRES,
    processes: 'callers and library in one process',
    goal: 3,
  },
  {
    name: 'Restate',
    folder: 'restate',
    what: 'a call over HTTP with an idempotency key, of a handler with one ctx.run',
    needsNode22: true,
    tiers: [],
    durability:
      'its own default: no Postgres; one node, log and state in RocksDB, the log’s WAL with fsync (rocksdb-disable-wal-fsync false), ' +
      'appends that wait at the same time as one',
    processes: 'server, service and callers each a process',
    goal: 1.5,
  },
  {
    name: 'pg-boss',
    folder: 'pg-boss',
    what: 'send, fetch and complete of one job',
    needsNode22: true,
    tiers: ['postgres'],
    durability: SAME_POSTGRES,
    processes: 'callers and library in one process',
    goal: 1.5,
  },
];
