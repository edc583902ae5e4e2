import type { ChainEntry } from '../ledger/audit/verify-chain.js';

/** Tells an export from any other file, and this form from later ones. */
const FORMAT = 'surety-audit-export-v1';

/** The first line: whose log it is. */
export interface ExportHeader {
  readonly kind: 'header';
  readonly domainId: string;
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
export type ExportLine = ExportHeader | ExportEntry | ExportEnd;

/** A line without its line break. */
export function encodeExportLine(line: ExportLine): string {
  switch (line.kind) {
    case 'header':
      return JSON.stringify({ format: FORMAT, domain_id: line.domainId });
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
