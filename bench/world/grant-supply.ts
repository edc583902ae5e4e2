import type { GrantSupply } from '../load/messages.js';
import { type Measured, perSecond } from '../measure/measured.js';
import type { BenchWorld } from './bench-world.js';
import { ACTION, DATA_CLASS, HARNESSES, INPUT_SOURCE, PRINCIPAL, RESOURCE, SINK } from './names.js';
import { readSql } from './sql.js';

/** Grants of a single call each for the first round, before any rate is known, per second. */
const FIRST_RATE = 6_000;
/** A round may be so much faster than the one before it. */
const HEADROOM = 1.5;
/** However slow it was. */
const LEAST = 500;

let made = 0;

/**
 * One-use grants, loaded anew before each round: a re-run with used ones would measure refusals. They are inserted by SQL,
 * since a signed command each would take longer than the round; all that a reservation looks at is in the row.
 */
export class GrantLoader {
  /** @param rate of the first round, per second */
  constructor(
    private readonly world: Pick<BenchWorld, 'sql' | 'reserved'>,
    private readonly domainId: string,
    private rate = FIRST_RATE,
  ) {}

  /** So many that a round of these seconds does not run out; a round that does ends early and is as true. */
  forSeconds(seconds: number): Promise<GrantSupply> {
    return this.load(Math.ceil(Math.max(LEAST, this.rate * seconds * HEADROOM)));
  }

  async load(count: number): Promise<GrantSupply> {
    made += 1;
    const name = `g${made}`;
    await this.world.sql.query(await readSql('load-grants.sql'), [
      this.domainId,
      name,
      count,
      HARNESSES,
      PRINCIPAL,
      ACTION,
      RESOURCE,
      INPUT_SOURCE,
      SINK,
      DATA_CLASS,
    ]);
    return { name, count };
  }

  /** What a round came to, for the size of the next one. */
  note(measured: Measured): void {
    this.rate = perSecond(measured);
    this.world.reserved += measured.calls;
  }
}
