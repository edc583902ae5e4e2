import { fromBinary } from '@bufbuild/protobuf';
import { DsseEnvelopeSchema } from '../../gen/surety/effect/v1/proof_pb.js';
import { decodeBase64url } from '../../identity/base64url.js';
import { effectIdentity } from '../../ledger/effect/effect-identity.js';
import { decodeEntryRecord, type EntryRecord } from './entry-record.js';
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
 * Whether a record holds together by itself: its digest, the receipts' evidence and proofs, and that its row and receipts say
 * what its entries of the log say, none of them missing. That those are the log's is for whoever has the log; of a row's
 * columns that no entry names only the file's own digest speaks.
 *
 * @param digest what the record's line says
 * @param domainId whose effect it is
 */
export function isWholeRecord(record: ArchivedRecord, digest: Digest, domainId: string): boolean {
  const { effect, receipts, entries } = record;
  if (!sameDigest(effectRecordDigest(effect, receipts), digest)) return false;
  const said: EntryRecord[] = [];
  for (const { entry, leafHash: leaf } of entries) {
    const one = sameDigest(leafHash(entry), leaf) ? decodeEntryRecord(entry) : undefined;
    if (one === undefined) return false;
    said.push(one);
  }
  return isWholeRow(record, said, domainId) && areWholeReceipts(effect, receipts, said);
}

function isWholeRow(
  { effect, entries }: ArchivedRecord,
  said: readonly EntryRecord[],
  domainId: string,
): boolean {
  const [first, last] = [said[0], said.at(-1)];
  const inOrder = said.every(
    (one, i) =>
      one.domainId === domainId &&
      one.seq === entries[i]?.seq &&
      one.effectId === effect.effectId &&
      one.step === BigInt(i + 1) &&
      one.fence === effect.fence &&
      one.sink === effect.sink &&
      sameDigest(one.identityDigest, effect.identityDigest),
  );
  return (
    inOrder &&
    first !== undefined &&
    last !== undefined &&
    sameDigest(effectIdentity({ ...effect, domainId }), effect.identityDigest) &&
    first.eventId === effect.eventId &&
    first.grantId === effect.grantId &&
    first.decisionId === effect.decisionId &&
    sameDigest(entries[0]?.leafHash, effect.reserveLeaf) &&
    entries[0]?.seq === effect.reserveSeq &&
    BigInt(said.length) === effect.step &&
    last.state === effect.state &&
    last.source === effect.stateSource &&
    last.attemptId === (effect.attemptId ?? '') &&
    entries.at(-1)?.seq === effect.lastSeq
  );
}

/** Each step that a workload proved has its one receipt, with that evidence and that proof; and there are no others. */
function areWholeReceipts(
  effect: EffectRow,
  receipts: readonly TransitionRow[],
  said: readonly EntryRecord[],
): boolean {
  const proved = said.filter(({ proofDigest }) => proofDigest.length > 0);
  const ofStep = new Map(receipts.map((receipt) => [receipt.step, receipt]));
  return (
    ofStep.size === receipts.length &&
    receipts.length === proved.length &&
    proved.every((step) => {
      const receipt = ofStep.get(step.step);
      return (
        receipt !== undefined &&
        receipt.effectId === effect.effectId &&
        receipt.registrationId === step.registrationId &&
        (receipt.late || receipt.toState === step.state) &&
        sameDigest(step.evidenceDigest, receipt.evidenceDigest) &&
        sameDigest(sha256(receipt.evidence), receipt.evidenceDigest) &&
        sameDigest(step.proofDigest, receipt.statementDigest) &&
        sameDigest(provedDigest(receipt), receipt.statementDigest)
      );
    })
  );
}

/** SHA-256 of the statement in a proof's bytes; undefined where they are no proof. */
function provedDigest({ proof, proofEncoding }: TransitionRow): Digest | undefined {
  if (proofEncoding === 'jws') {
    const payload = decodeBase64url(proof.toString('latin1').split('.')[1] ?? '');
    return payload && sha256(payload);
  }
  try {
    return sha256(fromBinary(DsseEnvelopeSchema, proof).payload);
  } catch {
    return undefined;
  }
}
