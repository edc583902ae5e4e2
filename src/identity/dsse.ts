import type { KeyObject } from 'node:crypto';
import { signatureFromDer, verifyEs256 } from './es256.js';
import { THUMBPRINT_PATTERN } from './jwk.js';
import { SignedMessageError, type SignedMessageRule } from './signed-message-error.js';
import type { SignedMessageType } from './signed-messages.js';

/** The fields of `surety.effect.v1.DsseEnvelope`: a DSSE v1 envelope with its one signature. */
export interface DsseEnvelopeFields {
  readonly payloadType: string;
  readonly payload: Uint8Array;
  readonly keyId: string;
  /** ASN.1 DER. */
  readonly signature: Uint8Array;
}

/** An envelope whose form is right, and whose signature has not been looked at. */
export interface ParsedDsse {
  /** Thumbprint of the key that it claims. */
  readonly kid: string;
  readonly payload: Buffer;
  /** The pre-authentication encoding: what is signed. */
  readonly signingInput: Buffer;
  /** r and s, 64 bytes. Never an identity: see `verifyEs256`. */
  readonly signature: Buffer;
}

/**
 * The pre-authentication encoding of DSSE v1: what is signed, so that a signature over a payload of one type is never one
 * over a payload of another.
 *
 * @param payloadType ASCII
 */
export function preAuthenticationEncoding(payloadType: string, payload: Uint8Array): Buffer {
  const length = Buffer.byteLength(payloadType, 'utf8');
  return Buffer.concat([Buffer.from(`DSSEv1 ${length} ${payloadType} ${payload.length} `, 'utf8'), payload]);
}

/**
 * Checks an envelope's form: the payload type of `type`, a key id, one DER signature. Does not verify the signature and does
 * not look into the payload.
 *
 * The key id is not signed in DSSE. It only finds the key; that the key is the registration's is compared later.
 *
 * @throws {SignedMessageError} with rule `encoding` or `header`
 */
export function parseDsse(envelope: DsseEnvelopeFields, type: SignedMessageType): ParsedDsse {
  const refuse = (rule: SignedMessageRule, detail: string) =>
    SignedMessageError.unverified(type.reason, rule, detail);
  const { payloadType, payload, keyId } = envelope;
  if (type.dssePayloadType === undefined || payloadType !== type.dssePayloadType) {
    throw refuse('header', 'another payload type');
  }
  if (!THUMBPRINT_PATTERN.test(keyId)) throw refuse('header', 'the key id is not an RFC 7638 thumbprint');
  if (payload.length === 0 || payload.length > type.maxPayloadBytes) {
    throw refuse('encoding', 'the payload is empty or too long');
  }
  const signature = signatureFromDer(envelope.signature);
  if (signature === undefined) throw refuse('encoding', 'the signature is not DER');
  // Copied: the envelope's bytes may be a view of a receive buffer, and are read again after the signature verified.
  return {
    kid: keyId,
    payload: Buffer.from(payload),
    signature,
    signingInput: preAuthenticationEncoding(payloadType, payload),
  };
}

/** Whether the signature of a parsed envelope is the key's. See `verifyEs256` on malleability. */
export function verifyDsse(parsed: ParsedDsse, key: KeyObject): Promise<boolean> {
  return verifyEs256(parsed.signingInput, key, parsed.signature);
}
