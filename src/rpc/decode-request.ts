import { type DescMessage, fromBinary, type MessageShape } from '@bufbuild/protobuf';
import { configureTextEncoding, getTextEncoding } from '@bufbuild/protobuf/wire';
import { decodeUtf8 } from '../identity/utf8.js';
import type { FieldViolation } from '../ledger/refusal.js';
import { findFault } from './find-fault.js';
import { hasWireForm } from './wire-form.js';

/** What a request's bytes hold, or what is wrong with them. */
export type DecodedRequest<Schema extends DescMessage> =
  | { readonly request: MessageShape<Schema> }
  | { readonly violation: FieldViolation };

/**
 * Decodes a request. Unknown fields are dropped: a client may be newer than we are. Nothing else is forgiven: undecodable
 * bytes, a field with the wire type of another, and invalid UTF-8 (a lone surrogate among it) are told with the field's path
 * where it is known.
 */
export function decodeRequest<Schema extends DescMessage>(
  schema: Schema,
  bytes: Uint8Array,
): DecodedRequest<Schema> {
  try {
    const request = fromBinary(schema, bytes, { readUnknownFields: false, recursionLimit: MAX_DEPTH });
    if (hasWireForm(schema, bytes)) return { request };
  } catch {
    // The library does not say where it stopped.
  }
  const { field, rule } = findFault(schema, bytes) ?? { field: '', rule: 'must be an encoding of it' };
  if (field !== '') return { violation: { field, rule } };
  return { violation: { field, rule: `cannot be decoded as a ${schema.typeName}: it ${rule}` } };
}

/** No request of ours nests deeper than four; a sender must not choose how deep we recurse. */
const MAX_DEPTH = 16;

keepByteOrderMarks();

/**
 * The library's decoder drops a byte order mark at the beginning of a text, which would make two ids one. The setting is
 * the process's, which is ours.
 */
function keepByteOrderMarks(): void {
  configureTextEncoding({
    ...getTextEncoding(),
    decodeUtf8: (bytes, strict) => {
      const text = decodeUtf8(bytes);
      if (text === undefined && strict === true) throw new TypeError('invalid UTF-8');
      return text ?? new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
    },
  });
}
