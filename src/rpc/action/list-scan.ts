import type { Violations } from '../validate.js';
import { MAX_POSITION } from './read-fields.js';

/** So many rows does one statement of a list look at: some 10 ms, far below what may hold up the domain's row. */
export const MAX_SCANNED = 2_000;
/** And for so long does one call look on; a page that is not full by then says where to go on. */
export const MAX_LOOK_MS = 1_000;

/** A position or a number of an event: the key of a page token; 0 for the first page. */
export function readPosition(violations: Violations, text: string | undefined): bigint {
  if (text === undefined) return 0n;
  if (/^\d{1,19}$/.test(text) && BigInt(text) <= MAX_POSITION) return BigInt(text);
  violations.refuse('page_token', 'must be the token of a page of this very list');
  return 0n;
}
