import { createPrivateKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import {
  create,
  type DescMessage,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf';
import { CompactSign } from 'jose';
import type { BoundedGrantStatementSchema } from '../gen/surety/action/v1/bounded_grant_pb.js';
import type { AdminCommandSchema } from '../gen/surety/authority/v1/command_pb.js';
import type { PossessionStatementSchema } from '../gen/surety/identity/v1/workload_pb.js';
import type { ClearanceStatementSchema } from '../gen/surety/provenance/v1/clearance_pb.js';
import type { StatementFields } from '../ledger/effect/statement.js';
import { type DsseEnvelopeFields, preAuthenticationEncoding } from './dsse.js';
import { type PublicKey, publicKeyOf } from './jwk.js';
import { protectedHeader } from './jws.js';
import {
  SIGNED_EVIDENCE,
  SIGNED_MESSAGES,
  type SignedForm,
  type SignedMessageKind,
} from './signed-messages.js';
import { encodeTransitionStatement } from './transition-statement.js';

/** A P-256 key pair for signing. */
export interface SigningKey {
  readonly privateKey: KeyObject;
  readonly publicKey: PublicKey;
}

/** Makes a new key pair. */
export function createSigningKey(): SigningKey {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return { privateKey, publicKey: publicKeyOf(privateKey) };
}

/**
 * Imports a private key from PEM (PKCS #8 or SEC 1).
 *
 * @throws {JwkInvalid} where it is not of P-256, and whatever node:crypto throws where it is no key
 */
export function importSigningKey(pem: string): SigningKey {
  const privateKey = createPrivateKey(pem);
  return { privateKey, publicKey: publicKeyOf(privateKey) };
}

/**
 * Signs bytes as they are as one kind of message. The caller answers for them: use the function of the kind.
 *
 * @returns a compact JWS
 */
export function signBytes(kind: SignedMessageKind, payload: Uint8Array, key: SigningKey): Promise<string> {
  return signAs(SIGNED_MESSAGES[kind], payload, key);
}

/**
 * Signs the exact evidence of an owner's approval or refusal (actions.md, Owner's signature).
 *
 * @param evidence sent beside the token, byte for byte
 */
export function signEvidence(evidence: Uint8Array, key: SigningKey): Promise<string> {
  return signAs(SIGNED_EVIDENCE, evidence, key);
}

function signAs(form: SignedForm, payload: Uint8Array, key: SigningKey): Promise<string> {
  return new CompactSign(payload)
    .setProtectedHeader(protectedHeader(form, key.publicKey.thumbprint))
    .sign(key.privateKey);
}

/**
 * Signs the statement of one transition as a compact JWS (identity.md, Transition proof).
 *
 * @throws {SignedMessageError} FIELD_INVALID where a field breaks a rule of its form
 */
export async function signTransition(statement: StatementFields, key: SigningKey): Promise<string> {
  return signBytes('transition', encodeTransitionStatement(statement), key);
}

/**
 * Signs the statement of one transition as a DSSE envelope: the same payload, for programs without a JOSE library.
 *
 * @throws {SignedMessageError} FIELD_INVALID where a field breaks a rule of its form
 */
export function signDsse(statement: StatementFields, key: SigningKey): DsseEnvelopeFields {
  const payloadType = SIGNED_MESSAGES.transition.dssePayloadType as string;
  const payload = encodeTransitionStatement(statement);
  return {
    payloadType,
    payload,
    keyId: key.publicKey.thumbprint,
    signature: sign('sha256', preAuthenticationEncoding(payloadType, payload), key.privateKey),
  };
}

/**
 * Signs a registration with the key that it names, to prove that its holder has it.
 *
 * @throws {TypeError} where a text holds a lone surrogate
 */
export async function signPossession(
  statement: MessageInitShape<typeof PossessionStatementSchema>,
  key: SigningKey,
): Promise<string> {
  return signBytes('possession', encode(SIGNED_MESSAGES.possession.schema, statement), key);
}

/**
 * Signs the same registration with the key that is current until then, to allow its renewal.
 *
 * @throws {TypeError} where a text holds a lone surrogate
 */
export async function signRenewal(
  statement: MessageInitShape<typeof PossessionStatementSchema>,
  key: SigningKey,
): Promise<string> {
  return signBytes('renewal', encode(SIGNED_MESSAGES.renewal.schema, statement), key);
}

/**
 * Signs an administrative command (authority.md, Signed commands).
 *
 * @throws {TypeError} where a text holds a lone surrogate
 */
export async function signCommand(
  command: MessageInitShape<typeof AdminCommandSchema>,
  key: SigningKey,
): Promise<string> {
  return signBytes('command', encode(SIGNED_MESSAGES.command.schema, command), key);
}

/**
 * Signs a clearance receipt (provenance-audit-replay.md, Provenance).
 *
 * @throws {TypeError} where a text holds a lone surrogate
 */
export async function signClearance(
  statement: MessageInitShape<typeof ClearanceStatementSchema>,
  key: SigningKey,
): Promise<string> {
  return signBytes('clearance', encode(SIGNED_MESSAGES.clearance.schema, statement), key);
}

/**
 * Signs a bounded grant (actions.md, Bounded grant).
 *
 * @throws {TypeError} where a text holds a lone surrogate
 */
export async function signBoundedGrant(
  statement: MessageInitShape<typeof BoundedGrantStatementSchema>,
  key: SigningKey,
): Promise<string> {
  return signBytes('boundedGrant', encode(SIGNED_MESSAGES.boundedGrant.schema, statement), key);
}

function encode<Schema extends DescMessage>(schema: Schema, init: MessageInitShape<Schema>): Uint8Array {
  const message: MessageShape<Schema> = create(schema, init);
  requireWellFormed(message);
  return toBinary(schema, message);
}

/** The serializer would replace a lone surrogate, and another text would be signed than was meant. */
function requireWellFormed(value: unknown): void {
  if (typeof value === 'string') {
    // UTF-8 has no bytes for it, so encoding and decoding changes the text.
    if (Buffer.from(value, 'utf8').toString('utf8') !== value)
      throw new TypeError('text with a lone surrogate');
  } else if (typeof value === 'object' && value !== null && !ArrayBuffer.isView(value)) {
    for (const member of Object.values(value)) requireWellFormed(member);
  }
}
