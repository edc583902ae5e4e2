import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { decodeEntry } from '../lane/decode-entry.js';
import { genesisHash } from '../ledger/audit/chain.js';
import {
  type ChainFinding,
  ChainVerifier,
  type FindingKind,
  type OpenStep,
} from '../ledger/audit/verify-chain.js';
import { sameDigest } from '../ledger/encoding.js';
import { isWholeRecord, parseArchivedRecord } from './archive/archived-record.js';
import {
  type ArchiveHeader,
  type ExportEffect,
  type ExportEntry,
  type ExportLine,
  parseExportLine,
} from './audit-export-format.js';
import { ChainHashes } from './chain-hashes.js';

/**
 * An entry has a few KB at most, an archived effect with a receipt of every kind and all its late evidence some hundred; a
 * file that is something else is not read into memory.
 */
const MAX_LINE_CHARACTERS = 4 * 1024 * 1024;
/** A log that is wrong everywhere needs no longer list. */
const MAX_FINDINGS = 1_000;

/** Something that does not match in an export. */
export interface ExportFinding {
  /** In the file, from 1; 0: it is of no line, but of the file beside others. */
  readonly line: number;
  /** The position in the log, where the line has one. */
  readonly seq: bigint | undefined;
  /** The effect, where it is about an archived one. */
  readonly effectId?: string;
  /**
   * What a `ChainFinding` says, or: it is no export, it is another domain's, it was cut off, it goes on behind its end; of
   * an archive: a record does not hold together, or is not what the log says; it is not the file that the log behind it
   * names, or that log names none; the file behind it does not go on where it ends.
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

/** What an archived effect says stands in the log at a position. */
interface ClaimedEntry {
  readonly effectId: string;
  readonly leafHash: Uint8Array;
}

/** What is known from files that were read before: those that follow. */
export interface Claims {
  /** What archived effects say stands in the log, by position, as far as the entry there was not read. */
  readonly entries: Map<bigint, ClaimedEntry>;
  /** The digests of archives' files that the log names, by the archive's id. */
  readonly files: Map<string, Uint8Array>;
  /** Each effect's first step in the files that follow, where the one before it must stand before those. */
  readonly openSteps: Map<string, OpenStep>;
}

export function noClaims(): Claims {
  return { entries: new Map(), files: new Map(), openSteps: new Map() };
}

/**
 * Verifies an export with nothing but its lines (provenance-audit-replay.md, Audit): changing, dropping, inserting or
 * reordering any entry is found. That a log was replaced as a whole, hashes and all, shows only beside another copy of its
 * last chain hash. Of an archive each effect is verified too, and that the entries that it brings stand in this part of the
 * log, but those that stand before it: they are left in the claims for the files before.
 *
 * @param lines without their line breaks
 * @param domainId whose log it must be; undefined: whose it says
 * @param claims of the files that follow this one; what this one says is added
 * @param hashes takes the chain hashes of a whole log
 */
export async function verifyExport(
  lines: AsyncIterable<string>,
  domainId?: string,
  claims: Claims = noClaims(),
  hashes?: ChainHashes,
): Promise<VerifyReport> {
  const check = new ExportCheck(domainId, claims, hashes);
  for await (const text of lines) check.line(text);
  return check.report();
}

/** A file with the SHA-256 of its bytes. */
export interface FileReport extends VerifyReport {
  readonly digest: Buffer;
}

/** Verifies one file as `verifyExport` does. */
export async function verifyFile(
  file: string,
  ...options: [domainId?: string, claims?: Claims, hashes?: ChainHashes]
): Promise<FileReport> {
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
  const report = await verifyExport(linesOf(chunks()), ...options);
  return { ...report, digest: hash.digest() };
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
  let next: FollowingFile | undefined;
  // Last to first: what a file says of the log before it is known when that is read.
  for (const [index, file] of [...files.entries()].reverse()) {
    const hashes = index === 0 ? undefined : new ChainHashes();
    const report = await verifyFile(file, domainId ?? next?.report.domainId, claims, hashes);
    const findings = [...report.findings, ...(next === undefined ? [] : besides(report, next, claims))];
    reports.unshift({ file, report: { ...report, findings } });
    next = { report, hashes };
  }
  for (const { file, report } of reports) printReport(report, files.length > 1 ? `${file}: ` : '', print);
  const found = reports.reduce((sum, { report }) => sum + report.findings.length, 0);
  print(found === 0 ? 'verified' : `not verified: ${found} findings`);
  return found === 0 ? 0 : 1;
}

/** The file behind another one. */
interface FollowingFile {
  readonly report: FileReport;
  readonly hashes: ChainHashes | undefined;
}

/** What is wrong with a file beside those that follow it. */
function besides(report: FileReport, next: FollowingFile, { files }: Claims): ExportFinding[] {
  const { archive, digest, lastSeq } = report;
  const findings: ExportFinding[] = [];
  // Only behind the last archive may the log say nothing of it: an unnamed one before others is not what was archived.
  if (archive && !sameDigest(files.get(archive.archiveId), digest)) {
    findings.push({ line: 0, seq: undefined, finding: 'OTHER_FILE' });
  }
  if (!goesOn(report, next)) findings.push({ line: 0, seq: lastSeq, finding: 'NOT_CONTINUED' });
  return findings;
}

/** An archive begins where the one before it ends; a whole log has what the file before it ends with. */
function goesOn(before: VerifyReport, { report: { archive, lastSeq }, hashes }: FollowingFile): boolean {
  if (archive === undefined) {
    const there = before.lastSeq === 0n ? genesisHash(before.domainId ?? '') : hashes?.at(before.lastSeq);
    return before.lastSeq <= lastSeq && sameDigest(there, before.lastChainHash);
  }
  return (
    before.archive !== undefined &&
    archive.afterSeq === before.lastSeq &&
    sameDigest(archive.afterChainHash, before.lastChainHash)
  );
}

function printReport(report: FileReport, prefix: string, print: (line: string) => void): void {
  for (const { line, seq, effectId, finding } of report.findings) {
    const what = [
      ...(effectId === undefined ? [] : [`effect ${effectId}`]),
      ...(seq === undefined ? [] : [`entry ${seq}`]),
    ].join(', ');
    const where = line === 0 ? 'the file' : `line ${line}`;
    print(`${prefix}${what === '' ? where : line === 0 ? what : `${what} (${where})`}: ${finding}`);
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
    private readonly hashes: ChainHashes | undefined,
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
    this.settleClaims();
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
    if (this.archive === undefined) this.hashes?.add(entry.seq, entry.chainHash);
    const claimed = this.claims.entries.get(entry.seq);
    if (claimed === undefined) return;
    this.claims.entries.delete(entry.seq);
    if (!sameDigest(claimed.leafHash, entry.leafHash)) this.find('NOT_IN_LOG', entry.seq);
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
    for (const { seq, leafHash } of parsed.entries) {
      const other = this.claims.entries.get(seq);
      if (other === undefined) this.claims.entries.set(seq, { effectId, leafHash });
      // One position holds one entry: one of them is not the log's, whichever.
      else if (!sameDigest(other.leafHash, leafHash)) this.find('NOT_IN_LOG', seq, effectId);
    }
  }

  /** At the file's end: what must have stood in it; what stands before it is for the file before. */
  private settleClaims(): void {
    const { entries, openSteps } = this.claims;
    if (!this.ended || this.verifier === undefined) {
      // What is missing in a file that was cut off is told by that.
      entries.clear();
      return openSteps.clear();
    }
    const { verifier } = this;
    const after = this.archive?.afterSeq ?? 0n;
    for (const [seq, { effectId }] of entries) {
      if (after !== 0n && seq <= after) continue;
      entries.delete(seq);
      this.find('NOT_IN_LOG', seq, effectId, 0);
    }
    for (const { effectId, seq, missingStep } of openSteps.values()) {
      const last = verifier.lastStepOf(effectId);
      if (last === undefined && after !== 0n) continue;
      openSteps.delete(effectId);
      if (last !== missingStep) this.find('STEP_GAP', seq, undefined, 0);
    }
    for (const open of verifier.takeOpenSteps()) openSteps.set(open.effectId, open);
  }

  private found(findings: readonly ChainFinding[]): void {
    for (const { seq, finding } of findings) this.find(finding, seq);
  }

  private find(
    finding: ExportFinding['finding'],
    seq?: bigint,
    effectId?: string,
    line: number = this.number,
  ): void {
    if (this.findings.length >= MAX_FINDINGS) return;
    this.findings.push({ line, seq, finding, ...(effectId === undefined ? {} : { effectId }) });
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
