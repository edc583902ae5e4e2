import type { ColumnType } from './table-spec.js';

/** What an array holds: an array within an array would have to be a rectangle. */
export type ElementType = 'text' | 'int8' | 'int4' | 'bool' | 'bytea';

/** Type ids of Postgres. */
const TYPE_IDS: Readonly<Record<ElementType, number>> = { text: 25, int8: 20, int4: 23, bool: 16, bytea: 17 };

const NULL = -1;
/** Dimensions, whether there are NULLs, the type; of the one dimension its length and its first subscript. */
const HEADER_BYTES = 20;
const EMPTY_HEADER_BYTES = 12;
const LENGTH_BYTES = 4;
/** A UTF-16 code unit has at most so many octets in UTF-8. */
const MOST_BYTES_PER_UNIT = 3;
/** A batch's column fits; a greater one is not kept. */
const SCRATCH_BYTES = 65_536;

/** An array is built here and copied out: no text is made of octets and numbers on the way, and nothing is quoted. */
let scratch = Buffer.allocUnsafe(SCRATCH_BYTES);
let end = 0;

/** A one-dimensional array as Postgres takes it in binary (`array_recv`); null and undefined are NULL. */
export function binaryArray(type: ElementType, values: readonly unknown[]): Buffer {
  if (values.length === 0) return emptyArray(type);
  end = HEADER_BYTES;
  let nulls = 0;
  for (const value of values) {
    if (value === null || value === undefined) {
      reserve(0);
      putLength(NULL);
      nulls = 1;
    } else put(type, value);
  }
  putHeader(1, nulls, type);
  scratch.writeInt32BE(values.length, EMPTY_HEADER_BYTES);
  scratch.writeInt32BE(1, EMPTY_HEADER_BYTES + LENGTH_BYTES);
  const array = Buffer.from(scratch.subarray(0, end));
  if (scratch.length > SCRATCH_BYTES) scratch = Buffer.allocUnsafe(SCRATCH_BYTES);
  return array;
}

/** Whether values of a column can stand in an array as they are. */
export function isElementType(type: ColumnType): type is ElementType {
  return Object.hasOwn(TYPE_IDS, type);
}

function emptyArray(type: ElementType): Buffer {
  putHeader(0, 0, type);
  return Buffer.from(scratch.subarray(0, EMPTY_HEADER_BYTES));
}

function putHeader(dimensions: number, nulls: number, type: ElementType): void {
  scratch.writeInt32BE(dimensions, 0);
  scratch.writeInt32BE(nulls, LENGTH_BYTES);
  scratch.writeInt32BE(TYPE_IDS[type], 2 * LENGTH_BYTES);
}

function put(type: ElementType, value: unknown): void {
  switch (type) {
    case 'text': {
      const text = value as string;
      reserve(text.length * MOST_BYTES_PER_UNIT);
      const length = scratch.write(text, end + LENGTH_BYTES, 'utf8');
      putLength(length);
      end += length;
      return;
    }
    case 'bytea': {
      const bytes = value as Uint8Array;
      reserve(bytes.length);
      putLength(bytes.length);
      scratch.set(bytes, end);
      end += bytes.length;
      return;
    }
    case 'int8':
      reserve(8);
      putLength(8);
      end = scratch.writeBigInt64BE(BigInt(value as bigint | number), end);
      return;
    case 'int4':
      reserve(4);
      putLength(4);
      end = scratch.writeInt32BE(Number(value), end);
      return;
    case 'bool':
      reserve(1);
      putLength(1);
      scratch[end] = value === true ? 1 : 0;
      end += 1;
  }
}

function putLength(length: number): void {
  end = scratch.writeInt32BE(length, end);
}

/** Makes room for a value of so many octets and its length. */
function reserve(most: number): void {
  const needed = end + LENGTH_BYTES + most;
  if (needed <= scratch.length) return;
  const larger = Buffer.allocUnsafe(2 * needed);
  scratch.copy(larger, 0, 0, end);
  scratch = larger;
}
