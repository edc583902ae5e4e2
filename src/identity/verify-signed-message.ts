import type { KeyObject } from 'node:crypto';
import type { DescMessage, MessageShape } from '@bufbuild/protobuf';
import { sha256 } from '../ledger/encoding.js';
import type { Digest } from '../ledger/types.js';
import { JwkInvalid, type PublicKey, parsePublicJwk } from './jwk.js';
import { type CompactJws, parseCompactJws, verifyJws } from './jws.js';
import { SignedMessageError } from './signed-message-error.js';
import {
  type SchemaOf,
  SIGNED_EVIDENCE,
  SIGNED_MESSAGES,
  type SignedForm,
  type SignedMessageKind,
  type SignedMessageType,
} from './signed-messages.js';
import { decodeStrictly, StrictProtobufError } from './strict-protobuf.js';

/** Finds the public key that a thumbprint names, or undefined. */
export type ResolveKey = (thumbprint: string) => Promise<KeyObject | undefined>;

/** A message whose signature verified under a key, and whose payload is canonical. */
export interface VerifiedMessage<K extends SignedMessageKind> {
  /** Decoded from `payload`; the fields have not been checked for what they mean. */
  readonly message: MessageShape<SchemaOf<K>>;
  /** The key under which it verified. */
  readonly keyThumbprint: string;
  /** The exact bytes that were signed. */
  readonly payload: Buffer;
  /** SHA-256 of `payload`: what identifies the message. The token does not; see `verifyEs256`. */
  readonly payloadDigest: Digest;
  /** The token, as it is kept. */
  readonly token: Buffer;
}

/** A possession proof that verified, with the key whose possession it proves. */
export interface VerifiedPossession extends VerifiedMessage<'possession'> {
  readonly proofKey: PublicKey;
}

/**
 * Verifies a compact JWS of one kind: form, header, signature, and only then the payload.
 *
 * @param resolveKey finds the key by the header's `kid`. It decides nothing: the caller compares `keyThumbprint` with
 *   the key that the signer is registered with
 * @throws {SignedMessageError}
 */
export async function verifySignedMessage<K extends SignedMessageKind>(
  kind: K,
  token: string,
  resolveKey: ResolveKey,
): Promise<VerifiedMessage<K>> {
  const type: SignedMessageType = SIGNED_MESSAGES[kind];
  const jws = parseCompactJws(token, type);
  await requireSignature(jws, await resolveKey(jws.kid), type);
  const message = decodePayload(SIGNED_MESSAGES[kind].schema as SchemaOf<K>, jws.payload, type);
  return verified(message, jws, token);
}

/**
 * Verifies a proof of possession (identity.md, Workload registration): its key stands in its own payload, which is
 * therefore decoded first, and trusted only once the signature verified under the key that it names.
 *
 * @throws {SignedMessageError}
 */
export async function verifyPossession(token: string): Promise<VerifiedPossession> {
  const type = SIGNED_MESSAGES.possession;
  const jws = parseCompactJws(token, type);
  const message = decodePayload(type.schema, jws.payload, type);
  const proofKey = readProofKey(message.registration?.proofKeyJwk ?? '');
  if (proofKey.thumbprint !== jws.kid) {
    throw SignedMessageError.unverified(
      type.reason,
      'key',
      'kid is not the thumbprint of the key in the payload',
    );
  }
  await requireSignature(jws, proofKey.key, type);
  return { ...verified<'possession'>(message, jws, token), proofKey };
}

/**
 * Verifies the authorization of a renewal: the very payload of the new key's possession proof, signed by the
 * registration's current key (workload_service.proto, RenewWorkloadRequest).
 *
 * @throws {SignedMessageError}
 */
export async function verifyRenewal(
  token: string,
  possession: VerifiedPossession,
  resolveKey: ResolveKey,
): Promise<VerifiedMessage<'renewal'>> {
  const renewal = await verifySignedMessage('renewal', token, resolveKey);
  if (!renewal.payload.equals(possession.payload)) {
    const { reason } = SIGNED_MESSAGES.renewal;
    throw SignedMessageError.unverified(reason, 'payload', 'not the payload that the new key signed');
  }
  return renewal;
}

/**
 * Verifies an operator's command (authority.md, Signed commands).
 *
 * @throws {SignedMessageError}
 */
export function verifyCommand(token: string, resolveKey: ResolveKey): Promise<VerifiedMessage<'command'>> {
  return verifySignedMessage('command', token, resolveKey);
}

/**
 * Verifies an approver's clearance receipt (provenance-audit-replay.md, Provenance).
 *
 * @throws {SignedMessageError}
 */
export function verifyClearance(
  token: string,
  resolveKey: ResolveKey,
): Promise<VerifiedMessage<'clearance'>> {
  return verifySignedMessage('clearance', token, resolveKey);
}

/**
 * Verifies an owner's bounded grant (actions.md, Bounded grant).
 *
 * @throws {SignedMessageError}
 */
export function verifyBoundedGrant(
  token: string,
  resolveKey: ResolveKey,
): Promise<VerifiedMessage<'boundedGrant'>> {
  return verifySignedMessage('boundedGrant', token, resolveKey);
}

/** An owner's signature over evidence, which verified. */
export interface VerifiedEvidence {
  readonly keyThumbprint: string;
  /** The token, as it is kept. */
  readonly token: Buffer;
}

/**
 * Verifies an owner's signature over the exact evidence that stands beside it (actions.md, Owner's signature). The payload
 * is compared only once the signature verified; what the evidence says is judged by whoever reads it.
 *
 * @throws {SignedMessageError} APPROVAL_SIGNATURE_INVALID; with rule `payload` where it is over something else
 */
export async function verifyEvidenceSignature(
  token: string,
  evidence: Uint8Array,
  resolveKey: ResolveKey,
): Promise<VerifiedEvidence> {
  const jws = parseCompactJws(token, SIGNED_EVIDENCE);
  await requireSignature(jws, await resolveKey(jws.kid), SIGNED_EVIDENCE);
  if (!jws.payload.equals(evidence)) {
    throw SignedMessageError.unverified(
      SIGNED_EVIDENCE.reason,
      'payload',
      'not the evidence that came with it',
    );
  }
  return { keyThumbprint: jws.kid, token: Buffer.from(token, 'latin1') };
}

/**
 * Decodes a payload strictly.
 *
 * @throws {SignedMessageError} FIELD_INVALID, the path beginning with the request's field
 */
export function decodePayload<Schema extends DescMessage>(
  schema: Schema,
  payload: Uint8Array,
  type: SignedMessageType,
): MessageShape<Schema> {
  try {
    return decodeStrictly(schema, payload);
  } catch (error) {
    if (!(error instanceof StrictProtobufError)) throw error;
    const field = error.field === '' ? type.field : `${type.field}.${error.field}`;
    throw SignedMessageError.invalid([{ field, rule: error.rule }]);
  }
}

async function requireSignature(
  jws: CompactJws,
  key: KeyObject | undefined,
  type: SignedForm,
): Promise<void> {
  if (key === undefined) throw SignedMessageError.unverified(type.reason, 'key', 'no such key');
  if (!(await verifyJws(jws, key))) {
    throw SignedMessageError.unverified(type.reason, 'signature', 'the signature does not verify');
  }
}

function verified<K extends SignedMessageKind>(
  message: MessageShape<SchemaOf<K>>,
  jws: CompactJws,
  token: string,
): VerifiedMessage<K> {
  return {
    message,
    keyThumbprint: jws.kid,
    payload: jws.payload,
    payloadDigest: sha256(jws.payload),
    token: Buffer.from(token, 'latin1'),
  };
}

function readProofKey(jwk: string): PublicKey {
  try {
    return parsePublicJwk(jwk);
  } catch (error) {
    if (!(error instanceof JwkInvalid)) throw error;
    const field = `${SIGNED_MESSAGES.possession.field}.registration.proof_key_jwk`;
    throw SignedMessageError.invalid([{ field, rule: error.rule }]);
  }
}
