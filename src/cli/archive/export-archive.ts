import { genesisHash } from '../../ledger/audit/chain.js';
import type { ExportedEffect } from '../../ledger/effect/archive-effects.js';
import { isSettledForArchive } from '../../ledger/effect/archive-effects.js';
import type { ArchiveRow, EffectRow } from '../../ledger/effect/records.js';
import { effectRecordDigest } from '../../ledger/effect/tombstone.js';
import { readEffect } from '../../ledger/effect/verified-effect.js';
import { sameDigest } from '../../ledger/encoding.js';
import { Refused } from '../../ledger/run-decision.js';
import { Draft } from '../../ledger/working-set.js';
import type { Reader } from '../../store/reader.js';
import { exportLog } from '../audit-export.js';
import { type ArchiveHeader, encodeExportLine } from '../audit-export-format.js';
import { verifyFile } from '../audit-verify.js';
import { archiveFileName, openArchiveFile } from './archive-file.js';
import { type ArchivedRecord, encodeArchivedRecord, isWholeRecord } from './archived-record.js';

/** Effects that are read together: some hundred KB, in a snapshot of some ten milliseconds. */
const PAGE_SIZE = 50;
/** More steps than an effect can have: four, and its late evidence. */
const MAX_STEPS = 100;
const LOG_PAGE_SIZE = 500;

/** An export that is not what it was to be: nothing was removed. */
export class ArchiveError extends Error {
  override readonly name = 'ArchiveError';
}

/** An archive whose file is whole, was read back, and has not been acted on. */
export interface ExportedArchive {
  readonly file: string;
  readonly archive: Omit<ArchiveRow, 'archivedAt'>;
  readonly effects: readonly ExportedEffect[];
}

/** What {@link exportArchive} found. */
export interface ArchiveExport {
  /** Undefined where no effect can go into an archive: then there is no file either. */
  readonly exported: ExportedArchive | undefined;
  /** Effects whose rows contradict the log or themselves: they are not exported and stay. */
  readonly corrupt: readonly string[];
}

/**
 * Exports effects with everything that is to leave with them, and the part of the log that no archive has yet; then reads
 * the file back and verifies it (effects.md, Archival). Where nothing can go into it, no file is left.
 *
 * @throws ArchiveError where what was read back does not verify; the file system's errors; StoreError
 */
export async function exportArchive(
  reader: Reader,
  input: {
    readonly domainId: string;
    readonly folder: string;
    readonly archiveId: string;
    readonly effectIds: readonly string[];
  },
): Promise<ArchiveExport> {
  const { domainId, folder, archiveId, effectIds } = input;
  const header = await nextHeader(reader, domainId, archiveId);
  const file = await openArchiveFile(folder, archiveFileName(domainId, header.archiveNumber, archiveId));
  const effects: ExportedEffect[] = [];
  const corrupt: string[] = [];
  const nothing = new ArchiveError('no effect can be archived');
  try {
    const writeEffects = async (): Promise<void> => {
      for (let at = 0; at < effectIds.length; at += PAGE_SIZE) {
        const page = await readRecords(reader, domainId, effectIds.slice(at, at + PAGE_SIZE));
        corrupt.push(...page.corrupt);
        for (const record of page.records) {
          const recordDigest = effectRecordDigest(record.effect, record.receipts);
          const { effectId } = record.effect;
          // What contradicts itself or the log is for a person to look at, and must not keep the others.
          if (!isWholeRecord(record, recordDigest, domainId)) {
            corrupt.push(effectId);
            continue;
          }
          await file.write(
            encodeExportLine({
              kind: 'effect',
              effectId,
              record: encodeArchivedRecord(record),
              recordDigest,
            }),
          );
          effects.push({ effectId, recordDigest });
        }
      }
      // A file for nothing would be another one with each run, and the log in it has to go into the next that is for something.
      if (effects.length === 0) throw nothing;
    };
    const log = await exportLog({
      audit: { listEntries: (request) => listEntries(reader, request) },
      domainId,
      write: file.write,
      part: { archive: header, writeEffects },
      pageSize: LOG_PAGE_SIZE,
    });
    const exportDigest = await file.finish();
    await readBack(file.path, domainId, exportDigest);
    const archive = {
      archiveNumber: header.archiveNumber,
      archiveId,
      exportDigest,
      logAfterSeq: header.afterSeq,
      logLastSeq: log.lastSeq,
      logChainHash: Buffer.from(log.chainHash),
    };
    return { exported: { file: file.path, archive, effects }, corrupt };
  } catch (error) {
    await file.abandon();
    if (error === nothing) return { exported: undefined, corrupt };
    throw error;
  }
}

async function nextHeader(reader: Reader, domainId: string, archiveId: string): Promise<ArchiveHeader> {
  const [last] = await reader.query<Pick<ArchiveRow, 'archiveNumber' | 'logLastSeq' | 'logChainHash'>>(
    'last_archive',
    [domainId],
  );
  return {
    archiveNumber: (last?.archiveNumber ?? 0n) + 1n,
    archiveId,
    afterSeq: last?.logLastSeq ?? 0n,
    afterChainHash: last?.logChainHash ?? genesisHash(domainId),
  };
}

/** What is on the disk is what was written, and an offline check of it finds nothing. */
async function readBack(file: string, domainId: string, digest: Buffer): Promise<void> {
  const report = await verifyFile(file, domainId);
  if (!sameDigest(report.digest, digest)) {
    throw new ArchiveError(`${file} is not what was written; nothing was removed`);
  }
  const [first] = report.findings;
  if (first === undefined) return;
  const where = first.seq === undefined ? `line ${first.line}` : `entry ${first.seq}`;
  throw new ArchiveError(
    `${file} does not verify (${where}: ${first.finding}, ${report.findings.length} findings); nothing was removed`,
  );
}

interface HistoryRow {
  readonly seq: bigint;
  readonly entry: Buffer;
  readonly leafHash: Buffer;
}

/** Each page is one snapshot: an effect and its receipts agree. The log's entries never change. */
async function readRecords(
  reader: Reader,
  domainId: string,
  effectIds: readonly string[],
): Promise<{ records: ArchivedRecord[]; corrupt: string[] }> {
  const draft = await gather(reader, domainId, { effects: effectIds, transitionsOf: effectIds });
  const records: ArchivedRecord[] = [];
  const corrupt: string[] = [];
  const keys = new Map<string, string>();
  const thumbprints = effectIds.flatMap((effectId) =>
    draft.find('transitionsOfEffect', effectId).map(({ keyThumbprint }) => keyThumbprint),
  );
  const proofKeys = await gather(reader, domainId, { proofKeys: [...new Set(thumbprints)] });
  for (const thumbprint of thumbprints) {
    const key = proofKeys.get('proof_keys', thumbprint);
    if (key) keys.set(thumbprint, key.publicJwk);
  }
  for (const effectId of effectIds) {
    const effect = soundEffect(draft, effectId);
    if (effect === 'corrupt') corrupt.push(effectId);
    if (!effect || effect === 'corrupt' || !isSettledForArchive(effect)) continue;
    const receipts = draft.find('transitionsOfEffect', effectId).sort((a, b) => (a.step < b.step ? -1 : 1));
    const entries = await reader.query<HistoryRow>('effect_history', [domainId, effectId, 0n, MAX_STEPS]);
    const own = new Set(receipts.map(({ keyThumbprint }) => keyThumbprint));
    records.push({
      effect,
      receipts,
      entries: entries.map(({ seq, entry, leafHash }) => ({ seq, entry, leafHash })),
      proofKeys: [...own].flatMap((thumbprint) => {
        const publicJwk = keys.get(thumbprint);
        return publicJwk === undefined ? [] : [{ thumbprint, publicJwk }];
      }),
    });
  }
  return { records, corrupt };
}

function soundEffect(draft: Draft, effectId: string): EffectRow | undefined | 'corrupt' {
  try {
    return readEffect(draft, effectId);
  } catch (error) {
    if (error instanceof Refused) return 'corrupt';
    throw error;
  }
}

async function gather(reader: Reader, domainId: string, reads: Parameters<Reader['gather']>[1]) {
  const set = await reader.gather(domainId, reads);
  if (!set) throw new ArchiveError(`there is no domain ${domainId}`);
  return new Draft(set);
}

/** The log as the service would list it. */
async function listEntries(
  reader: Reader,
  request: { readonly domainId?: string; readonly afterSeq?: bigint; readonly pageSize?: number },
) {
  const { domainId = '', afterSeq = 0n, pageSize = LOG_PAGE_SIZE } = request;
  const entries = await reader.query<{ seq: bigint; entry: Buffer; leafHash: Buffer; chainHash: Buffer }>(
    'audit_page',
    [domainId, afterSeq, BigInt(pageSize)],
  );
  const [head] = await reader.query<{ seq: bigint }>('audit_head', [domainId]);
  return { entries, headSeq: head?.seq ?? 0n };
}
