/**
 * Decodes base64url without padding (RFC 7515, section 2), and only its one canonical spelling: Node skips characters
 * outside of the alphabet, takes padding and ignores trailing bits, so that many strings would mean the same bytes.
 *
 * @returns undefined where the text is not the spelling of any bytes
 */
export function decodeBase64url(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64url');
  return bytes.toString('base64url') === text ? bytes : undefined;
}

/** Encodes base64url without padding. */
export function encodeBase64url(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64url');
}
