// ECDSA over P-256 with SHA-256 whose signatures come out the same each time (RFC 6979), so that making the vectors again
// changes nothing. For test keys only: BigInt arithmetic takes a time that depends on the secret.
import { createECDH, createHash, createHmac } from 'node:crypto';

export const ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;
const SCALAR_BYTES = 32;

export const sha256 = (bytes) => createHash('sha256').update(bytes).digest();
const hmac = (key, ...parts) =>
  parts.reduce((mac, part) => mac.update(part), createHmac('sha256', key)).digest();
const toInteger = (bytes) => BigInt(`0x${bytes.toString('hex')}`);
const toBytes = (integer) => Buffer.from(integer.toString(16).padStart(2 * SCALAR_BYTES, '0'), 'hex');

/** k times the base point: 0x04, x, y. */
function multiplyBase(k) {
  const ecdh = createECDH('prime256v1');
  ecdh.setPrivateKey(toBytes(k));
  return ecdh.getPublicKey();
}

/** a to the power of n - 2: its inverse modulo the prime n. */
function invert(a) {
  let result = 1n;
  let base = a % ORDER;
  for (let exponent = ORDER - 2n; exponent > 0n; exponent >>= 1n) {
    if (exponent & 1n) result = (result * base) % ORDER;
    base = (base * base) % ORDER;
  }
  return result;
}

/** A key pair that follows from a name alone. */
export function deriveKey(name) {
  const d = (toInteger(sha256(Buffer.from(`surety test vectors: ${name}`))) % (ORDER - 1n)) + 1n;
  return keyFromScalar(name, d);
}

export function keyFromScalar(name, d) {
  const point = multiplyBase(d);
  const x = point.subarray(1, 1 + SCALAR_BYTES).toString('base64url');
  const y = point.subarray(1 + SCALAR_BYTES).toString('base64url');
  const publicJwk = `{"crv":"P-256","kty":"EC","x":"${x}","y":"${y}"}`;
  return {
    name,
    scalar: d,
    x,
    y,
    publicJwk,
    privateJwk: { kty: 'EC', crv: 'P-256', x, y, d: toBytes(d).toString('base64url') },
    thumbprint: sha256(Buffer.from(publicJwk)).toString('base64url'),
  };
}

/** The nonces k of RFC 6979, section 3.2, one after the other. */
function* nonces(secret, digest) {
  const seed = [toBytes(secret), toBytes(toInteger(digest) % ORDER)];
  let v = Buffer.alloc(SCALAR_BYTES, 1);
  let key = Buffer.alloc(SCALAR_BYTES, 0);
  for (const separator of [0, 1]) {
    key = hmac(key, v, Buffer.of(separator), ...seed);
    v = hmac(key, v);
  }
  for (;;) {
    v = hmac(key, v);
    const k = toInteger(v);
    if (k > 0n && k < ORDER) yield k;
    key = hmac(key, v, Buffer.of(0));
    v = hmac(key, v);
  }
}

/** r and s, 64 bytes. */
export function signDeterministically(data, key) {
  const digest = sha256(data);
  for (const k of nonces(key.scalar, digest)) {
    const r = toInteger(multiplyBase(k).subarray(1, 1 + SCALAR_BYTES)) % ORDER;
    const s = (invert(k) * (toInteger(digest) + r * key.scalar)) % ORDER;
    if (r !== 0n && s !== 0n) return Buffer.concat([toBytes(r), toBytes(s)]);
  }
  throw new Error('unreachable');
}

/** The other signature that verifies: (r, n - s). */
export function swapS(signature) {
  const s = toInteger(signature.subarray(SCALAR_BYTES));
  return Buffer.concat([signature.subarray(0, SCALAR_BYTES), toBytes(ORDER - s)]);
}

/** Replaces r or s by any number below 2^256. */
export function replaceScalar(signature, which, value) {
  const [r, s] = [signature.subarray(0, SCALAR_BYTES), signature.subarray(SCALAR_BYTES)];
  return Buffer.concat(which === 'r' ? [toBytes(value), s] : [r, toBytes(value)]);
}

function derInteger(scalar, surplusZeros) {
  let bytes = scalar;
  while (bytes.length > 1 && bytes[0] === 0) bytes = bytes.subarray(1);
  const zeros = surplusZeros + (bytes[0] >= 0x80 ? 1 : 0);
  return Buffer.concat([Buffer.of(0x02, zeros + bytes.length), Buffer.alloc(zeros), bytes]);
}

/** ASN.1 DER; with `surplusZeros` a BER form of the same numbers that lenient readers take. */
export function toDer(signature, surplusZeros = 0) {
  const body = Buffer.concat([
    derInteger(signature.subarray(0, SCALAR_BYTES), surplusZeros),
    derInteger(signature.subarray(SCALAR_BYTES), 0),
  ]);
  return Buffer.concat([Buffer.of(0x30, body.length), body]);
}
