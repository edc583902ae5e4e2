import { createHash, createPublicKey, type JsonWebKey, type KeyObject } from 'node:crypto';
import { decodeBase64url } from './base64url.js';
import { FlatJsonInvalid, type FlatJsonValue, parseFlatJson } from './flat-json.js';

/** Length of an RFC 7638 thumbprint: SHA-256 in base64url. */
export const THUMBPRINT_PATTERN = /^[\w-]{43}$/;

// A public P-256 JWK with every allowed member is below 400 characters.
const MAX_JWK_CHARACTERS = 1024;
const COORDINATE_BYTES = 32;
const ALLOWED_MEMBERS = new Set(['kty', 'crv', 'x', 'y', 'kid', 'use', 'alg', 'key_ops']);

/** A public key for ES256. */
export interface PublicKey {
  readonly key: KeyObject;
  /** RFC 7638 thumbprint (SHA-256, base64url). */
  readonly thumbprint: string;
  /** The key's canonical JWK: crv, kty, x and y only, in this order, as the thumbprint hashes it. */
  readonly jwk: string;
}

/** A JWK that is not accepted; `rule` is a sentence that quotes nothing of it. */
export class JwkInvalid extends Error {
  override readonly name = 'JwkInvalid';
  constructor(readonly rule: string) {
    super(`JWK refused: ${rule}`);
  }
}

/**
 * Parses a public P-256 JWK (RFC 7517, RFC 7518 section 6.2) strictly: kty EC, crv P-256, both coordinates 32 bytes in
 * canonical base64url, a point of the curve; `use`, `alg` and `key_ops` only where they allow verifying ES256; no private
 * part; no member that is not known, none twice.
 *
 * @throws {JwkInvalid}
 */
export function parsePublicJwk(text: string): PublicKey {
  if (text.length > MAX_JWK_CHARACTERS)
    throw new JwkInvalid(`must be at most ${MAX_JWK_CHARACTERS} characters`);
  const members = parseMembers(text);
  for (const name of members.keys()) {
    if (name === 'd') throw new JwkInvalid('must not hold a private key');
    if (!ALLOWED_MEMBERS.has(name))
      throw new JwkInvalid('must not hold members but those of a public EC key');
  }
  requireValue(members, 'kty', 'EC');
  requireValue(members, 'crv', 'P-256');
  if (members.has('use')) requireValue(members, 'use', 'sig');
  if (members.has('alg')) requireValue(members, 'alg', 'ES256');
  if (members.has('kid') && typeof members.get('kid') !== 'string')
    throw new JwkInvalid('kid must be a string');
  requireVerifying(members.get('key_ops'));
  return importPoint(coordinate(members, 'x'), coordinate(members, 'y'));
}

/**
 * The public key of a P-256 key pair.
 *
 * @param key a private or public key
 * @throws {JwkInvalid} where the key is of another kind
 */
export function publicKeyOf(key: KeyObject): PublicKey {
  const { kty, crv, x, y } = key.export({ format: 'jwk' });
  if (kty !== 'EC' || crv !== 'P-256' || x === undefined || y === undefined) {
    throw new JwkInvalid('must be a P-256 key');
  }
  return importPoint(x, y);
}

// The members of each kind that its thumbprint is over, in their order (RFC 7638, section 3.2; RFC 8037, section 2).
const THUMBPRINT_MEMBERS: Readonly<Record<string, readonly string[]>> = {
  EC: ['crv', 'kty', 'x', 'y'],
  OKP: ['crv', 'kty', 'x'],
  RSA: ['e', 'kty', 'n'],
};

/**
 * RFC 7638 thumbprint of a public key of any kind that a certificate may have.
 *
 * @throws {JwkInvalid} where the key is of another kind
 */
export function keyThumbprint(key: KeyObject): string {
  const jwk = key.export({ format: 'jwk' }) as Readonly<Record<string, unknown>>;
  const members = THUMBPRINT_MEMBERS[String(jwk['kty'])];
  if (!members) throw new JwkInvalid('must be an EC, OKP or RSA key');
  const canonical = JSON.stringify(Object.fromEntries(members.map((name) => [name, jwk[name]])));
  return createHash('sha256').update(canonical).digest('base64url');
}

function parseMembers(text: string): Map<string, FlatJsonValue> {
  try {
    return parseFlatJson(text);
  } catch (error) {
    if (error instanceof FlatJsonInvalid)
      throw new JwkInvalid('must be a JSON object of strings, no name twice');
    throw error;
  }
}

function requireValue(members: Map<string, FlatJsonValue>, name: string, value: string): void {
  if (members.get(name) !== value) throw new JwkInvalid(`${name} must be ${value}`);
}

function requireVerifying(operations: FlatJsonValue | undefined): void {
  if (operations === undefined) return;
  if (typeof operations === 'string' || operations.length !== 1 || operations[0] !== 'verify') {
    throw new JwkInvalid('key_ops must be verify alone');
  }
}

function coordinate(members: Map<string, FlatJsonValue>, name: 'x' | 'y'): string {
  const value = members.get(name);
  if (typeof value !== 'string' || decodeBase64url(value)?.length !== COORDINATE_BYTES) {
    throw new JwkInvalid(`${name} must be ${COORDINATE_BYTES} bytes in base64url without padding`);
  }
  return value;
}

function importPoint(x: string, y: string): PublicKey {
  const key = createKey({ kty: 'EC', crv: 'P-256', x, y });
  // Hashed from what was imported, not from what was given: the thumbprint names the key that will verify.
  const exported = key.export({ format: 'jwk' });
  if (exported.x !== x || exported.y !== y) throw new JwkInvalid('must equal its own re-encoding');
  const jwk = `{"crv":"P-256","kty":"EC","x":"${x}","y":"${y}"}`;
  return { key, jwk, thumbprint: createHash('sha256').update(jwk).digest('base64url') };
}

function createKey(jwk: JsonWebKey): KeyObject {
  try {
    return createPublicKey({ key: jwk, format: 'jwk' });
  } catch {
    // OpenSSL checks the point; its text stays here.
    throw new JwkInvalid('x and y must be a point of P-256');
  }
}
