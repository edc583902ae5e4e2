import { randomFillSync } from 'node:crypto';

const MICROS_PER_SECOND = 1_000_000;
/** Below it nanoseconds would take fewer bytes. */
const FIRST_MICROS = 300_000;
/** Room within the second for the further steps of a life. */
const LAST_MICROS = 900_000;

/** What is told of one life; all else follows from it. */
export interface LifeValues {
  /** From 0. */
  readonly number: number;
  readonly eventId: string;
  readonly grantId: string;
  readonly event: { readonly contentDigest: Buffer; readonly recordDigest: Buffer };
  /** The position of its first entry, and its fence. */
  readonly firstSeq: number;
  readonly fence: number;
  /** Seconds since the epoch, and microseconds within the second when it was reserved. */
  readonly second: number;
  readonly micros: number;
  /** Whether its nonces are still kept. */
  readonly keepsNonces: boolean;
}

/** The lives' times: in their order, spread over some seconds, all of the same width when encoded. */
export class LifeClock {
  private readonly perSecond: number;

  /** @param first the second after whatever is stored already; @param seconds how many may be used, at least 1 */
  constructor(
    private readonly first: number,
    seconds: number,
    count: number,
  ) {
    this.perSecond = Math.ceil(count / Math.max(1, seconds));
  }

  at(number: number): Pick<LifeValues, 'second' | 'micros'> {
    const within = number % this.perSecond;
    return {
      second: this.first + Math.floor(number / this.perSecond),
      micros: FIRST_MICROS + Math.floor((within * (LAST_MICROS - FIRST_MICROS)) / this.perSecond),
    };
  }
}

/** Microseconds since the epoch. */
export function microsOf(second: number, micros: number): number {
  return second * MICROS_PER_SECOND + micros;
}

/** Random bytes, drawn for many at a time. */
export class RandomBytes {
  private readonly pool = Buffer.alloc(65_536);
  private used = this.pool.length;

  put(target: Buffer): void {
    if (this.used + target.length > this.pool.length) {
      randomFillSync(this.pool);
      this.used = 0;
    }
    this.pool.copy(target, 0, this.used, this.used + target.length);
    this.used += target.length;
  }
}
