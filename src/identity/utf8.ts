// ignoreBOM keeps a byte order mark: dropping it would make two byte strings one text.
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Decodes UTF-8 strictly: overlong forms, surrogates and cut sequences are refused, nothing is replaced or dropped.
 *
 * @returns undefined where the bytes are not UTF-8
 */
export function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}
