/** What is said of a service: `grpc.health.v1.HealthCheckResponse.ServingStatus`, as far as we say it. */
export type Serving = 'SERVING' | 'NOT_SERVING';

/**
 * What health answers for the whole and for each service, and who waits for it to change. Once it is draining, nothing
 * brings it back.
 */
export class HealthState {
  readonly #services: ReadonlySet<string>;
  readonly #watchers = new Set<() => void>();
  #ready = false;
  #draining = false;

  /** @param services full names of the services that are served; the empty name stands for all of them */
  constructor(services: Iterable<string>) {
    this.#services = new Set(['', ...services]);
  }

  /** Names that have a status, the empty one first. */
  get names(): readonly string[] {
    return [...this.#services];
  }

  get isDraining(): boolean {
    return this.#draining;
  }

  /** The status of a service; undefined where there is no such service. All stand and fall with the store. */
  statusOf(service: string): Serving | undefined {
    if (!this.#services.has(service)) return undefined;
    return this.#ready && !this.#draining ? 'SERVING' : 'NOT_SERVING';
  }

  /** Whether the store can be worked with. */
  setReady(ready: boolean): void {
    if (this.#ready === ready) return;
    this.#ready = ready;
    this.#tell();
  }

  /** The service is going: the first thing that a drain does. */
  drain(): void {
    this.#draining = true;
    this.#tell();
  }

  /** Resolves at the next change, or when the signal aborts. */
  nextChange(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        this.#watchers.delete(done);
        signal.removeEventListener('abort', done);
        resolve();
      };
      this.#watchers.add(done);
      signal.addEventListener('abort', done);
      if (signal.aborted) done();
    });
  }

  #tell(): void {
    for (const watcher of [...this.#watchers]) watcher();
  }
}
