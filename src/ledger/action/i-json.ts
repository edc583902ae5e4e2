import { type NumberFault, numberFault } from './json-number.js';
import { MAX_JSON_DEPTH } from './limits.js';

/** A JSON value. Objects are maps, so that no member's name means anything to the runtime. */
export type Json = null | boolean | number | string | readonly Json[] | JsonObject;
export type JsonObject = ReadonlyMap<string, Json>;

/** Why bytes are not JSON that every parser reads alike. */
export type JsonFault =
  | 'must be well-formed UTF-8'
  | 'must be JSON'
  | 'must not hold a name twice in an object'
  | 'must not hold lone surrogates or noncharacters'
  | NumberFault
  | `must be at most ${number} deep`;

/** What was read, or why it was not. */
export type JsonResult = { readonly value: Json } | { readonly fault: JsonFault };

/**
 * Reads JSON as I-JSON (RFC 7493): what two parsers would read differently is refused. Well-formed UTF-8 without a byte order
 * mark; no name twice in an object, compared as it reads; no surrogate that is half of nothing, no noncharacter; numbers that
 * a double keeps; at most 32 deep.
 */
export function parseIJson(bytes: Uint8Array): JsonResult {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return { fault: 'must be well-formed UTF-8' };
  }
  const reader = new Reader(text);
  try {
    return { value: reader.document() };
  } catch (error) {
    if (error instanceof Fault) return { fault: error.fault };
    throw error;
  }
}

/** Whether a value is an object. */
export function isJsonObject(value: Json): value is JsonObject {
  return value instanceof Map;
}

class Fault extends Error {
  constructor(readonly fault: JsonFault) {
    super(fault);
  }
}

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const WHITE_SPACE = /[ \t\n\r]*/y;
// Everything that stands in a string as itself: no quote, no backslash, no control character.
// oxlint-disable-next-line no-control-regex -- JSON refuses them raw
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const HEX = /[0-9a-fA-F]{4}/y;
const ESCAPES: Readonly<Record<string, string>> = {
  '"': '"',
  '\\': '\\',
  '/': '/',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
};
const KEYWORDS: readonly (readonly [string, Json])[] = [
  ['null', null],
  ['true', true],
  ['false', false],
];

/** A recursive reader; its depth is bounded before the stack is. */
class Reader {
  private at = 0;

  constructor(private readonly text: string) {}

  document(): Json {
    const value = this.value(0);
    this.space();
    if (this.at !== this.text.length) throw new Fault('must be JSON');
    return value;
  }

  private value(depth: number): Json {
    this.space();
    const head = this.text[this.at];
    if (head === '{') return this.object(depth + 1);
    if (head === '[') return this.array(depth + 1);
    if (head === '"') return this.string();
    for (const [word, value] of KEYWORDS) {
      if (!this.text.startsWith(word, this.at)) continue;
      this.at += word.length;
      return value;
    }
    return this.number();
  }

  private object(depth: number): JsonObject {
    this.enter(depth);
    const members = new Map<string, Json>();
    if (this.closes('}')) return members;
    for (;;) {
      this.space();
      if (this.text[this.at] !== '"') throw new Fault('must be JSON');
      const name = this.string();
      if (members.has(name)) throw new Fault('must not hold a name twice in an object');
      this.space();
      this.expect(':');
      members.set(name, this.value(depth));
      this.space();
      if (this.closes('}')) return members;
      this.expect(',');
    }
  }

  private array(depth: number): readonly Json[] {
    this.enter(depth);
    const items: Json[] = [];
    if (this.closes(']')) return items;
    for (;;) {
      items.push(this.value(depth));
      this.space();
      if (this.closes(']')) return items;
      this.expect(',');
    }
  }

  private enter(depth: number): void {
    if (depth > MAX_JSON_DEPTH) throw new Fault(`must be at most ${MAX_JSON_DEPTH} deep`);
    this.at += 1;
    this.space();
  }

  private string(): string {
    this.expect('"');
    let value = '';
    for (;;) {
      value += this.match(PLAIN) ?? '';
      const next = this.text[this.at];
      this.at += 1;
      if (next === '"') break;
      if (next !== '\\') throw new Fault('must be JSON');
      value += this.escape();
    }
    if (isUnclean(value)) throw new Fault('must not hold lone surrogates or noncharacters');
    return value;
  }

  private escape(): string {
    const letter = this.text[this.at] ?? '';
    this.at += 1;
    if (letter !== 'u') {
      const plain = ESCAPES[letter];
      if (plain === undefined) throw new Fault('must be JSON');
      return plain;
    }
    const hex = this.match(HEX);
    if (hex === undefined) throw new Fault('must be JSON');
    return String.fromCharCode(Number.parseInt(hex, 16));
  }

  private number(): number {
    const literal = this.match(NUMBER);
    if (literal === undefined) throw new Fault('must be JSON');
    const fault = numberFault(literal);
    if (fault !== undefined) throw new Fault(fault);
    return Number(literal);
  }

  private space(): void {
    this.match(WHITE_SPACE);
  }

  private expect(character: string): void {
    if (this.text[this.at] !== character) throw new Fault('must be JSON');
    this.at += 1;
  }

  private closes(character: string): boolean {
    if (this.text[this.at] !== character) return false;
    this.at += 1;
    return true;
  }

  private match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)?.[0];
    if (found !== undefined) this.at += found.length;
    return found;
  }
}

/** RFC 7493, section 2.1. */
function isUnclean(value: string): boolean {
  for (const character of value) {
    const point = character.codePointAt(0) as number;
    if (point >= 0xd800 && point <= 0xdfff) return true;
    if ((point >= 0xfdd0 && point <= 0xfdef) || (point & 0xfffe) === 0xfffe) return true;
  }
  return false;
}
