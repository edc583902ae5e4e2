import type { ChainEntry } from '../ledger/audit/verify-chain.js';

/** Tells an export from any other file, and this form from later ones. */
const FORMAT = 'surety-audit-export-v1';
/** An archive: a part of the log that follows the one of the archive before it, and effects with all that left with them. */
const ARCHIVE_FORMAT = 'surety-archive-v1';

/** The first line: whose log it is. */
export interface ExportHeader {
  readonly kind: 'header';
  readonly domainId: string;
  /** Of an archive. */
  readonly archive?: ArchiveHeader;
}

/** Which archive it is, and where its part of the log begins. */
export interface ArchiveHeader {
  readonly archiveNumber: bigint;
  readonly archiveId: string;
  readonly afterSeq: bigint;
  readonly afterChainHash: Buffer;
}

/** In an archive, one line per effect, before the entries. */
export interface ExportEffect {
  readonly kind: 'effect';
  readonly effectId: string;
  /** `encodeArchivedRecord`. */
  readonly record: string;
  readonly recordDigest: Buffer;
}

/** One line per entry, in order. */
export interface ExportEntry {
  readonly kind: 'entry';
  readonly entry: ChainEntry;
}

/** The last line: where the log ended when it was exported. Without it the file was cut off. */
export interface ExportEnd {
  readonly kind: 'end';
  readonly seq: bigint;
  readonly chainHash: Uint8Array;
}

/** A line of an export: JSON, integers as text, hashes as hex, the entry's exact bytes as base64. */
export type ExportLine = ExportHeader | ExportEffect | ExportEntry | ExportEnd;

/** A line without its line break. */
export function encodeExportLine(line: ExportLine): string {
  switch (line.kind) {
    case 'header':
      return JSON.stringify(headerMembers(line));
    case 'effect':
      return JSON.stringify({
        effect_id: line.effectId,
        record: line.record,
        record_digest: hex(line.recordDigest),
      });
    case 'entry':
      return JSON.stringify({
        seq: line.entry.seq.toString(),
        entry: Buffer.from(line.entry.entry).toString('base64'),
        leaf_hash: hex(line.entry.leafHash),
        chain_hash: hex(line.entry.chainHash),
      });
    case 'end':
      return JSON.stringify({ end: line.seq.toString(), chain_hash: hex(line.chainHash) });
  }
}

/** Reads a line; undefined where it is none of an export. Exactly the members that were written, in any order. */
export function parseExportLine(text: string): ExportLine | undefined {
  const members = parseObject(text);
  if (members === undefined) return undefined;
  switch (Object.keys(members).sort().join(' ')) {
    case 'domain_id format': {
      const { format, domain_id: domainId } = members as Record<'format' | 'domain_id', string>;
      return format === FORMAT && domainId !== '' ? { kind: 'header', domainId } : undefined;
    }
    case 'after_chain_hash after_seq archive_id archive_number domain_id format':
      return archiveHeader(members);
    case 'effect_id record record_digest': {
      const { effect_id: effectId, record, record_digest: digest } = members;
      const recordDigest = hash(digest ?? '');
      return recordDigest && effectId !== undefined && record !== undefined
        ? { kind: 'effect', effectId, record, recordDigest }
        : undefined;
    }
    case 'chain_hash entry leaf_hash seq':
      return entryLine(members);
    case 'chain_hash end': {
      const { end, chain_hash: chain } = members as Record<'end' | 'chain_hash', string>;
      const seq = position(end);
      const chainHash = hash(chain);
      return seq === undefined || !chainHash ? undefined : { kind: 'end', seq, chainHash };
    }
    default:
      return undefined;
  }
}

function headerMembers({ domainId, archive }: ExportHeader): Record<string, string> {
  if (archive === undefined) return { format: FORMAT, domain_id: domainId };
  return {
    format: ARCHIVE_FORMAT,
    domain_id: domainId,
    archive_number: archive.archiveNumber.toString(),
    archive_id: archive.archiveId,
    after_seq: archive.afterSeq.toString(),
    after_chain_hash: hex(archive.afterChainHash),
  };
}

function archiveHeader(
  members: Record<
    'format' | 'domain_id' | 'archive_number' | 'archive_id' | 'after_seq' | 'after_chain_hash',
    string
  >,
): ExportHeader | undefined {
  const archiveNumber = position(members.archive_number);
  const afterSeq = position(members.after_seq);
  const afterChainHash = hash(members.after_chain_hash);
  const { format, domain_id: domainId, archive_id: archiveId } = members;
  if (format !== ARCHIVE_FORMAT || domainId === '' || archiveId === '') return undefined;
  if (archiveNumber === undefined || afterSeq === undefined || !afterChainHash) return undefined;
  return { kind: 'header', domainId, archive: { archiveNumber, archiveId, afterSeq, afterChainHash } };
}

function entryLine(
  members: Record<'seq' | 'entry' | 'leaf_hash' | 'chain_hash', string>,
): ExportEntry | undefined {
  const seq = position(members.seq);
  const bytes = Buffer.from(members.entry, 'base64');
  const leafHash = hash(members.leaf_hash);
  const chainHash = hash(members.chain_hash);
  const exact = bytes.toString('base64') === members.entry;
  if (seq === undefined || !exact || !leafHash || !chainHash) return undefined;
  return { kind: 'entry', entry: { seq, entry: bytes, leafHash, chainHash } };
}

/** An object whose members are all texts. */
function parseObject(text: string): Record<string, string> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
    return Object.values(value).every((member) => typeof member === 'string')
      ? (value as Record<string, string>)
      : undefined;
  } catch {
    return undefined;
  }
}

function position(text: string): bigint | undefined {
  return /^(?:0|[1-9]\d{0,18})$/.test(text) ? BigInt(text) : undefined;
}

function hash(text: string): Buffer | undefined {
  return /^[0-9a-f]{64}$/.test(text) ? Buffer.from(text, 'hex') : undefined;
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}
