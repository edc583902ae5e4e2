import { genesisHash } from '../ledger/audit/chain.js';
import type { ChainEntry } from '../ledger/audit/verify-chain.js';
import { type ArchiveHeader, encodeExportLine } from './audit-export-format.js';

/** Entries of one answer: far below what a message may be. */
const PAGE_SIZE = 500;

/** What was exported. */
export interface ExportSummary {
  readonly domainId: string;
  readonly entries: number;
  /** The last position of the log when the export began. */
  readonly lastSeq: bigint;
  /** The chain hash there. */
  readonly chainHash: Uint8Array;
}

/** Whoever lists a log in pages: the service, or the store itself. */
export interface LogSource {
  listEntries(request: {
    readonly domainId: string;
    readonly afterSeq: bigint;
    readonly pageSize: number;
  }): Promise<{ readonly entries: readonly ChainEntry[]; readonly headSeq: bigint }>;
}

/** Where an export comes from and goes to. */
export interface ExportOptions {
  readonly audit: LogSource;
  readonly domainId: string;
  /** Takes one line, without its line break; the next one waits for it. */
  readonly write: (line: string) => Promise<void>;
  /** For a part of the log: its header, whose position the part begins behind, and what stands before the entries. */
  readonly part?: { readonly archive: ArchiveHeader; readonly writeEffects: () => Promise<void> };
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
  const { audit, domainId, write, part, pageSize = PAGE_SIZE } = options;
  let afterSeq = part?.archive.afterSeq ?? 0n;
  let chainHash: Uint8Array = part?.archive.afterChainHash ?? genesisHash(domainId);
  let entries = 0;
  let page = await audit.listEntries({ domainId, afterSeq, pageSize });
  // Nothing is written of a log that may not be read.
  await write(
    encodeExportLine({ kind: 'header', domainId, ...(part === undefined ? {} : { archive: part.archive }) }),
  );
  if (part !== undefined) {
    await part.writeEffects();
    // Behind the effects: what they say stands in the log, late evidence of this moment too, stands in this part of it.
    page = await audit.listEntries({ domainId, afterSeq, pageSize });
  }
  const lastSeq = page.headSeq;
  // A page of large entries is shorter than asked for; one that is empty has nothing behind it.
  while (page.entries.length > 0) {
    for (const entry of page.entries) {
      if (entry.seq > lastSeq) break;
      await write(encodeExportLine({ kind: 'entry', entry }));
      ({ seq: afterSeq, chainHash } = entry);
      entries += 1;
    }
    if (afterSeq >= lastSeq) break;
    page = await audit.listEntries({ domainId, afterSeq, pageSize });
  }
  await write(encodeExportLine({ kind: 'end', seq: lastSeq, chainHash }));
  return { domainId, entries, lastSeq, chainHash };
}
