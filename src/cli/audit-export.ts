import type { AuditService } from '../gen/surety/audit/v1/audit_service_pb.js';
import { genesisHash } from '../ledger/audit/chain.js';
import { encodeExportLine } from './audit-export-format.js';
import type { ServiceClient } from './client/service-client.js';

/** Entries of one answer: far below what a message may be. */
const PAGE_SIZE = 500;

/** What was exported. */
export interface ExportSummary {
  readonly domainId: string;
  readonly entries: number;
  /** The last position of the log when the export began. */
  readonly lastSeq: bigint;
}

/** Where an export comes from and goes to. */
export interface ExportOptions {
  readonly audit: Pick<ServiceClient<(typeof AuditService)['method']>, 'listEntries'>;
  readonly domainId: string;
  /** Takes one line, without its line break; the next one waits for it. */
  readonly write: (line: string) => Promise<void>;
  /** Entries of one answer, for tests. */
  readonly pageSize?: number;
}

/**
 * Exports the log of a domain as it stands when the export begins: one line per entry, exactly as it is stored, so that
 * `verifyExport` needs neither the service nor its database (provenance-audit-replay.md, Audit).
 *
 * @throws SuretyError
 */
export async function exportLog(options: ExportOptions): Promise<ExportSummary> {
  const { audit, domainId, write, pageSize = PAGE_SIZE } = options;
  let lastSeq: bigint | undefined;
  let afterSeq = 0n;
  let chainHash: Uint8Array = genesisHash(domainId);
  let entries = 0;
  do {
    const page = await audit.listEntries({ domainId, afterSeq, pageSize });
    // Nothing is written of a log that may not be read.
    if (lastSeq === undefined) await write(encodeExportLine({ kind: 'header', domainId }));
    lastSeq ??= page.headSeq;
    for (const entry of page.entries) {
      if (entry.seq > lastSeq) break;
      await write(encodeExportLine({ kind: 'entry', entry }));
      ({ seq: afterSeq, chainHash } = entry);
      entries += 1;
    }
    // A page of large entries is shorter than asked for; one that is empty has nothing behind it.
    if (page.entries.length === 0) break;
  } while (afterSeq < lastSeq);
  await write(encodeExportLine({ kind: 'end', seq: lastSeq, chainHash }));
  return { domainId, entries, lastSeq };
}
