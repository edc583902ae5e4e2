import { type KeyObject, verify } from 'node:crypto';

/** Bytes of r, and of s. */
const SCALAR_BYTES = 32;
const DER_SEQUENCE = 0x30;
const DER_INTEGER = 0x02;

/** Length of an ES256 signature as JWS has it: r and s, 32 bytes each (RFC 7518, section 3.4). */
export const SIGNATURE_BYTES = 2 * SCALAR_BYTES;

/**
 * Verifies ECDSA over P-256 with SHA-256.
 *
 * ECDSA is malleable: with (r, s) also (r, n - s) verifies. Both are accepted, so a signature, or a text that holds one,
 * is never an identity, a key of a table or a marker against replay (identity.md, Transition proof).
 *
 * The callback form runs on the thread pool, off the event loop (bench.md: 22,800 a second on two cores).
 *
 * @param signature r and s, 64 bytes
 */
export function verifyEs256(data: Uint8Array, key: KeyObject, signature: Uint8Array): Promise<boolean> {
  return new Promise((resolve, reject) => {
    verify('sha256', data, { key, dsaEncoding: 'ieee-p1363' }, signature, (error, valid) => {
      if (error) reject(error);
      else resolve(valid);
    });
  });
}

/**
 * Turns an ASN.1 DER signature (RFC 3279, section 2.2.3) into r and s, 32 bytes each. Only DER itself is taken: each
 * length and integer in its one shortest form, nothing behind it. OpenSSL takes more.
 *
 * @returns undefined where it is not the DER of two such numbers
 */
export function signatureFromDer(der: Uint8Array): Buffer | undefined {
  const rLength = der[3] ?? 0;
  const sLength = der[5 + rLength] ?? 0;
  const r = der.subarray(4, 4 + rLength);
  const s = der.subarray(6 + rLength, 6 + rLength + sLength);
  const signature = Buffer.alloc(SIGNATURE_BYTES);
  if (!placeInteger(r, signature, 0) || !placeInteger(s, signature, SCALAR_BYTES)) return undefined;
  // Read with good faith, then held against the only bytes that these two numbers have.
  return derFromSignature(signature).equals(der) ? signature : undefined;
}

/** Turns r and s, 32 bytes each, into an ASN.1 DER signature. */
export function derFromSignature(signature: Uint8Array): Buffer {
  const body = Buffer.concat([
    derInteger(signature.subarray(0, SCALAR_BYTES)),
    derInteger(signature.subarray(SCALAR_BYTES)),
  ]);
  return Buffer.concat([Buffer.from([DER_SEQUENCE, body.length]), body]);
}

function placeInteger(integer: Uint8Array, target: Buffer, offset: number): boolean {
  // 33: a zero before a number whose highest bit is set.
  const magnitude = integer.length === SCALAR_BYTES + 1 ? integer.subarray(1) : integer;
  if (magnitude.length > SCALAR_BYTES) return false;
  target.set(magnitude, offset + SCALAR_BYTES - magnitude.length);
  return true;
}

function derInteger(scalar: Uint8Array): Buffer {
  let start = 0;
  while (start < scalar.length - 1 && scalar[start] === 0) start += 1;
  const magnitude = scalar.subarray(start);
  const padding = (magnitude[0] ?? 0) >= 0x80 ? [0] : [];
  return Buffer.concat([
    Buffer.from([DER_INTEGER, padding.length + magnitude.length, ...padding]),
    magnitude,
  ]);
}
