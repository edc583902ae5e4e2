import type { BreakerState } from '../ledger/admission/records.js';
import type { Micros } from '../ledger/types.js';
import type { Reader } from '../store/reader.js';
import type { ServerLog } from './refusal-log.js';

/**
 * So many sinks, and so many domains, have series of their own in `/metrics`; beyond it, that some are left out is one too.
 * A person who looks after more troubled sinks than this does not do so by their names.
 */
export const MAX_WATCHED = 500;

/** A sink about which something is to be told: its breaker is not closed, or an effect is UNKNOWN. */
export interface WatchedSink {
  readonly domainId: string;
  readonly sink: string;
  readonly breaker: BreakerState;
  readonly unknown: number;
  readonly unknownCeiling: number;
  readonly unknownAge: Micros;
  readonly oldestUnknownAt: Micros | null;
  /** The store's clock when it was read. */
  readonly readAt: Micros;
}

/** A domain with pending work. */
export interface WatchedDomain {
  readonly domainId: string;
  readonly pending: number;
  readonly pendingCeiling: number;
}

/** What a look found. */
export interface AdmissionReading {
  readonly sinks: readonly WatchedSink[];
  readonly domains: readonly WatchedDomain[];
  /** Whether there are more sinks, or domains, than are watched. */
  readonly leftOut: { readonly sinks: boolean; readonly domains: boolean };
  /** This machine's clock, in milliseconds since the epoch: for whoever asks how old this is. */
  readonly atMs: number;
}

const NOTHING: AdmissionReading = {
  sinks: [],
  domains: [],
  leftOut: { sinks: false, domains: false },
  atMs: 0,
};

/** What is too much at a sink: then Reserve refuses with UNKNOWN_CEILING. */
type Excess = 'unknown_ceiling' | 'unknown_age';

/** For how long the oldest effect of a sink is UNKNOWN, in microseconds; 0 without one. */
export function oldestAge({ oldestUnknownAt, readAt }: WatchedSink): Micros {
  return oldestUnknownAt === null || oldestUnknownAt > readAt ? 0n : readAt - oldestUnknownAt;
}

/**
 * Looks at what is not known (effects.md, Cost of not knowing), in a round of the sweeps: two bounded reads beside the lanes,
 * so that nothing waits for them, and a scrape reads nothing. Logs when a sink passes a ceiling and when it is back: once
 * per change.
 */
export class AdmissionWatch {
  #reading = NOTHING;
  #excesses = new Map<string, { readonly sink: WatchedSink; readonly excess: Excess }>();

  constructor(
    private readonly reader: Pick<Reader, 'query'>,
    private readonly log: Pick<ServerLog, 'warn'>,
  ) {}

  /** What the last look found; where the store is away that grows old. */
  get reading(): AdmissionReading {
    return this.#reading;
  }

  /** @throws what a read throws; the last reading stays */
  async look(): Promise<void> {
    // One more than is watched says whether there are more.
    const sinks = await this.reader.query<WatchedSink>('watched_sinks', [MAX_WATCHED + 1]);
    const domains = await this.reader.query<WatchedDomain>('pending_of_domains', [MAX_WATCHED + 1]);
    this.#reading = {
      sinks: sinks.slice(0, MAX_WATCHED),
      domains: domains.slice(0, MAX_WATCHED),
      leftOut: { sinks: sinks.length > MAX_WATCHED, domains: domains.length > MAX_WATCHED },
      atMs: Date.now(),
    };
    this.#compare();
  }

  #compare(): void {
    const now = new Map(
      this.#reading.sinks.flatMap((sink) =>
        excessesOf(sink).map((excess) => [keyOf(sink, excess), { sink, excess }] as const),
      ),
    );
    for (const [key, found] of now) {
      if (this.#excesses.has(key)) continue;
      this.log.warn(facts(found), 'too much is not known of a sink: nothing new is reserved there');
    }
    for (const [key, found] of this.#excesses) {
      if (now.has(key)) continue;
      // Whether one that is left out is back nobody knows.
      if (this.#reading.leftOut.sinks) now.set(key, found);
      else this.log.warn(facts(found), 'what is not known of a sink is within its limits again');
    }
    this.#excesses = now;
  }
}

function excessesOf(sink: WatchedSink): Excess[] {
  return [
    ...(sink.unknown >= sink.unknownCeiling ? (['unknown_ceiling'] as const) : []),
    ...(oldestAge(sink) > sink.unknownAge ? (['unknown_age'] as const) : []),
  ];
}

function keyOf({ domainId, sink }: WatchedSink, excess: Excess): string {
  return `${excess} ${domainId} ${sink}`;
}

function facts({ sink, excess }: { readonly sink: WatchedSink; readonly excess: Excess }): object {
  const { domainId, unknown, unknownCeiling, unknownAge } = sink;
  return {
    ...{ domainId, sink: sink.sink, excess, unknown, unknownCeiling },
    oldestUnknownSeconds: seconds(oldestAge(sink)),
    unknownAgeSeconds: seconds(unknownAge),
  };
}

/** Whole microseconds as seconds. */
export function seconds(micros: Micros): number {
  return Number(micros) / 1e6;
}
