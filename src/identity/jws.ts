import type { KeyObject } from 'node:crypto';
import { decodeBase64url } from './base64url.js';
import { verifyEs256 } from './es256.js';
import { FlatJsonInvalid, type FlatJsonValue, parseFlatJson } from './flat-json.js';
import { THUMBPRINT_PATTERN } from './jwk.js';
import { SignedMessageError, type SignedMessageRule } from './signed-message-error.js';
import type { SignedForm } from './signed-messages.js';
import { decodeUtf8 } from './utf8.js';

/** The one algorithm. */
export const ALGORITHM = 'ES256';

// r and s are 64 bytes, 86 characters. Anchored at both ends: `$` without the m flag takes no newline.
const COMPACT_PATTERN = /^[\w-]+\.[\w-]+\.[\w-]{86}$/;
// The four members are below 300 characters; the rest is for escapes and white space.
const MAX_HEADER_CHARACTERS = 1024;
const SIGNATURE_CHARACTERS = 86;
const HEADER_MEMBERS = 4;
/** Headers of one form that are remembered: a signer writes the same one each time, so this is so many signers. */
const MAX_REMEMBERED_HEADERS = 1024;

/** A protected header as it was read. */
interface ReadHeader {
  /** Whether its segment is the base64url that its bytes encode to. */
  readonly isCanonical: boolean;
  /** Undefined where it is not exactly the header of its form. */
  readonly kid: string | undefined;
}

/** Good headers by their segment. Their form alone: the signature is verified over the segment as it came. */
const goodHeaders = new WeakMap<SignedForm, Map<string, ReadHeader>>();

/** A compact JWS whose form and header are right, and whose signature has not been looked at. */
export interface CompactJws {
  /** Thumbprint of the key that it claims. */
  readonly kid: string;
  /** What is signed: header and payload as they came. */
  readonly signingInput: Buffer;
  readonly payload: Buffer;
  /** r and s, 64 bytes. Never an identity: see `verifyEs256`. */
  readonly signature: Buffer;
}

/**
 * Parses a compact JWS (RFC 7515, section 7.1) strictly: three segments of canonical base64url, so that no two strings are
 * one token but for the signature, and a header of exactly alg, typ, cty and kid with the values of `type` (identity.md,
 * Transition proof). Does not verify the signature and does not look into the payload.
 *
 * @throws {SignedMessageError} with rule `encoding` or `header`
 */
export function parseCompactJws(token: string, type: SignedForm): CompactJws {
  const refuse = (rule: SignedMessageRule, detail: string) =>
    SignedMessageError.unverified(type.reason, rule, detail);
  if (token.length > maxTokenCharacters(type)) throw refuse('encoding', 'the token is too long');
  if (!COMPACT_PATTERN.test(token)) throw refuse('encoding', 'not a compact JWS with an ES256 signature');

  const payloadStart = token.indexOf('.') + 1;
  const payloadEnd = token.length - SIGNATURE_CHARACTERS - 1;
  const { isCanonical, kid } = headerOf(token.slice(0, payloadStart - 1), type);
  const payload = decodeBase64url(token.slice(payloadStart, payloadEnd));
  const signature = decodeBase64url(token.slice(payloadEnd + 1));
  if (!isCanonical || payload === undefined || signature === undefined) {
    throw refuse('encoding', 'a segment is not the base64url that its bytes encode to');
  }
  if (payload.length > type.maxPayloadBytes) throw refuse('encoding', 'the payload is too long');
  if (payloadStart > MAX_HEADER_CHARACTERS) throw refuse('header', 'the header is too long');

  if (kid === undefined)
    throw refuse('header', 'the header is not exactly alg, typ, cty and kid with their values');
  return { kid, payload, signature, signingInput: Buffer.from(token.slice(0, payloadEnd), 'latin1') };
}

/** Whether the signature of a parsed JWS is the key's. See `verifyEs256` on malleability. */
export function verifyJws(jws: CompactJws, key: KeyObject): Promise<boolean> {
  return verifyEs256(jws.signingInput, key, jws.signature);
}

/** The protected header of a kind of message, in the order that we write it. */
export function protectedHeader(type: SignedForm, kid: string) {
  return { alg: ALGORITHM, typ: type.typ, cty: type.cty, kid };
}

function headerOf(segment: string, type: SignedForm): ReadHeader {
  let good = goodHeaders.get(type);
  if (good === undefined) goodHeaders.set(type, (good = new Map()));
  const known = good.get(segment);
  if (known !== undefined) return known;
  const bytes = decodeBase64url(segment);
  // One that is too long is refused for it, and read no further.
  const isRead = bytes !== undefined && segment.length < MAX_HEADER_CHARACTERS;
  const header = { isCanonical: bytes !== undefined, kid: isRead ? readHeader(bytes, type) : undefined };
  if (header.kid !== undefined) {
    if (good.size >= MAX_REMEMBERED_HEADERS) good.clear();
    good.set(segment, header);
  }
  return header;
}

function maxTokenCharacters(type: SignedForm): number {
  return MAX_HEADER_CHARACTERS + 1 + Math.ceil((type.maxPayloadBytes * 4) / 3) + 1 + SIGNATURE_CHARACTERS;
}

function readHeader(bytes: Buffer, type: SignedForm): string | undefined {
  const text = decodeUtf8(bytes);
  const members = text === undefined ? undefined : parseMembers(text);
  if (members?.size !== HEADER_MEMBERS) return undefined;
  const kid = members.get('kid');
  const expected =
    members.get('alg') === ALGORITHM && members.get('typ') === type.typ && members.get('cty') === type.cty;
  return expected && typeof kid === 'string' && THUMBPRINT_PATTERN.test(kid) ? kid : undefined;
}

function parseMembers(text: string): Map<string, FlatJsonValue> | undefined {
  try {
    return parseFlatJson(text);
  } catch (error) {
    if (error instanceof FlatJsonInvalid) return undefined;
    throw error;
  }
}
