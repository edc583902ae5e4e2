import type { Reads } from '../ledger/reads.js';
import type { WorkingSet } from '../ledger/working-set.js';

/** Reads that decide nothing: short read-only transactions on a pool of their own (architecture.md, "Reads take no lane"). */
export interface Reader {
  /** The rows of `reads`, of one snapshot with the store's clock. Undefined: there is no such domain. */
  gather(domainId: string, reads: Reads): Promise<WorkingSet | undefined>;
  /**
   * One named statement of `src/store/sql/queries.sql`, its rows as objects with camel-case names (int8 as bigint, bytea as
   * Buffer). Parameters are strings, bigints, Buffers, booleans, null, or arrays of strings.
   */
  query<Row extends object>(name: string, parameters: readonly QueryParameter[]): Promise<Row[]>;
}

export type QueryParameter = string | bigint | number | boolean | Buffer | null | readonly string[];
