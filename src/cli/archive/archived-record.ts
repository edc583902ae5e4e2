import { decodeEntryRecord } from './entry-record.js';
import { leafHash } from '../../ledger/audit/chain.js';
import { effectRecordDigest } from '../../ledger/effect/tombstone.js';
import type { EffectRow, TransitionRow } from '../../ledger/effect/records.js';
import { sameDigest, sha256 } from '../../ledger/encoding.js';
import type { Digest } from '../../ledger/types.js';
import { type JsonRow, rowFromJson, rowToJson } from './row-json.js';

/** An entry of the log, as an archived effect brings it. */
export interface RecordedEntry {
  readonly seq: bigint;
  readonly entry: Buffer;
  readonly leafHash: Buffer;
}

/** Everything that is exported of an effect. */
export interface ArchivedRecord {
  readonly effect: EffectRow;
  /** Its receipts, late ones too, in the order of their steps. */
  readonly receipts: readonly TransitionRow[];
  /** Its steps in the log, from the first on. */
  readonly entries: readonly RecordedEntry[];
  /** The public keys that its proofs verify under. */
  readonly proofKeys: readonly { readonly thumbprint: string; readonly publicJwk: string }[];
}

/** As text, one line: integers as decimal text, bytes as base64. */
export function encodeArchivedRecord(record: ArchivedRecord): string {
  const { effect, receipts, entries, proofKeys } = record;
  return JSON.stringify({
    effect: rowToJson('effects', effect),
    receipts: receipts.map((receipt) => rowToJson('transitions', receipt)),
    entries: entries.map(({ seq, entry, leafHash: leaf }) => ({
      seq: seq.toString(),
      entry: entry.toString('base64'),
      leaf_hash: leaf.toString('hex'),
    })),
    proof_keys: proofKeys.map(({ thumbprint, publicJwk }) => ({ thumbprint, public_jwk: publicJwk })),
  });
}

/** Reads it back; undefined where it is none. */
export function parseArchivedRecord(text: string): ArchivedRecord | undefined {
  try {
    const value = JSON.parse(text) as {
      effect: JsonRow;
      receipts: JsonRow[];
      entries: { seq: string; entry: string; leaf_hash: string }[];
      proof_keys: { thumbprint: string; public_jwk: string }[];
    };
    return {
      effect: rowFromJson('effects', value.effect),
      receipts: value.receipts.map((receipt) => rowFromJson('transitions', receipt)),
      entries: value.entries.map(({ seq, entry, leaf_hash: leaf }) => ({
        seq: BigInt(seq),
        entry: Buffer.from(entry, 'base64'),
        leafHash: Buffer.from(leaf, 'hex'),
      })),
      proofKeys: value.proof_keys.map(({ thumbprint, public_jwk: publicJwk }) => ({
        thumbprint,
        publicJwk,
      })),
    };
  } catch {
    return undefined;
  }
}

/**
 * Whether a record holds together by itself: its digest, the receipts' evidence, and that its row and receipts say what its
 * entries of the log say. That those are the log's is for whoever has the log.
 *
 * @param digest what the record's line says
 */
export function isWholeRecord(record: ArchivedRecord, digest: Digest): boolean {
  const { effect, receipts, entries } = record;
  if (!sameDigest(effectRecordDigest(effect, receipts), digest)) return false;
  if (receipts.some(({ evidence, evidenceDigest }) => !sameDigest(sha256(evidence), evidenceDigest)))
    return false;
  const said = entries.map(({ entry, leafHash: leaf }) =>
    sameDigest(leafHash(entry), leaf) ? decodeEntryRecord(entry) : undefined,
  );
  const inOrder = said.every(
    (one, i) => one?.effectId === effect.effectId && one.step === BigInt(i + 1) && one.fence === effect.fence,
  );
  const last = said.at(-1);
  const first = entries[0];
  return (
    inOrder &&
    BigInt(said.length) === effect.step &&
    last?.state === effect.state &&
    entries.at(-1)?.seq === effect.lastSeq &&
    first?.seq === effect.reserveSeq &&
    sameDigest(first.leafHash, effect.reserveLeaf) &&
    receipts.every((receipt) => {
      const step = said[Number(receipt.step) - 1];
      return (
        sameDigest(step?.evidenceDigest, receipt.evidenceDigest) &&
        sameDigest(step?.proofDigest, receipt.statementDigest)
      );
    })
  );
}
