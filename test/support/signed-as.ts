import { sign } from 'node:crypto';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { DsseEnvelopeSchema, type TransitionProofSchema } from '../../src/gen/surety/effect/v1/proof_pb.js';
import { preAuthenticationEncoding } from '../../src/identity/dsse.js';
import { protectedHeader } from '../../src/identity/jws.js';
import type { SigningKey } from '../../src/identity/sign.js';
import { SIGNED_MESSAGES } from '../../src/identity/signed-messages.js';

export type ProofInit = MessageInitShape<typeof TransitionProofSchema>;

/** The order of P-256. */
const ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;
const SCALAR_BYTES = 32;
const { transition } = SIGNED_MESSAGES;

/** Signs bytes as a transition's proof. */
export function signedAs(encoding: 'jws' | 'dsse', payload: Uint8Array, key: SigningKey): ProofInit {
  return encoding === 'jws'
    ? jwsProof(token(payload, key))
    : { encoding: { case: 'dsse', value: envelope(payload, key) } };
}

/** A token as a proof. */
export function jwsProof(value: string): ProofInit {
  return { encoding: { case: 'jws', value } };
}

/** An envelope of the bytes; `fields` are put in place after it was signed. */
export function envelope(
  payload: Uint8Array,
  key: SigningKey,
  fields: Partial<Omit<MessageInitShape<typeof DsseEnvelopeSchema>, '$typeName' | '$unknown'>> = {},
  payloadType: string = transition.dssePayloadType ?? '',
) {
  const signature = sign('sha256', preAuthenticationEncoding(payloadType, payload), key.privateKey);
  return create(DsseEnvelopeSchema, {
    payloadType,
    payload: Uint8Array.from(payload),
    keyId: key.publicKey.thumbprint,
    signature: Uint8Array.from(signature),
    ...fields,
  });
}

/** A token of the bytes whose header has other members than it must, or whose signature is in DER. */
export function token(
  payload: Uint8Array,
  key: SigningKey,
  options: { header?: Readonly<Record<string, unknown>>; der?: boolean } = {},
): string {
  const header = { ...protectedHeader(transition, key.publicKey.thumbprint), ...options.header };
  const input = `${base64url(JSON.stringify(header))}.${base64url(payload)}`;
  const dsaEncoding = options.der === true ? 'der' : 'ieee-p1363';
  return `${input}.${base64url(sign('sha256', Buffer.from(input), { key: key.privateKey, dsaEncoding }))}`;
}

/** The same token with (r, n − s): another string that verifies as well. */
export function swapped(jws: string): string {
  const dot = jws.lastIndexOf('.');
  const signature = Buffer.from(jws.slice(dot + 1), 'base64url');
  const s = BigInt(`0x${signature.subarray(SCALAR_BYTES).toString('hex')}`);
  const other = Buffer.from((ORDER - s).toString(16).padStart(2 * SCALAR_BYTES, '0'), 'hex');
  return `${jws.slice(0, dot + 1)}${base64url(Buffer.concat([signature.subarray(0, SCALAR_BYTES), other]))}`;
}

function base64url(content: string | Uint8Array): string {
  return Buffer.from(content).toString('base64url');
}
