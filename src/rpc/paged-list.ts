import type { DescMessage, MessageShape } from '@bufbuild/protobuf';
import type { QueryParameter, Reader } from '../store/reader.js';
import { fillPage, type PageSource } from './fill-page.js';
import { encodePageToken, type PageFilter, readPageToken } from './page-token.js';
import { Violations } from './validate.js';

/** A page of records in order of a key that is one text. */
export interface Page<Desc extends DescMessage> {
  readonly records: MessageShape<Desc>[];
  /** Empty on the last page. */
  readonly nextPageToken: string;
}

/** A list of records, as a named statement reads it. */
export interface RecordList<Row, Desc extends DescMessage>
  extends Pick<PageSource<Row, Desc>, 'schema' | 'wire' | 'chunk'> {
  /** The statement. Its parameters: domain, key behind which the page begins, limit, and then `more`. */
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
export async function readPage<Row extends object, Desc extends DescMessage>(
  reader: Pick<Reader, 'query'>,
  list: RecordList<Row, Desc>,
  domainId: string,
  request: { readonly pageSize: number; readonly pageToken: string },
  filter: PageFilter = [],
  more: readonly QueryParameter[] = [],
  violations = new Violations(),
): Promise<Page<Desc>> {
  const wholeFilter = [list.name, domainId, ...filter];
  const size = violations.pageSize('page_size', request.pageSize);
  const begin = readPageToken(violations, request.pageToken, wholeFilter, 1)?.[0] ?? '';
  violations.throwIfAny();
  const { messages, next } = await fillPage(size, {
    ...list,
    read: (after: Row | undefined, limit) =>
      reader.query<Row>(list.name, [domainId, after === undefined ? begin : list.key(after), limit, ...more]),
  });
  const nextPageToken = next === undefined ? '' : encodePageToken(wholeFilter, [list.key(next)]);
  return { records: messages, nextPageToken };
}
