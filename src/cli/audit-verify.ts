import { createReadStream } from 'node:fs';
import { decodeEntry } from '../lane/decode-entry.js';
import { genesisHash } from '../ledger/audit/chain.js';
import { type ChainFinding, ChainVerifier, type FindingKind } from '../ledger/audit/verify-chain.js';
import { type ExportLine, parseExportLine } from './audit-export-format.js';

/** An entry has a few KB at most; a file that is something else is not read into memory. */
const MAX_LINE_CHARACTERS = 1024 * 1024;
/** A log that is wrong everywhere needs no longer list. */
const MAX_FINDINGS = 1_000;

/** Something that does not match in an export. */
export interface ExportFinding {
  /** In the file, from 1. */
  readonly line: number;
  /** The position in the log, where the line has one. */
  readonly seq: bigint | undefined;
  /** What a `ChainFinding` says, or: it is no export, it is another domain's, it was cut off, it goes on behind its end. */
  readonly finding: FindingKind | 'NO_EXPORT' | 'OTHER_DOMAIN' | 'CUT_OFF' | 'BEHIND_END';
}

/** What the verification of an export found. */
export interface VerifyReport {
  readonly domainId: string | undefined;
  /** Entries that were read. */
  readonly entries: bigint;
  readonly lastSeq: bigint;
  /** The chain hash at `lastSeq`: two exports of one log agree in it, and it is what a witness would have kept. */
  readonly lastChainHash: Buffer | undefined;
  readonly findings: readonly ExportFinding[];
}

/**
 * Verifies an export with nothing but its lines (provenance-audit-replay.md, Audit): changing, dropping, inserting or
 * reordering any entry is found. That a log was replaced as a whole, hashes and all, shows only beside another copy of its
 * last chain hash.
 *
 * @param lines without their line breaks
 * @param domainId whose log it must be; undefined: whose it says
 */
export async function verifyExport(lines: AsyncIterable<string>, domainId?: string): Promise<VerifyReport> {
  const check = new ExportCheck(domainId);
  for await (const text of lines) check.line(text);
  return check.report();
}

/**
 * Verifies a file and says what it found.
 *
 * @param print takes a line of text
 * @returns the exit status: 0 where everything matches, 1 where anything does not
 */
export async function auditVerify(options: {
  readonly file: string;
  readonly domainId?: string;
  readonly print: (line: string) => void;
}): Promise<number> {
  const { file, domainId, print } = options;
  const report = await verifyExport(linesOf(createReadStream(file, 'utf8')), domainId);
  for (const { line, seq, finding } of report.findings) {
    print(seq === undefined ? `line ${line}: ${finding}` : `entry ${seq} (line ${line}): ${finding}`);
  }
  const hash = report.lastChainHash?.toString('hex') ?? 'none';
  print(
    `${report.domainId ?? 'unknown domain'}: ${report.entries} entries, last ${report.lastSeq}, chain ${hash}`,
  );
  print(report.findings.length === 0 ? 'verified' : `not verified: ${report.findings.length} findings`);
  return report.findings.length === 0 ? 0 : 1;
}

class ExportCheck {
  private readonly findings: ExportFinding[] = [];
  private verifier: ChainVerifier | undefined;
  private domainId: string | undefined;
  private number = 0;
  private ended = false;

  constructor(private readonly expectedDomainId: string | undefined) {}

  line(text: string): void {
    this.number += 1;
    const line = parseExportLine(text);
    if (this.number === 1) return this.header(line);
    if (this.ended) return this.find('BEHIND_END', line?.kind === 'entry' ? line.entry.seq : undefined);
    if (line?.kind === 'entry') return this.found(this.verifier?.add(line.entry) ?? []);
    if (line?.kind !== 'end') return this.find('MALFORMED');
    this.ended = true;
    this.found(this.verifier?.finish(line) ?? []);
  }

  report(): VerifyReport {
    if (this.number === 0) this.find('NO_EXPORT');
    else if (!this.ended) this.find('CUT_OFF', this.verifier?.lastSeq);
    return {
      domainId: this.domainId,
      entries: this.verifier?.entries ?? 0n,
      lastSeq: this.verifier?.lastSeq ?? 0n,
      lastChainHash: this.verifier?.lastChainHash,
      findings: this.findings,
    };
  }

  private header(line: ExportLine | undefined): void {
    if (line?.kind !== 'header') return this.find('NO_EXPORT');
    const { domainId } = line;
    this.domainId = domainId;
    const expected = this.expectedDomainId ?? domainId;
    if (domainId !== expected) this.find('OTHER_DOMAIN');
    // The chain begins with the domain's name, so that a log passes for no other domain's.
    this.verifier = new ChainVerifier(expected, decodeEntry, { seq: 0n, chainHash: genesisHash(expected) });
  }

  private found(findings: readonly ChainFinding[]): void {
    for (const { seq, finding } of findings) this.find(finding, seq);
  }

  private find(finding: ExportFinding['finding'], seq?: bigint): void {
    if (this.findings.length < MAX_FINDINGS) this.findings.push({ line: this.number, seq, finding });
  }
}

/** The lines of a text that comes in pieces. @throws RangeError at a line that no export has */
export async function* linesOf(chunks: AsyncIterable<string>): AsyncGenerator<string> {
  let rest = '';
  for await (const chunk of chunks) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
    if (rest.length > MAX_LINE_CHARACTERS)
      throw new RangeError('a line is longer than any line of an export');
  }
  if (rest !== '') yield rest;
}
