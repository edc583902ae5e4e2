/** What is wrong with a number of JSON: parsers keep another one each. */
export type NumberFault =
  | 'must not hold numbers beyond 2^53 - 1'
  | 'must not hold numbers of more than 17 significant digits, or fractions that a double rounds to an integer';

/** A double is told from its neighbours by so many decimal digits; a literal with more of them is not what a double reads. */
const MAX_SIGNIFICANT_DIGITS = 17;

/**
 * Judges what a literal says, however it is written (RFC 7493, section 2.2): a parser with doubles, one with integers and one
 * with decimals must keep the same number, as far as a double can. So there is none beyond 2^53 - 1, where every double is an
 * integer and integers are lost; none with more digits than a double is told by; and no fraction, however small, that reads as
 * an integer, 0 among them.
 *
 * @param literal a number in JSON's grammar
 */
export function numberFault(literal: string): NumberFault | undefined {
  const value = Number(literal);
  if (Math.abs(value) > Number.MAX_SAFE_INTEGER) return 'must not hold numbers beyond 2^53 - 1';
  const { digits, exponent } = decimal(literal);
  if (digits <= MAX_SIGNIFICANT_DIGITS && !(exponent < 0 && Number.isInteger(value))) return undefined;
  return 'must not hold numbers of more than 17 significant digits, or fractions that a double rounds to an integer';
}

/** How many digits the number has from the first to the last that is not 0, and the power of ten of that last one. */
function decimal(literal: string): { readonly digits: number; readonly exponent: number } {
  const [mantissa = '', power = '0'] = literal.replace(/^-/, '').split(/e/i);
  const [whole = '', fraction = ''] = mantissa.split('.');
  const all = whole + fraction;
  const first = all.search(/[1-9]/);
  if (first < 0) return { digits: 0, exponent: 0 };
  // By hand: an expression for zeros at the end takes the square of their number.
  let last = all.length - 1;
  while (all[last] === '0') last -= 1;
  return { digits: last - first + 1, exponent: Number(power) - fraction.length + (all.length - 1 - last) };
}
