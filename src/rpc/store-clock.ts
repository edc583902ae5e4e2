import type { Micros } from '../ledger/types.js';

/**
 * The store's clock between two readings of it: the last reading, carried on by this process's monotonic clock. The
 * process's own wall clock, which may be an hour off, has no part in it.
 *
 * It is good enough to end a connection whose certificate has expired; every decision reads the clock itself.
 */
export class StoreClock {
  #reading: Micros;
  #readAtMs: number;

  /**
   * @param reading the store's clock, in microseconds since the epoch
   * @param monotonicMs milliseconds that only go forward
   */
  constructor(
    reading: Micros,
    private readonly monotonicMs: () => number = () => performance.now(),
  ) {
    this.#reading = reading;
    this.#readAtMs = monotonicMs();
  }

  /** Microseconds since the epoch. Never goes back. */
  now(): Micros {
    return this.#reading + BigInt(Math.floor((this.monotonicMs() - this.#readAtMs) * 1000));
  }

  /** Takes over a later reading. An earlier one is of a transaction that began before, or of a clock that was set back. */
  observe(reading: Micros): void {
    if (reading <= this.now()) return;
    this.#reading = reading;
    this.#readAtMs = this.monotonicMs();
  }
}
