// Texts as ids. They stand here as octets, since many JSON parsers refuse or repair what is hostile in them.

const TEXTS = [
  ['ascii', 'order-1184', true, 'Plain.'],
  ['nfc', 'caf\u00e9', true, 'Composed; another id than nfd.'],
  ['nfd', 'cafe\u0301', true, 'Decomposed; another id than nfc.'],
  ['astral', 'order-\u{1F9FE}', true, 'Four octets.'],
  ['no-break-space', 'a\u00a0b', true, 'The first character after C1.'],
  ['zero-width', 'a\u200bb', true, 'Invisible, and neither a control nor a line separator.'],
  ['noncharacter', 'a\uffffb', true, 'A noncharacter is well-formed.'],
  ['nul', 'a\u0000b', false, 'C0.'],
  ['tab', 'a\tb', false, 'C0.'],
  ['line-feed', 'a\nb', false, 'C0.'],
  ['carriage-return', 'a\rb', false, 'C0.'],
  ['escape', 'a\u001b[2Jb', false, 'C0: clears a terminal.'],
  ['unit-separator', 'a\u001fb', false, 'The last of C0.'],
  ['delete', 'a\u007fb', false, 'DEL.'],
  ['c1-first', 'a\u0080b', false, 'The first of C1.'],
  ['next-line', 'a\u0085b', false, 'C1.'],
  ['c1-last', 'a\u009fb', false, 'The last of C1.'],
  ['line-separator', 'a\u2028b', false, 'U+2028.'],
  ['paragraph-separator', 'a\u2029b', false, 'U+2029.'],
];

const INVALID = [
  ['high-surrogate', '61eda080', '0061d800', 'A lone high surrogate.'],
  ['low-surrogate', 'edb08061', 'dc000061', 'A lone low surrogate.'],
  ['reversed-pair', 'edb080eda080', 'dc00d800', 'A pair in the wrong order.'],
  ['cesu-8', 'eda0bcedbcb1', undefined, 'A right pair as six octets, which is not UTF-8.'],
  ['overlong', 'c080', undefined, 'NUL in two octets.'],
  ['cut', 'c3', undefined, 'The first octet of two.'],
  ['above-unicode', 'f4908080', undefined, 'U+110000.'],
];

/** texts.json */
export function makeTexts() {
  return [
    ...TEXTS.map(([name, value, accept, comment]) => ({
      name,
      comment,
      accept,
      utf8_hex: Buffer.from(value, 'utf8').toString('hex'),
      octets: Buffer.byteLength(value, 'utf8'),
    })),
    ...INVALID.map(([name, utf8, utf16, comment]) => ({
      name,
      comment,
      accept: false,
      utf8_hex: utf8,
      ...(utf16 === undefined ? {} : { utf16be_hex: utf16 }),
    })),
  ];
}
