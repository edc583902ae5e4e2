import type { QueryParameter, Reader } from '../store/reader.js';
import { encodePageToken, type PageFilter, readPageToken } from './page-token.js';
import { Violations } from './validate.js';

/** A page of records in order of a key that is one text. */
export interface Page<Row> {
  readonly rows: readonly Row[];
  /** Empty on the last page. */
  readonly nextPageToken: string;
}

/** A list of records, as a named statement reads it. */
export interface ListStatement<Row> {
  /** Its parameters: domain, key behind which the page begins, limit, and then `more`. */
  readonly name: string;
  readonly key: (row: Row) => string;
}

/**
 * Reads one page (AIP-158).
 *
 * @param request as it came; every violation is noted in `violations` before anything is read
 * @param filter what the list is of besides its page: a token is good only for the same
 * @param more further parameters of the statement
 * @throws {Refused} FIELD_INVALID
 */
export async function readPage<Row extends object>(
  reader: Pick<Reader, 'query'>,
  list: ListStatement<Row>,
  domainId: string,
  request: { readonly pageSize: number; readonly pageToken: string },
  filter: PageFilter = [],
  more: readonly QueryParameter[] = [],
  violations = new Violations(),
): Promise<Page<Row>> {
  const wholeFilter = [list.name, domainId, ...filter];
  const size = violations.pageSize('page_size', request.pageSize);
  const after = readPageToken(violations, request.pageToken, wholeFilter, 1);
  violations.throwIfAny();
  // One row more than asked for says whether there is another page.
  const rows = await reader.query<Row>(list.name, [domainId, after?.[0] ?? '', size + 1, ...more]);
  const page = rows.slice(0, size);
  const last = page.at(-1);
  const nextPageToken =
    rows.length > size && last !== undefined ? encodePageToken(wholeFilter, [list.key(last)]) : '';
  return { rows: page, nextPageToken };
}
