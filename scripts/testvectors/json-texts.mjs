// JSON that every parser reads alike, and JSON that it does not: what may be a payload's member, or evidence.

const LARGE = 'must not hold numbers beyond 2^53 - 1';
const INEXACT =
  'must not hold numbers of more than 17 significant digits, or fractions that a double rounds to an integer';
const TWICE = 'must not hold a name twice in an object';
const UNCLEAN = 'must not hold lone surrogates or noncharacters';

const ACCEPTED = [
  ['safe-integer', '9007199254740991', '2^53 - 1, the largest integer.'],
  ['safe-integer-negative', '-9007199254740991', 'And the least.'],
  ['safe-integer-fraction', '9007199254740991.000', 'The same with a fraction of nothing.'],
  ['safe-integer-exponent', '90071992547409910e-1', 'The same with an exponent.'],
  ['integer-exponent', '1.5e3', 'An integer with an exponent.'],
  ['seventeen-digits', '0.30000000000000004', 'As many digits as any double needs.'],
  ['zeros', '0.10000000000000000000000000', 'Zeros at the end are no digits that count.'],
  ['zeros-before', '0.00000000000000000000000001', 'Neither are those at the beginning.'],
  ['least', '5e-324', 'The least number that is not 0.'],
  ['zero', '0.000e99', 'Zero, however it is written.'],
  ['names', '{"\u00e9":1,"e\u0301":2}', 'Composed and decomposed are two names.'],
  ['pair', '"\\ud83d\\ude42"', 'A surrogate pair as two escapes.'],
];

const REFUSED = [
  ['large-integer', '9007199254740992', LARGE, '2^53: a double has it, and has it also for the next one.'],
  ['large-integer-negative', '-9007199254740993', LARGE, 'One that no double has.'],
  ['large-integer-fraction', '9007199254740993.0', LARGE, 'The same, written with a fraction.'],
  ['large-integer-exponent', '9007199254740993e0', LARGE, 'Written with an exponent.'],
  ['large-integer-moved', '900719925474.0993E4', LARGE, 'Written with both.'],
  ['large-exponent', '1e20', LARGE, 'An integer, and beyond what parsers with integers of 64 bits have.'],
  ['overflow', '1e999', LARGE, 'Infinity to some, an error to others.'],
  ['eighteen-digits', '0.300000000000000041', INEXACT, 'The last digit is lost in a double.'],
  ['eighteen-digits-above', '100.000000000000001', INEXACT, 'More than 100 in decimal, 100 in a double.'],
  ['fraction-to-integer', '9000.0000000000001', INEXACT, 'The same with 17 digits.'],
  ['fraction-to-one', '0.99999999999999999', INEXACT, 'Less than 1 in decimal, 1 in a double.'],
  ['fraction-beside-largest', '9007199254740990.6', INEXACT, 'An integer in a double.'],
  ['underflow', '1e-400', INEXACT, '0 in a double.'],
  ['underflow-negative', '-1.5e-999', INEXACT, '0 with a sign.'],
  ['in-an-array', '[1,[9007199254740993.0]]', LARGE, 'Wherever it stands.'],
  ['name-twice', '{"a":1,"a":2}', TWICE, 'Some parsers take the first.'],
  ['name-twice-escaped', '{"a":1,"\\u0061":2}', TWICE, 'However it is written.'],
  ['lone-surrogate', '"\\ud83d"', UNCLEAN, 'Half of a pair.'],
  ['noncharacter', '"\\uffff"', UNCLEAN, 'No character.'],
];

/** json-texts.json */
export function makeJsonTexts() {
  return [
    ...ACCEPTED.map(([name, text, comment]) => ({ name, comment, text, accept: true })),
    ...REFUSED.map(([name, text, rule, comment]) => ({
      ...{ name, comment, text, accept: false },
      ...{ reason: 'FIELD_INVALID', rule },
    })),
  ];
}
