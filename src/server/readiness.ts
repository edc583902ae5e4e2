import type { Micros } from '../ledger/types.js';
import type { HealthState } from '../rpc/health-state.js';
import type { Reader } from '../store/reader.js';
import type { Readiness } from './admin-port.js';

/** How often the store is asked; a change is known within two of them. */
const PROBE_INTERVAL_MS = 1_000;

export interface ReadinessOptions {
  readonly reader: Pick<Reader, 'query'>;
  readonly health: HealthState;
  /** The version of the schema that this program was built for. */
  readonly schemaVersion: number;
  readonly onStoreTime: (now: Micros) => void;
  /** Told when it changes. */
  readonly onChange: (readiness: Readiness) => void;
  readonly intervalMs?: number;
}

interface ProbeRow {
  readonly now: bigint;
  readonly version: bigint;
}

/**
 * Whether the service can work: the store answers, with the schema that we know. Asked all the time, so that health and
 * `/readyz` answer at once; each answer also tells the store's clock.
 */
export class ReadinessProbe {
  readonly #options: ReadinessOptions;
  #state: Readiness = { ready: false, why: 'the store was not asked yet' };
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;
  #stopped = false;

  constructor(options: ReadinessOptions) {
    this.#options = options;
  }

  get state(): Readiness {
    return this.#options.health.isDraining ? { ready: false, why: 'draining' } : this.#state;
  }

  /** Asks once and then again and again. Resolves after the first answer. */
  async start(): Promise<void> {
    await this.#round();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    await this.#running;
  }

  async #round(): Promise<void> {
    this.#running = this.#ask().then((state) => this.#note(state));
    await this.#running;
    if (this.#stopped) return;
    this.#timer = setTimeout(() => void this.#round(), this.#options.intervalMs ?? PROBE_INTERVAL_MS);
    this.#timer.unref();
  }

  async #ask(): Promise<Readiness> {
    const { reader, schemaVersion, onStoreTime } = this.#options;
    try {
      const [row] = await reader.query<ProbeRow>('store_probe', []);
      if (row === undefined) return { ready: false, why: 'the store says nothing of itself' };
      onStoreTime(row.now);
      if (row.version === BigInt(schemaVersion)) return { ready: true };
      return {
        ready: false,
        why: `the schema has version ${row.version}, and this program knows ${schemaVersion}`,
      };
    } catch {
      return { ready: false, why: 'the store does not answer' };
    }
  }

  #note(state: Readiness): void {
    const { health, onChange } = this.#options;
    const why = (one: Readiness): string => (one.ready ? '' : one.why);
    const changed = state.ready !== this.#state.ready || why(state) !== why(this.#state);
    this.#state = state;
    health.setReady(state.ready);
    if (changed) onChange(state);
  }
}
