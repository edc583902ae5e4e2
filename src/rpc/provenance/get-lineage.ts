import type { MessageInitShape } from '@bufbuild/protobuf';
import {
  type GetLineageRequest,
  type GetLineageResponseSchema,
  LineageDirection,
  LineageNodeSchema,
} from '../../gen/surety/provenance/v1/provenance_service_pb.js';
import { corruptStored } from '../../ledger/provenance/provenance-digest.js';
import type { StoredRecord } from '../../ledger/provenance/stored-record.js';
import { Refused } from '../../ledger/run-decision.js';
import { fillPage } from '../fill-page.js';
import type { CallContext, HandlerTools } from '../handler.js';
import { encodePageToken, readPageToken } from '../page-token.js';
import { wireStored } from '../provenance-codec.js';
import { Violations } from '../validate.js';
import { MAX_VERSION, type ObjectName, readObject } from './read-object.js';
import { readRecord, readRecords } from './read-records.js';

/** Farther than any chain of derivations that a person follows; it bounds the walk of one statement. */
export const MAX_LINEAGE_DEPTH = 64;
/** Pairs of record and depth that one walk meets at most: a statement may last two seconds (architecture.md, reads). */
export const MAX_WALK_ROWS = 20_000;

const DIRECTIONS: Readonly<Record<number, 'ancestors' | 'descendants'>> = {
  [LineageDirection.ANCESTORS]: 'ancestors',
  [LineageDirection.DESCENDANTS]: 'descendants',
};

/** A record that the walk met; its name is null where an edge leads to a record that is gone. */
interface WalkedRow {
  readonly digest: Buffer;
  readonly depth: number;
  readonly objectType: string | null;
  readonly objectId: string | null;
  readonly version: bigint | null;
  readonly truncated: boolean;
}

interface LineageQuestion {
  readonly object: ObjectName;
  readonly version: bigint;
  readonly statement: 'provenance_ancestors' | 'provenance_descendants';
  readonly maxDepth: number;
  readonly pageSize: number;
  readonly filter: readonly (string | bigint | number)[];
  readonly after: PlaceInWalk;
}

/** Where a page begins: behind this record of the walk that began at this version. */
interface PlaceInWalk {
  readonly version?: bigint;
  readonly depth: number;
  readonly digest: Buffer;
}

const BEGINNING: PlaceInWalk = { depth: -1, digest: Buffer.alloc(0) };

/**
 * Walks the lineage of a record, breadth first (provenance-audit-replay.md: "walks ancestors or descendants to a depth, as
 * a graph, in pages"). Ancestors never change; descendants that come while a caller pages are shown or not, and nothing is
 * shown twice.
 *
 * @throws {Refused} NOT_VISIBLE where there is no such record, DATA_CORRUPT naming the first that is not what its digest says
 */
export async function getLineage(
  tools: Pick<HandlerTools, 'reader'>,
  context: CallContext,
  request: GetLineageRequest,
): Promise<MessageInitShape<typeof GetLineageResponseSchema>> {
  const question = readQuestion(request, context);
  const { after, filter, maxDepth, pageSize } = question;
  const start = await readRecord(tools, context, question.object, after.version ?? question.version);
  const { version, provenanceDigest } = start.record;
  const rows = await tools.reader.query<WalkedRow>(question.statement, [
    context.domainId,
    provenanceDigest,
    maxDepth,
    MAX_WALK_ROWS,
    after.depth,
    after.digest,
    pageSize + 1,
  ]);
  // One statement walks; what it met is read piece by piece, so that what does not fit is not read for nothing.
  const { messages, next } = await fillPage(pageSize, {
    schema: LineageNodeSchema,
    read: async (after: WalkedRow | undefined, limit) => {
      const begin = after === undefined ? 0 : rows.indexOf(after) + 1;
      return rows.slice(begin, begin + limit);
    },
    wire: async (walked) => {
      const records = await readRecords(tools, context, walked.map(keyOfRow));
      return walked.map((row, index) => nodeOf(context.domainId, row, records[index]));
    },
  });
  return {
    nodes: messages,
    nextPageToken: next === undefined ? '' : tokenBehind(filter, version, next),
    truncated: rows[0]?.truncated ?? false,
  };
}

function tokenBehind(
  filter: LineageQuestion['filter'],
  version: bigint,
  { depth, digest }: WalkedRow,
): string {
  return encodePageToken(filter, [version.toString(), depth.toString(), digest.toString('hex')]);
}

function readQuestion(request: GetLineageRequest, { domainId }: CallContext): LineageQuestion {
  const violations = new Violations();
  const object = readObject(violations, request);
  const version = violations.integer('version', request.version, 0n, MAX_VERSION);
  const statement = `provenance_${violations.choice('direction', request.direction, DIRECTIONS)}` as const;
  const depth = BigInt(request.maxDepth);
  const maxDepth = Number(violations.integer('max_depth', depth, 0n, BigInt(MAX_LINEAGE_DEPTH)));
  const pageSize = violations.pageSize('page_size', request.pageSize);
  const filter = [statement, domainId, object.objectType, object.objectId, version, maxDepth];
  const after = readPlace(violations, readPageToken(violations, request.pageToken, filter, 3));
  violations.throwIfAny();
  return { object, version, statement, maxDepth: maxDepth || MAX_LINEAGE_DEPTH, pageSize, filter, after };
}

function readPlace(violations: Violations, key: readonly string[] | undefined): PlaceInWalk {
  if (key === undefined) return BEGINNING;
  const [version = '', depth = '', digest = ''] = key;
  const wellFormed =
    /^[1-9]\d{0,18}$/.test(version) &&
    BigInt(version) <= MAX_VERSION &&
    /^\d{1,2}$/.test(depth) &&
    /^[0-9a-f]{64}$/.test(digest);
  if (wellFormed)
    return { version: BigInt(version), depth: Number(depth), digest: Buffer.from(digest, 'hex') };
  violations.refuse('page_token', 'must be the token of a page of this very list');
  return BEGINNING;
}

function keyOfRow({ digest, objectType, objectId, version }: WalkedRow) {
  if (objectType !== null && objectId !== null && version !== null) return { objectType, objectId, version };
  throw new Refused(corruptStored(digest.toString('hex')));
}

function nodeOf(domainId: string, { depth, digest }: WalkedRow, record: StoredRecord | undefined) {
  if (!record) throw new Refused(corruptStored(digest.toString('hex')));
  return { depth, record: wireStored(domainId, record) };
}
