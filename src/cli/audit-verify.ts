import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { decodeEntry } from '../lane/decode-entry.js';
import { genesisHash } from '../ledger/audit/chain.js';
import { type ChainFinding, ChainVerifier, type FindingKind } from '../ledger/audit/verify-chain.js';
import { sameDigest } from '../ledger/encoding.js';
import { isWholeRecord, parseArchivedRecord } from './archive/archived-record.js';
import {
  type ArchiveHeader,
  type ExportEffect,
  type ExportEntry,
  type ExportLine,
  parseExportLine,
} from './audit-export-format.js';

/**
 * An entry has a few KB at most, an archived effect with a receipt of every kind and all its late evidence some hundred; a
 * file that is something else is not read into memory.
 */
const MAX_LINE_CHARACTERS = 4 * 1024 * 1024;
/** A log that is wrong everywhere needs no longer list. */
const MAX_FINDINGS = 1_000;

/** Something that does not match in an export. */
export interface ExportFinding {
  /** In the file, from 1. */
  readonly line: number;
  /** The position in the log, where the line has one. */
  readonly seq: bigint | undefined;
  /** The effect, where the line is of an archived one. */
  readonly effectId?: string;
  /**
   * What a `ChainFinding` says, or: it is no export, it is another domain's, it was cut off, it goes on behind its end; of
   * an archive: a record does not hold together, or is not what the log says; it is not the file that the log names; it
   * does not go on where the file before it ends.
   */
  readonly finding:
    | FindingKind
    | 'NO_EXPORT'
    | 'OTHER_DOMAIN'
    | 'CUT_OFF'
    | 'BEHIND_END'
    | 'RECORD_MISMATCH'
    | 'NOT_IN_LOG'
    | 'OTHER_FILE'
    | 'NOT_CONTINUED';
}

/** What the verification of an export found. */
export interface VerifyReport {
  readonly domainId: string | undefined;
  /** Of an archive. */
  readonly archive: ArchiveHeader | undefined;
  /** Entries that were read. */
  readonly entries: bigint;
  /** Archived effects that were read. */
  readonly effects: number;
  readonly lastSeq: bigint;
  /** The chain hash at `lastSeq`: two exports of one log agree in it, and it is what a witness would have kept. */
  readonly lastChainHash: Buffer | undefined;
  readonly findings: readonly ExportFinding[];
}

/** What is known from files that were read before: those that follow. */
export interface Claims {
  /** The leaves that archived effects say stand in the log, by position. */
  readonly leaves: Map<bigint, Uint8Array>;
  /** The digests of archives' files that the log names, by the archive's id. */
  readonly files: Map<string, Uint8Array>;
}

export function noClaims(): Claims {
  return { leaves: new Map(), files: new Map() };
}

/**
 * Verifies an export with nothing but its lines (provenance-audit-replay.md, Audit): changing, dropping, inserting or
 * reordering any entry is found. That a log was replaced as a whole, hashes and all, shows only beside another copy of its
 * last chain hash. Of an archive each effect is verified too, and where the entries that it brings are of this part of the
 * log, that they are the same.
 *
 * @param lines without their line breaks
 * @param domainId whose log it must be; undefined: whose it says
 * @param claims of the files that follow this one; what this one says is added
 */
export async function verifyExport(
  lines: AsyncIterable<string>,
  domainId?: string,
  claims: Claims = noClaims(),
): Promise<VerifyReport> {
  const check = new ExportCheck(domainId, claims);
  for await (const text of lines) check.line(text);
  return check.report();
}

/** A file with the SHA-256 of its bytes. */
export interface FileReport extends VerifyReport {
  readonly digest: Buffer;
}

/** Verifies one file as `verifyExport` does, and that it is the one that a later part of the log names. */
export async function verifyFile(file: string, domainId?: string, claims = noClaims()): Promise<FileReport> {
  const hash = createHash('sha256');
  const chunks = async function* (): AsyncGenerator<string> {
    const stream = createReadStream(file);
    const decoder = new TextDecoder();
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      hash.update(chunk);
      yield decoder.decode(chunk, { stream: true });
    }
    yield decoder.decode();
  };
  const report = await verifyExport(linesOf(chunks()), domainId, claims);
  const digest = hash.digest();
  const named = report.archive && claims.files.get(report.archive.archiveId);
  const other: ExportFinding[] =
    named && !sameDigest(named, digest) ? [{ line: 1, seq: undefined, finding: 'OTHER_FILE' }] : [];
  return { ...report, digest, findings: [...report.findings, ...other] };
}

/**
 * Verifies files of one domain, oldest first, and says what was found: each by itself, that an archive goes on where the
 * one before it ends, that archived effects are what the log says, and that archives are the files that the log names.
 *
 * @param print takes a line of text
 * @returns the exit status: 0 where everything matches, 1 where anything does not
 */
export async function auditVerify(options: {
  readonly files: readonly string[];
  readonly domainId?: string;
  readonly print: (line: string) => void;
}): Promise<number> {
  const { files, domainId, print } = options;
  const claims = noClaims();
  const reports: { file: string; report: FileReport }[] = [];
  // Last to first: what a file says of the log before it is known when that is read.
  for (const file of [...files].reverse()) {
    const report = await verifyFile(file, domainId ?? reports[0]?.report.domainId, claims);
    const next = reports[0]?.report;
    const broken = next !== undefined && !goesOn(report, next);
    const findings: ExportFinding[] = broken
      ? [...report.findings, { line: 0, seq: report.lastSeq, finding: 'NOT_CONTINUED' }]
      : [...report.findings];
    reports.unshift({ file, report: { ...report, findings } });
  }
  for (const { file, report } of reports) printReport(report, files.length > 1 ? `${file}: ` : '', print);
  const found = reports.reduce((sum, { report }) => sum + report.findings.length, 0);
  print(found === 0 ? 'verified' : `not verified: ${found} findings`);
  return found === 0 ? 0 : 1;
}

/** A whole log follows nothing. */
function goesOn(before: VerifyReport, { archive }: VerifyReport): boolean {
  if (archive === undefined) return true;
  return archive.afterSeq === before.lastSeq && sameDigest(archive.afterChainHash, before.lastChainHash);
}

function printReport(report: FileReport, prefix: string, print: (line: string) => void): void {
  for (const { line, seq, effectId, finding } of report.findings) {
    const what =
      effectId === undefined ? (seq === undefined ? undefined : `entry ${seq}`) : `effect ${effectId}`;
    print(`${prefix}${what === undefined ? `line ${line}` : `${what} (line ${line})`}: ${finding}`);
  }
  const hash = report.lastChainHash?.toString('hex') ?? 'none';
  const { archive, effects } = report;
  const part = archive
    ? `archive ${archive.archiveNumber}, file ${report.digest.toString('hex')}, ${effects} effects, log from ${archive.afterSeq + 1n}, `
    : '';
  print(
    `${prefix}${report.domainId ?? 'unknown domain'}: ${part}${report.entries} entries, last ${report.lastSeq}, chain ${hash}`,
  );
}

class ExportCheck {
  private readonly findings: ExportFinding[] = [];
  private verifier: ChainVerifier | undefined;
  private domainId: string | undefined;
  private archive: ArchiveHeader | undefined;
  private effects = 0;
  private readonly effectIds = new Set<string>();
  private number = 0;
  private ended = false;

  constructor(
    private readonly expectedDomainId: string | undefined,
    private readonly claims: Claims,
  ) {}

  line(text: string): void {
    this.number += 1;
    const line = parseExportLine(text);
    if (this.number === 1) return this.header(line);
    if (this.ended) return this.find('BEHIND_END', line?.kind === 'entry' ? line.entry.seq : undefined);
    if (line?.kind === 'entry') return this.entry(line);
    if (line?.kind === 'effect' && this.archive && this.verifier?.entries === 0n) return this.effect(line);
    if (line?.kind !== 'end') return this.find('MALFORMED');
    this.ended = true;
    this.found(this.verifier?.finish(line) ?? []);
  }

  report(): VerifyReport {
    if (this.number === 0) this.find('NO_EXPORT');
    else if (!this.ended) this.find('CUT_OFF', this.verifier?.lastSeq);
    return {
      domainId: this.domainId,
      archive: this.archive,
      entries: this.verifier?.entries ?? 0n,
      effects: this.effects,
      lastSeq: this.verifier?.lastSeq ?? 0n,
      lastChainHash: this.verifier?.lastChainHash,
      findings: this.findings,
    };
  }

  private header(line: ExportLine | undefined): void {
    if (line?.kind !== 'header') return this.find('NO_EXPORT');
    const { domainId, archive } = line;
    this.domainId = domainId;
    this.archive = archive;
    const expected = this.expectedDomainId ?? domainId;
    if (domainId !== expected) this.find('OTHER_DOMAIN');
    // The chain begins with the domain's name, so that a log passes for no other domain's.
    const genesis = { seq: 0n, chainHash: genesisHash(expected) };
    const start =
      archive === undefined || archive.afterSeq === 0n
        ? genesis
        : { seq: archive.afterSeq, chainHash: archive.afterChainHash };
    if (archive?.afterSeq === 0n && !sameDigest(archive.afterChainHash, genesis.chainHash)) {
      this.find('NOT_CONTINUED');
    }
    this.verifier = new ChainVerifier(expected, (entry) => this.decode(entry), start);
  }

  /** What the log says of archives is remembered for the files before this one. */
  private decode(entry: Uint8Array) {
    const decoded = decodeEntry(entry);
    if (decoded?.archive) this.claims.files.set(decoded.archive.archiveId, decoded.archive.digest);
    return decoded;
  }

  private entry({ entry }: ExportEntry): void {
    this.found(this.verifier?.add(entry) ?? []);
    // They went on before this part; the part where they stand says if they are right.
    this.verifier?.takeOpenSteps();
    const claimed = this.claims.leaves.get(entry.seq);
    if (claimed && !sameDigest(claimed, entry.leafHash)) this.find('NOT_IN_LOG', entry.seq);
  }

  private effect({ effectId, record, recordDigest }: ExportEffect): void {
    this.effects += 1;
    const parsed = parseArchivedRecord(record);
    const again = this.effectIds.size === this.effectIds.add(effectId).size;
    if (
      again ||
      parsed?.effect.effectId !== effectId ||
      !isWholeRecord(parsed, recordDigest, this.domainId ?? '')
    ) {
      return this.find('RECORD_MISMATCH', undefined, effectId);
    }
    for (const { seq, leafHash } of parsed.entries) this.claims.leaves.set(seq, leafHash);
  }

  private found(findings: readonly ChainFinding[]): void {
    for (const { seq, finding } of findings) this.find(finding, seq);
  }

  private find(finding: ExportFinding['finding'], seq?: bigint, effectId?: string): void {
    if (this.findings.length >= MAX_FINDINGS) return;
    this.findings.push({ line: this.number, seq, finding, ...(effectId === undefined ? {} : { effectId }) });
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
