import { decodeBase64url, encodeBase64url } from '../identity/base64url.js';
import { canonicalDigest, type Part } from '../ledger/encoding.js';
import type { Violations } from './validate.js';

/** A token names the last key of a page: at most a few ids of 512 octets. */
const MAX_TOKEN_CHARACTERS = 4096;
const FIELD = 'page_token';

/** What a list asks for besides its page: a token is good only for the same (AIP-158). The first part names the list. */
export type PageFilter = readonly Part[];

/**
 * The token of the page that follows.
 *
 * @param lastKey the key of the last record of this page
 */
export function encodePageToken(filter: PageFilter, lastKey: readonly string[]): string {
  return encodeBase64url(Buffer.from(JSON.stringify([filterName(filter), ...lastKey]), 'utf8'));
}

/**
 * The key behind which a page begins; notes a violation where the token is not one of ours, or of another list or filter.
 * It is no secret and no permission: whoever makes one up reads from another place of what it may read anyway.
 *
 * @param keyParts how many texts the key has
 * @returns undefined for the first page, and where the token is refused
 */
export function readPageToken(
  violations: Violations,
  token: string,
  filter: PageFilter,
  keyParts: number,
): readonly string[] | undefined {
  if (token === '') return undefined;
  const parts = parse(token);
  if (parts?.length === keyParts + 1 && parts[0] === filterName(filter)) return parts.slice(1);
  violations.refuse(FIELD, 'must be the token of a page of this very list');
  return undefined;
}

function filterName(filter: PageFilter): string {
  return canonicalDigest('surety-page-filter-v1', filter).toString('base64url');
}

function parse(token: string): string[] | undefined {
  if (token.length > MAX_TOKEN_CHARACTERS) return undefined;
  const bytes = decodeBase64url(token);
  if (bytes === undefined) return undefined;
  try {
    const parts: unknown = JSON.parse(bytes.toString('utf8'));
    const texts = Array.isArray(parts) && parts.every((part) => typeof part === 'string' && isStorable(part));
    return texts ? (parts as string[]) : undefined;
  } catch {
    return undefined;
  }
}

/** What the database would refuse as text. */
function isStorable(text: string): boolean {
  return !text.includes('\0') && Buffer.from(text, 'utf8').toString('utf8') === text;
}
