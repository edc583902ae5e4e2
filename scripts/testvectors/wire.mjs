// Protobuf's wire format, written by hand: the vectors must not depend on the library that they test.

export const varint = (value) => {
  const bytes = [];
  let rest = BigInt.asUintN(64, BigInt(value));
  while (rest >= 0x80n) {
    bytes.push(Number(rest & 0x7fn) | 0x80);
    rest >>= 7n;
  }
  bytes.push(Number(rest));
  return Buffer.from(bytes);
};

const tag = (number, wireType) => varint((number << 3) | wireType);

/** A varint field, also where it has its default. */
export const integer = (number, value) => Buffer.concat([tag(number, 0), varint(value)]);
/** A length-delimited field: text, bytes or a message. */
export const delimited = (number, value) => {
  const bytes = Buffer.from(value);
  return Buffer.concat([tag(number, 2), varint(bytes.length), bytes]);
};
/** A 64-bit field, which no signed message has. */
export const fixed64 = (number, value) => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return Buffer.concat([tag(number, 1), bytes]);
};
/** google.protobuf.Timestamp. */
export const timestamp = ({ seconds, nanos }) =>
  Buffer.concat([
    ...(BigInt(seconds) === 0n ? [] : [integer(1, seconds)]),
    ...(nanos === 0 ? [] : [integer(2, nanos)]),
  ]);

/**
 * Protobuf's JSON mapping of a timestamp.
 */
export function timestampJson({ seconds, nanos }) {
  const whole = new Date(Number(seconds) * 1000).toISOString().slice(0, 19);
  return nanos === 0 ? `${whole}Z` : `${whole}.${String(nanos).padStart(9, '0')}Z`;
}

/**
 * Serializes the fields of a message by a layout of [name, number, kind]; leaves out what `values` does not have. A field
 * whose value is a Buffer under kind `raw` is put in as it is.
 */
export function encodeFields(layout, values) {
  const parts = [];
  for (const [name, number, kind] of layout) {
    const value = values[name];
    if (value === undefined) continue;
    if (kind === 'text' || kind === 'bytes') parts.push(delimited(number, value));
    else if (kind === 'texts' || kind === 'digests')
      parts.push(...value.map((item) => delimited(number, item)));
    else if (kind === 'time') parts.push(delimited(number, timestamp(value)));
    else if (kind === 'message') parts.push(delimited(number, value.bytes));
    else if (kind === 'enum') parts.push(integer(number, value[0]));
    else parts.push(integer(number, value));
  }
  return Buffer.concat(parts);
}

/** Protobuf's JSON mapping of the same fields, with proto names. */
export function jsonFields(layout, values) {
  const json = {};
  for (const [name, , kind] of layout) {
    const value = values[name];
    if (value === undefined) continue;
    if (kind === 'bytes') json[name] = Buffer.from(value).toString('base64');
    else if (kind === 'digests') json[name] = value.map((item) => Buffer.from(item).toString('base64'));
    else if (kind === 'time') json[name] = timestampJson(value);
    else if (kind === 'int64') json[name] = String(value);
    else if (kind === 'message') json[name] = value.json;
    else if (kind === 'enum') json[name] = value[1];
    else json[name] = value;
  }
  return json;
}

/** A message of a layout, in both forms. */
export const message = (layout, values) => ({
  bytes: encodeFields(layout, values),
  json: jsonFields(layout, values),
});
