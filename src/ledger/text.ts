/** What is wrong with a text. */
export type TextFault = 'too short' | 'too long' | 'lone surrogate' | 'control character' | 'line separator';

// Without these, an id can be shown as another one in a terminal or a log, or ends a line of it. C0, DEL and C1.
// oxlint-disable-next-line no-control-regex -- they are what is looked for
const CONTROL_CHARACTER = /[\u0000-\u001f\u007f-\u009f]/;
const LINE_SEPARATOR = /[\u2028\u2029]/;
// With the u flag a surrogate matches only where it is not half of a pair.
// oxlint-disable-next-line no-control-regex -- they are what is looked for
const UNCLEAN = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\ud800-\udfff]/u;
const EACH_UNCLEAN = new RegExp(UNCLEAN, 'gu');

/**
 * Length of a text in octets of UTF-8, which is what every length limit of the contract counts (effects.md,
 * Transitions by workloads). A lone surrogate counts as the three octets of its replacement.
 */
export function utf8Length(value: string): number {
  return Buffer.byteLength(value, 'utf8');
}

/**
 * Whether a text holds no control character (C0, DEL, C1), no lone surrogate and no line separator (U+2028, U+2029):
 * effects.md, Transitions by workloads. Texts are compared code unit by code unit, never normalized: NFC and NFD stay
 * distinct.
 */
export function isCleanText(value: string): boolean {
  return !UNCLEAN.test(value);
}

/** The text with a space for each character that {@link isCleanText} refuses: the words survive, and it is not longer. */
export function cleanedText(value: string): string {
  return value.replace(EACH_UNCLEAN, ' ');
}

/**
 * Checks an id, or any other one-line text, against its limits.
 *
 * @param value the text
 * @param min the least length, in octets of UTF-8
 * @param max the greatest length, in octets of UTF-8
 * @returns what is wrong, or undefined
 */
export function checkIdText(value: string, min: number, max: number): TextFault | undefined {
  const length = utf8Length(value);
  if (length < min) return 'too short';
  if (length > max) return 'too long';
  if (isCleanText(value)) return undefined;
  if (CONTROL_CHARACTER.test(value)) return 'control character';
  return LINE_SEPARATOR.test(value) ? 'line separator' : 'lone surrogate';
}

/** The sentence for a field violation. Takes the limits that `checkIdText` was given. */
export function describeTextFault(fault: TextFault, min: number, max: number): string {
  switch (fault) {
    case 'too short':
    case 'too long':
      return min === 0
        ? `must be at most ${max} octets of UTF-8`
        : `must be ${min} to ${max} octets of UTF-8`;
    case 'lone surrogate':
      return 'must be well-formed Unicode';
    case 'control character':
      return 'must not hold control characters';
    case 'line separator':
      return 'must not hold line separators';
  }
}
