import type { MessageShape } from '@bufbuild/protobuf';
import type { ListVersionsRequest } from '../../gen/surety/provenance/v1/provenance_service_pb.js';
import { ProvenanceRecordSchema } from '../../gen/surety/provenance/v1/record_pb.js';
import { fillPage } from '../fill-page.js';
import type { CallContext, HandlerTools } from '../handler.js';
import { encodePageToken, readPageToken } from '../page-token.js';
import { wireStored } from '../provenance-codec.js';
import { Violations } from '../validate.js';
import { MAX_VERSION, readObject } from './read-object.js';
import { readRecords, readVersions } from './read-records.js';

/**
 * A page of the versions of one object, oldest first, each record hashed again.
 *
 * @throws {Refused} FIELD_INVALID; the reasons of `readRecords`
 */
export async function listVersions(
  tools: Pick<HandlerTools, 'reader'>,
  context: CallContext,
  request: ListVersionsRequest,
): Promise<{ records: MessageShape<typeof ProvenanceRecordSchema>[]; nextPageToken: string }> {
  const violations = new Violations();
  const object = readObject(violations, request);
  const size = violations.pageSize('page_size', request.pageSize);
  const filter = ['provenance_versions', context.domainId, object.objectType, object.objectId];
  const begin = readVersion(violations, readPageToken(violations, request.pageToken, filter, 1)?.[0]);
  violations.throwIfAny();
  const { messages, next } = await fillPage(size, {
    schema: ProvenanceRecordSchema,
    read: (after: bigint | undefined, limit) => readVersions(tools, context, object, after ?? begin, limit),
    wire: async (versions) => {
      const keys = versions.map((version) => ({ ...object, version }));
      const records = await readRecords(tools, context, keys);
      return records.map((record) => wireStored(context.domainId, record));
    },
  });
  return {
    records: messages,
    nextPageToken: next === undefined ? '' : encodePageToken(filter, [next.toString()]),
  };
}

/** The key of a page token: the last version of the page before. */
function readVersion(violations: Violations, text: string | undefined): bigint {
  if (text === undefined) return 0n;
  if (/^[1-9]\d{0,18}$/.test(text) && BigInt(text) <= MAX_VERSION) return BigInt(text);
  violations.refuse('page_token', 'must be the token of a page of this very list');
  return 0n;
}
