import { sameDigest } from '../encoding.js';
import type { Digest } from '../types.js';
import { chainHash, leafHash } from './chain.js';

/** An entry with its hashes, as it is stored or exported. Nothing of it is trusted. */
export interface ChainEntry {
  readonly seq: bigint;
  readonly entry: Uint8Array;
  readonly leafHash: Uint8Array;
  readonly chainHash: Uint8Array;
  /** The columns beside the entry; absent in an export, which has none. */
  readonly effect?: { readonly effectId: string | null; readonly step: bigint | null };
}

/** What an entry's bytes say, as far as it is compared. */
export interface DecodedEntry {
  readonly domainId: string;
  readonly seq: bigint;
  readonly incarnation: bigint;
  /** Empty but in the first entry of an incarnation. */
  readonly previousHead: Uint8Array;
  readonly effect?: { readonly effectId: string; readonly step: bigint };
  /** Of an entry about an archival: the archive, and the digest of its file. */
  readonly archive?: { readonly archiveId: string; readonly digest: Uint8Array };
}

/** Reads an entry's bytes; undefined where they are none. */
export type EntryDecoder = (entry: Uint8Array) => DecodedEntry | undefined;

/** What can be wrong at a position. */
export type FindingKind =
  /** There is no entry. */
  | 'MISSING'
  /** It cannot be read. */
  | 'MALFORMED'
  /** Its bytes are not those that were hashed. */
  | 'LEAF_MISMATCH'
  /** It does not follow the entry before it. */
  | 'CHAIN_MISMATCH'
  /** What it says differs from where it stands. */
  | 'FIELD_MISMATCH'
  /** A step of its effect is missing before it, or stands twice. */
  | 'STEP_GAP'
  /** The head is not the end of the log. */
  | 'HEAD_MISMATCH';

/** Something that does not match, and where. */
export interface ChainFinding {
  readonly seq: bigint;
  readonly finding: FindingKind;
}

/** An effect's step that was seen without the one before it, which lies before the verified range. */
export interface OpenStep {
  readonly seq: bigint;
  readonly effectId: string;
  /** The step that must stand before. */
  readonly missingStep: bigint;
}

const HASH_BYTES = 32;
/** A gap is told by its first positions: who lost a million entries needs no list of them. */
const MAX_MISSING_PER_GAP = 100n;

/**
 * Verifies the log of a domain entry by entry (provenance-audit-replay.md, Audit): positions, leaves, links, what the
 * entries say, and the steps of each effect. Pure: the service feeds it pages of rows, the CLI the lines of an export.
 *
 * Each link is checked against the hash that is stored before it, so that one bad entry is named and the others are
 * still looked at; where all links hold, the last one proves all before it.
 */
export class ChainVerifier {
  private previousChain: Uint8Array | undefined;
  private recomputed: Digest;
  private previousSeq: bigint;
  private previousIncarnation: bigint | undefined;
  private read = 0n;
  private readonly steps = new Map<string, bigint>();
  private open: OpenStep[] = [];

  /**
   * @param start the last position that is not verified again with the chain hash there; position 0 with the genesis hash
   */
  constructor(
    private readonly domainId: string,
    private readonly decode: EntryDecoder,
    private readonly start: { readonly seq: bigint; readonly chainHash: Digest },
  ) {
    this.previousSeq = start.seq;
    this.previousChain = this.recomputed = start.chainHash;
    this.previousIncarnation = start.seq === 0n ? 0n : undefined;
  }

  /** How many entries were fed. */
  get entries(): bigint {
    return this.read;
  }

  /** The last position that was fed, or the start. */
  get lastSeq(): bigint {
    return this.previousSeq;
  }

  /** The chain hash at `lastSeq`, recomputed from the entry there. */
  get lastChainHash(): Digest {
    return this.recomputed;
  }

  /** The next entry. @returns what is wrong with it and with what should stand before it */
  add(row: ChainEntry): ChainFinding[] {
    this.read += 1n;
    // Out of its place: it follows nothing, and what follows is judged without it.
    if (row.seq <= this.previousSeq) return [{ seq: row.seq, finding: 'CHAIN_MISMATCH' }];
    const findings = this.missingBefore(row.seq);
    const previous = findings.length === 0 ? this.previousChain : undefined;
    const sound = row.leafHash.length === HASH_BYTES && row.chainHash.length === HASH_BYTES;
    const leaf = leafHash(row.entry);
    const decoded = this.decode(row.entry);
    const find = (finding: FindingKind): void => {
      findings.push({ seq: row.seq, finding });
    };
    if (!sound || !decoded) find('MALFORMED');
    const leafMatches = sameDigest(leaf, row.leafHash);
    if (sound && !leafMatches) find('LEAF_MISMATCH');
    if (sound && previous && !sameDigest(chainHash(previous, row.leafHash), row.chainHash))
      find('CHAIN_MISMATCH');
    // What a changed entry says is worth nothing.
    if (decoded && leafMatches && !this.fieldsMatch(row, decoded, previous)) find('FIELD_MISMATCH');
    if (!this.stepFollows(row, leafMatches ? decoded : undefined)) find('STEP_GAP');
    // Behind a gap there is nothing to compute it from: the entry's own word is what the next one is held against.
    this.recomputed = previous ? chainHash(previous, leaf) : Buffer.from(row.chainHash);
    this.previousChain = sound ? row.chainHash : undefined;
    this.previousSeq = row.seq;
    this.previousIncarnation = leafMatches ? decoded?.incarnation : undefined;
    return findings;
  }

  /**
   * The end of the log, once every entry up to the head was fed.
   *
   * @param head what the head says; undefined where nothing says it, as in an export
   */
  finish(head: { readonly seq: bigint; readonly chainHash: Uint8Array } | undefined): ChainFinding[] {
    if (!head) return [];
    const findings = this.missingBefore(head.seq + 1n);
    const beyond = this.previousSeq > head.seq;
    const last = this.previousChain;
    const differs = this.previousSeq === head.seq && last !== undefined && !sameDigest(head.chainHash, last);
    if (beyond || differs) findings.push({ seq: head.seq, finding: 'HEAD_MISMATCH' });
    return findings;
  }

  /** Steps whose predecessor lies before the range, since the last call; whoever has the log looks them up. */
  takeOpenSteps(): OpenStep[] {
    const open = this.open;
    this.open = [];
    return open;
  }

  /** The last step of an effect that was fed; undefined where none was. */
  lastStepOf(effectId: string): bigint | undefined {
    return this.steps.get(effectId);
  }

  private missingBefore(seq: bigint): ChainFinding[] {
    const findings: ChainFinding[] = [];
    const end = this.previousSeq + 1n + MAX_MISSING_PER_GAP;
    for (let missing = this.previousSeq + 1n; missing < seq && missing < end; missing += 1n) {
      findings.push({ seq: missing, finding: 'MISSING' });
    }
    return findings;
  }

  private fieldsMatch(row: ChainEntry, decoded: DecodedEntry, previous: Uint8Array | undefined): boolean {
    const { effect } = row;
    const columns =
      effect === undefined ||
      (effect.effectId === (decoded.effect?.effectId ?? null) &&
        effect.step === (decoded.effect?.step ?? null));
    return (
      decoded.domainId === this.domainId &&
      decoded.seq === row.seq &&
      columns &&
      this.incarnationFollows(decoded, previous)
    );
  }

  /** The first entry of an incarnation carries the chain hash before it; no other does; none goes back. */
  private incarnationFollows(decoded: DecodedEntry, previous: Uint8Array | undefined): boolean {
    const before = this.previousIncarnation;
    if (before !== undefined && decoded.incarnation < before) return false;
    const carries = decoded.previousHead.length > 0;
    if (before !== undefined && carries !== decoded.incarnation > before) return false;
    return !carries || previous === undefined || sameDigest(decoded.previousHead, previous);
  }

  /** Each effect's entries carry its own contiguous step number (effects.md, Completeness). */
  private stepFollows(row: ChainEntry, decoded: DecodedEntry | undefined): boolean {
    const effect = stepOf(row, decoded);
    if (!effect) return true;
    const { effectId, step } = effect;
    const before = this.steps.get(effectId);
    this.steps.set(effectId, step);
    if (before !== undefined) return step === before + 1n;
    if (step === 1n || this.start.seq === 0n) return step === 1n;
    this.open.push({ seq: row.seq, effectId, missingStep: step - 1n });
    return true;
  }
}

/** Where the entry is worth nothing its columns still say which step should stand there. */
function stepOf(
  row: ChainEntry,
  decoded: DecodedEntry | undefined,
): { effectId: string; step: bigint } | undefined {
  if (decoded) return decoded.effect;
  const { effectId, step } = row.effect ?? { effectId: null, step: null };
  return effectId === null || step === null ? undefined : { effectId, step };
}
