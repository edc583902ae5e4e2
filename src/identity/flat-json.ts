// Two parsers that meet a name twice, or a number, may read different things; JWS headers and JWKs need neither.
// oxlint-disable-next-line no-control-regex -- they are what is looked for
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const WHITESPACE = /[ \t\n\r]*/y;

/** A value of a {@link parseFlatJson} object. */
export type FlatJsonValue = string | readonly string[];

/** Thrown by {@link parseFlatJson}; says what is wrong without quoting it. */
export class FlatJsonInvalid extends Error {
  override readonly name = 'FlatJsonInvalid';
}

class Scanner {
  private position = 0;
  constructor(private readonly text: string) {}

  private skipWhitespace(): void {
    WHITESPACE.lastIndex = this.position;
    WHITESPACE.test(this.text);
    this.position = WHITESPACE.lastIndex;
  }

  take(character: string): boolean {
    this.skipWhitespace();
    if (this.text[this.position] !== character) return false;
    this.position += 1;
    return true;
  }

  expect(character: string): void {
    if (!this.take(character)) throw new FlatJsonInvalid(`expected ${character}`);
  }

  string(): string {
    this.skipWhitespace();
    STRING.lastIndex = this.position;
    const token = STRING.exec(this.text)?.[0];
    if (token === undefined) throw new FlatJsonInvalid('expected a string');
    this.position += token.length;
    return JSON.parse(token) as string;
  }

  strings(): string[] {
    const values: string[] = [];
    if (this.take(']')) return values;
    do values.push(this.string());
    while (this.take(','));
    this.expect(']');
    return values;
  }

  end(): void {
    this.skipWhitespace();
    if (this.position !== this.text.length) throw new FlatJsonInvalid('more than one value');
  }
}

/**
 * Parses a JSON object (RFC 8259) whose values are strings or arrays of strings, and nothing else. A name that comes
 * twice is refused, also when its two spellings differ in escapes.
 *
 * @throws {FlatJsonInvalid}
 */
export function parseFlatJson(text: string): Map<string, FlatJsonValue> {
  const scanner = new Scanner(text);
  const members = new Map<string, FlatJsonValue>();
  scanner.expect('{');
  if (!scanner.take('}')) {
    do {
      const name = scanner.string();
      if (members.has(name)) throw new FlatJsonInvalid('a member twice');
      scanner.expect(':');
      members.set(name, scanner.take('[') ? scanner.strings() : scanner.string());
    } while (scanner.take(','));
    scanner.expect('}');
  }
  scanner.end();
  return members;
}
