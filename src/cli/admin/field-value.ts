import { readFileSync } from 'node:fs';
import { type DescEnum, type DescField, type DescMessage, ScalarType } from '@bufbuild/protobuf';
import { durationFromMs, timestampFromDate, timestampFromMs } from '@bufbuild/protobuf/wkt';
import { JwkInvalid, parsePublicJwk } from '../../identity/jwk.js';
import { fileSentence, UsageError } from '../failure.js';

const TIMESTAMP = 'google.protobuf.Timestamp';
const DURATION = 'google.protobuf.Duration';

const UNITS_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};
const DURATION_PATTERN = /^(?:\d+(?:ms|[smhd]))+$/;
/** RFC 3339 with a zone: a time without one would mean another moment on another machine. */
const TIME_PATTERN = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/i;

/** Files that hold a key or a token are no longer than this, in octets. */
const MAX_FILE_OCTETS = 65_536;

/** What one value of a field is to look like, for the help. */
export function valueHint(field: DescField): string {
  const { message, enum: desc } = field;
  if (message?.typeName === TIMESTAMP) return 'time';
  if (message?.typeName === DURATION) return 'duration';
  if (desc) return 'name';
  if (field.name.endsWith('_jwk') || field.name.endsWith('_jws')) return 'file';
  return { [ScalarType.BYTES]: 'hex', [ScalarType.STRING]: 'text' }[field.scalar as number] ?? 'number';
}

/**
 * Reads one value of a field as it is given on the command line: times as RFC 3339 or as a duration from `nowMs`,
 * durations as `90s` or `1h30m`, enums by their short names, octets in hexadecimal, keys and tokens from a file.
 *
 * @param flag for the message
 * @param nowMs the store's clock, in milliseconds
 * @throws {UsageError}
 */
export function readFieldValue(flag: string, field: DescField, text: string, nowMs: number): unknown {
  if (field.enum) return readEnum(flag, field.enum, text);
  if (field.message) return readMessage(flag, field.message, text, nowMs);
  const read = SCALARS[field.scalar as number];
  if (!read) throw new UsageError(`${flag}: give it with --json`);
  return read(flag, text, field);
}

/** The kinds of scalars that the contract has on the command line; a boolean is a switch and has no value. */
const SCALARS: Readonly<Record<number, (flag: string, text: string, field: DescField) => unknown>> = {
  [ScalarType.STRING]: (flag, text, { name }) => readText(flag, name, text),
  [ScalarType.BYTES]: (flag, text) => {
    if (!/^(?:[0-9a-f]{2})*$/i.test(text)) throw new UsageError(`${flag}: must be hexadecimal`);
    return Uint8Array.from(Buffer.from(text, 'hex'));
  },
  [ScalarType.INT32]: (flag, text) => Number(readInteger(flag, text, 2n ** 31n)),
  [ScalarType.INT64]: (flag, text) => readInteger(flag, text, 2n ** 63n),
};

/** Whether `readFieldValue` knows what to do with values of a field. */
export function isFlagField(field: DescField): boolean {
  if (field.fieldKind === 'map') return false;
  if (field.message) return field.message.typeName === TIMESTAMP || field.message.typeName === DURATION;
  return true;
}

function readEnum(flag: string, desc: DescEnum, text: string): number {
  const allowed = desc.values.filter(({ number }) => number !== 0);
  const wanted = text.toUpperCase().replaceAll('-', '_');
  const value = allowed.find(({ localName, name }) => localName === wanted || name === wanted);
  if (value) return value.number;
  throw new UsageError(`${flag}: must be one of ${allowed.map(({ localName }) => localName).join(', ')}`);
}

function readMessage(flag: string, desc: DescMessage, text: string, nowMs: number): unknown {
  if (desc.typeName === DURATION) return durationFromMs(readDuration(flag, text));
  if (DURATION_PATTERN.test(text)) return timestampFromMs(nowMs + readDuration(flag, text));
  const date = new Date(text);
  if (!TIME_PATTERN.test(text) || Number.isNaN(date.getTime())) {
    throw new UsageError(`${flag}: must be a time such as 2027-01-31T12:00:00Z, or 24h from now`);
  }
  return timestampFromDate(date);
}

/** @returns milliseconds. @throws UsageError */
export function readDuration(flag: string, text: string): number {
  if (!DURATION_PATTERN.test(text))
    throw new UsageError(`${flag}: must be a duration such as 90s, 1h30m or 7d`);
  let ms = 0;
  for (const [, amount, unit] of text.matchAll(/(\d+)(ms|[smhd])/g)) {
    ms += Number(amount) * (UNITS_MS[unit as string] as number);
  }
  if (!Number.isSafeInteger(ms)) throw new UsageError(`${flag}: is too long`);
  return ms;
}

function readInteger(flag: string, text: string, limit: bigint): bigint {
  if (!/^\d{1,19}$/.test(text) || BigInt(text) >= limit)
    throw new UsageError(`${flag}: must be a whole number`);
  return BigInt(text);
}

function readText(flag: string, name: string, text: string): string {
  if (name.endsWith('_jwk') && text !== '') return readJwk(flag, text);
  if (name.endsWith('_jws') && text !== '') return readJws(flag, text);
  return text;
}

/** A compact JWS (RFC 7515, section 7.1), or a file that holds one; what it says is the service's to judge. */
function readJws(flag: string, text: string): string {
  const jws = text.startsWith('eyJ') ? text : readFile(flag, text).trim();
  if (/^eyJ[\w-]*\.[\w-]*\.[\w-]+$/.test(jws)) return jws;
  throw new UsageError(`${flag}: ${jws === text ? 'this' : text} is not a compact JWS`);
}

function readJwk(flag: string, text: string): string {
  try {
    return parsePublicJwk(text.startsWith('{') ? text : readFile(flag, text)).jwk;
  } catch (error) {
    if (error instanceof JwkInvalid) throw new UsageError(`${flag}: ${error.rule}`);
    throw error;
  }
}

/**
 * A file's text; `-` is the standard input.
 *
 * @throws {UsageError} where it cannot be read
 */
export function readFile(flag: string, path: string): string {
  const text = readFileBytes(flag, path).toString('utf8');
  if (text.length > MAX_FILE_OCTETS) throw new UsageError(`${flag}: ${path} is too long`);
  return text;
}

/** The same, as it is. @throws {UsageError} where it cannot be read */
export function readFileBytes(flag: string, path: string): Buffer {
  try {
    return readFileSync(path === '-' ? 0 : path);
  } catch (error) {
    throw new UsageError(`${flag}: ${fileSentence(path, error)}`);
  }
}
