// The canonical encoding of digests, made independently of src: each part is a tag byte, its length as eight bytes
// big-endian, and its bytes; the label comes first, as a text.
import { createHash } from 'node:crypto';

const TAGS = { absent: 0, text: 1, bytes_hex: 2, integer: 3, boolean: 4, list: 5 };

/** Parts as they stand in the vectors: one member each, which names the kind. */
export const text = (value) => ({ text: value });
export const bytes = (hex) => ({ bytes_hex: hex });
export const integer = (value) => ({ integer: String(value) });
export const boolean = (value) => ({ boolean: value });
export const list = (...items) => ({ list: items });
export const absent = { absent: true };

export const sha256Hex = (data) => createHash('sha256').update(data).digest('hex');

function content(kind, value) {
  if (kind === 'absent') return Buffer.alloc(0);
  if (kind === 'boolean') return Buffer.from([value ? 1 : 0]);
  if (kind === 'bytes_hex') return Buffer.from(value, 'hex');
  if (kind === 'list') return Buffer.concat(value.map(encodePart));
  return Buffer.from(value, 'utf8');
}

function encodePart(part) {
  const [[kind, value]] = Object.entries(part);
  const body = content(kind, value);
  const head = Buffer.alloc(9);
  head[0] = TAGS[kind];
  head.writeBigUInt64BE(BigInt(body.length), 1);
  return Buffer.concat([head, body]);
}

/** The bytes that are hashed. */
export const encode = (label, parts) => Buffer.concat([text(label), ...parts].map(encodePart));

/** A vector of one digest. */
export function digestVector(name, comment, label, parts) {
  const encoded = encode(label, parts);
  return {
    name,
    comment,
    label,
    parts,
    encoded_hex: encoded.toString('hex'),
    sha256_hex: sha256Hex(encoded),
  };
}
