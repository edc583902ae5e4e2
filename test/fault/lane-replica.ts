import { auditCodec } from '../../src/lane/audit-codec.js';
import { Faults } from '../../src/lane/faults.js';
import { type LaneObserver, SILENT_OBSERVER } from '../../src/lane/lane-observer.js';
import { Lanes } from '../../src/lane/lanes.js';
import type { Seam } from '../../src/store/batch-transaction.js';
import { ConnectionPool } from '../../src/store/connection-pool.js';
import { freshId } from '../support/effect-world.js';
import type { TcpProxy } from '../support/tcp-proxy.js';

/** What happened in the lanes of a replica. */
export interface Tally extends LaneObserver {
  /** How many commands each batch held, in order. */
  readonly batches: number[];
  /** How long each batch waited for its domain, in milliseconds. */
  readonly lockWaits: number[];
  retries: number;
  unknownCommits: number;
  regressions: number;
}

/** An observer that counts. */
export function tally(): Tally {
  const counts: Tally = {
    ...SILENT_OBSERVER,
    batches: [],
    lockWaits: [],
    retries: 0,
    unknownCommits: 0,
    regressions: 0,
    batchDone: (size) => counts.batches.push(size),
    headLocked: (ms) => counts.lockWaits.push(ms),
    retried: () => (counts.retries += 1),
    commitUnknown: () => (counts.unknownCommits += 1),
    regressed: () => (counts.regressions += 1),
  };
  return counts;
}

/** Lanes of one replica without a reader, with what a fault test wants to choose. */
export interface LaneReplica {
  readonly lanes: Lanes;
  readonly pool: ConnectionPool;
  readonly tally: Tally;
  /** Waits for what is under way, then closes. */
  close(): Promise<void>;
}

/** Opens lanes on a database. */
export function laneReplica(
  url: string,
  options: {
    faults?: Faults;
    poolSize?: number;
    queueLimit?: number;
    batchLimit?: number;
    monotonicMs?: () => number;
  } = {},
): LaneReplica {
  const pool = new ConnectionPool({ url, applicationName: 'surety-fault' }, options.poolSize ?? 4);
  const observer = tally();
  const lanes = new Lanes({
    pool,
    codec: auditCodec,
    faults: options.faults ?? new Faults(undefined),
    observer,
    laneId: freshId('lane'),
    queueLimit: options.queueLimit ?? 10_000,
    batchLimit: options.batchLimit ?? 64,
    ...(options.monotonicMs === undefined ? {} : { monotonicMs: options.monotonicMs }),
  });
  return {
    lanes,
    pool,
    tally: observer,
    close: async () => {
      await lanes.drain();
      await pool.close();
    },
  };
}

/** Holds the first batch that comes to a seam until it is let go. For lanes on a `patientUrl`. */
export class Hold extends Faults {
  /** Resolves when a batch is held. */
  readonly held: Promise<void>;
  readonly letGo: () => void;
  private readonly released: Promise<void>;
  private readonly hold: () => void;
  private met = false;

  constructor(private readonly seam: Seam) {
    super(undefined);
    const held = withResolvers();
    const released = withResolvers();
    this.held = held.promise;
    this.hold = held.resolve;
    this.released = released.promise;
    this.letGo = released.resolve;
  }

  override hit(seam: Seam): Promise<void> | undefined {
    if (this.met || seam !== this.seam) return undefined;
    this.met = true;
    this.hold();
    return this.released;
  }
}

/** How long what was sent may take to the server before the process dies, in milliseconds. */
const LAST_WORDS_MS = 30;

/**
 * The death of a process at a seam, as others see it: its connections are cut, nothing is sent any more and nobody is
 * answered. A lane that dies so is not to be drained.
 */
export class Death extends Faults {
  readonly died: Promise<void>;
  private readonly die: () => void;
  private dead = false;

  constructor(
    private readonly seam: Seam,
    private readonly kind: string,
    private readonly proxy: TcpProxy,
  ) {
    super(undefined);
    const { promise, resolve } = withResolvers();
    this.died = promise;
    this.die = resolve;
  }

  override hit(seam: Seam, kinds: readonly string[]): Promise<void> | undefined {
    if (this.dead || seam !== this.seam || !kinds.includes(this.kind)) return undefined;
    this.dead = true;
    return this.strike();
  }

  private async strike(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, LAST_WORDS_MS));
    this.proxy.dropAll();
    this.die();
    await new Promise(() => undefined);
  }
}

function withResolvers(): { promise: Promise<void>; resolve: () => void } {
  let resolve: () => void = () => undefined;
  const promise = new Promise<void>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}
