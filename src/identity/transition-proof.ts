import { create, toBinary } from '@bufbuild/protobuf';
import { DsseEnvelopeSchema } from '../gen/surety/effect/v1/proof_pb.js';
import { sha256 } from '../ledger/encoding.js';
import type { StatementFields } from '../ledger/effect/statement.js';
import type { Digest } from '../ledger/types.js';
import { type DsseEnvelopeFields, parseDsse, verifyDsse } from './dsse.js';
import { parseCompactJws, verifyJws } from './jws.js';
import { SignedMessageError } from './signed-message-error.js';
import { SIGNED_MESSAGES } from './signed-messages.js';
import type { ProofKeys } from './proof-key-cache.js';
import { readTransitionStatement } from './transition-statement.js';
import { decodePayload } from './verify-signed-message.js';

/** A proof as it came in: one of the two encodings. */
export type TransitionProofInput = { readonly jws: string } | { readonly dsse: DsseEnvelopeFields };

/** A transition proof whose signature verified and whose statement is well-formed. */
export interface VerifiedProof {
  readonly statement: StatementFields;
  /** The key under which it verified; in the transaction it must be the registration's current one. */
  readonly keyThumbprint: string;
  /** The exact bytes that were signed. */
  readonly statementBytes: Buffer;
  /** SHA-256 of `statementBytes`. The same for both encodings, and for every signature over them. */
  readonly statementDigest: Digest;
  /** What is stored, so that it verifies years later: the token's characters, or the serialized DsseEnvelope. */
  readonly proofBytes: Buffer;
  readonly encoding: 'jws' | 'dsse';
}

interface SignedStatement {
  readonly kid: string;
  readonly payload: Buffer;
}

/**
 * Verifies a transition proof (identity.md, Transition proof): form, key, signature, and only then the statement, strictly
 * decoded and checked field by field. What the fields claim is compared in the transaction (effects.md, Transitions 3).
 *
 * @param domainId the trust domain of the caller's SPIFFE ID, where its key is looked for
 * @throws {SignedMessageError} PROOF_SIGNATURE_INVALID, or FIELD_INVALID with paths that begin with `proof`
 */
export async function verifyTransitionProof(
  input: TransitionProofInput,
  domainId: string,
  keys: ProofKeys,
): Promise<VerifiedProof> {
  const type = SIGNED_MESSAGES.transition;
  const { kid, payload } =
    'jws' in input
      ? await verifyToken(input.jws, domainId, keys)
      : await verifyEnvelope(input.dsse, domainId, keys);
  return {
    statement: readTransitionStatement(decodePayload(type.schema, payload, type)),
    keyThumbprint: kid,
    statementBytes: payload,
    statementDigest: sha256(payload),
    proofBytes: 'jws' in input ? Buffer.from(input.jws, 'latin1') : encodeEnvelope(input.dsse, payload),
    encoding: 'jws' in input ? 'jws' : 'dsse',
  };
}

async function verifyToken(token: string, domainId: string, keys: ProofKeys): Promise<SignedStatement> {
  const jws = parseCompactJws(token, SIGNED_MESSAGES.transition);
  const key = await keys.find(domainId, jws.kid);
  if (key === undefined) throw refuse('key', 'no such key in the domain');
  if (!(await verifyJws(jws, key))) throw refuse('signature', 'the signature does not verify');
  return jws;
}

async function verifyEnvelope(
  envelope: DsseEnvelopeFields,
  domainId: string,
  keys: ProofKeys,
): Promise<SignedStatement> {
  const parsed = parseDsse(envelope, SIGNED_MESSAGES.transition);
  const key = await keys.find(domainId, parsed.kid);
  if (key === undefined) throw refuse('key', 'no such key in the domain');
  if (!(await verifyDsse(parsed, key))) throw refuse('signature', 'the signature does not verify');
  return parsed;
}

function encodeEnvelope(envelope: DsseEnvelopeFields, payload: Buffer): Buffer {
  const message = create(DsseEnvelopeSchema, {
    payloadType: envelope.payloadType,
    payload: Uint8Array.from(payload),
    keyId: envelope.keyId,
    signature: Uint8Array.from(envelope.signature),
  });
  return Buffer.from(toBinary(DsseEnvelopeSchema, message));
}

function refuse(rule: 'key' | 'signature', detail: string): SignedMessageError {
  return SignedMessageError.unverified(SIGNED_MESSAGES.transition.reason, rule, detail);
}
