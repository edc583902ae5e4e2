import { notVisible } from '../../ledger/audit/current-reader.js';
import { type StoredRecord, storedRecord } from '../../ledger/provenance/stored-record.js';
import type { ProvenanceKey } from '../../ledger/reads.js';
import { Refused } from '../../ledger/run-decision.js';
import type { CallContext, HandlerTools } from '../handler.js';
import { requireHarnessOrReader } from '../reader-access.js';
import type { ObjectName } from './read-object.js';
import { verifyReceipts } from './verify-receipts.js';

type ReadTools = Pick<HandlerTools, 'reader'>;
type ReadContext = Pick<CallContext, 'caller' | 'kind' | 'domainId'>;

/**
 * One record; version 0 is the newest.
 *
 * @throws {Refused} NOT_VISIBLE: an object that is absent and one of another domain look alike
 */
export async function readRecord(
  tools: ReadTools,
  context: ReadContext,
  object: ObjectName,
  version: bigint,
): Promise<StoredRecord> {
  const newest = version === 0n ? await newestVersion(tools, context.domainId, object) : version;
  const [record] = await readRecords(
    tools,
    context,
    newest === undefined ? [] : [{ ...object, version: newest }],
  );
  if (!record) throw new Refused(notVisible());
  return record;
}

/** The versions of an object behind one, at most `limit`. */
export async function readVersions(
  tools: ReadTools,
  { domainId }: ReadContext,
  { objectType, objectId }: ObjectName,
  after: bigint,
  limit: number,
): Promise<bigint[]> {
  const parameters = [domainId, objectType, objectId, after, limit];
  const rows = await tools.reader.query<{ version: bigint }>('provenance_versions', parameters);
  return rows.map((row) => row.version);
}

/**
 * The records that are there, of one snapshot and in the order of their keys, hashed again, their receipts verified again;
 * who may not read learns nothing.
 *
 * @throws {Refused} DATA_CORRUPT, naming the record; the reasons of `requireHarnessOrReader`
 */
export async function readRecords(
  tools: ReadTools,
  context: ReadContext,
  keys: readonly ProvenanceKey[],
): Promise<StoredRecord[]> {
  const draft = await requireHarnessOrReader(tools, context, { provenance: keys });
  const records = keys.map((key) => storedRecord(draft, key)).filter((record) => record !== undefined);
  for (const record of records) await verifyReceipts(draft, record);
  return records;
}

async function newestVersion(
  tools: ReadTools,
  domainId: string,
  object: ObjectName,
): Promise<bigint | undefined> {
  const parameters = [domainId, object.objectType, object.objectId];
  const [row] = await tools.reader.query<{ version: bigint }>('provenance_newest_version', parameters);
  return row?.version;
}
