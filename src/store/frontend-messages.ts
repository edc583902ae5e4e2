// What a client says in Postgres's extended protocol (version 3.0), as far as a flight needs it. The driver could say it too,
// but only statement by statement, with a Sync behind each.

const PARSE = 0x50;
const BIND = 0x42;
const DESCRIBE = 0x44;
const EXECUTE = 0x45;
const SYNC = 0x53;
const PORTAL = 0x50;

/** Of every message: its kind, and its length. */
const HEADER = 5;
const NULL = -1;
const TEXT = 0;
const BINARY = 1;

/** Writes messages into one buffer that grows. */
export class FrontendWriter {
  private bytes = Buffer.allocUnsafe(INITIAL);
  private at = 0;
  private begun = 0;

  /** @param name empty: the unnamed statement */
  parse(name: string, text: string): void {
    this.begin(PARSE);
    this.cstring(name);
    this.cstring(text);
    // The server infers every type.
    this.int16(0);
    this.end();
  }

  /** Binds the unnamed portal: texts go as such, octets as the binary form of their type; all values come as text. */
  bind(name: string, values: readonly (string | Uint8Array | null)[]): void {
    this.begin(BIND);
    this.cstring('');
    this.cstring(name);
    this.int16(values.length);
    for (const value of values) this.int16(value instanceof Uint8Array ? BINARY : TEXT);
    this.int16(values.length);
    for (const value of values) {
      if (value === null) this.int32(NULL);
      else if (typeof value === 'string') this.counted(value);
      else this.octets(value);
    }
    this.int16(0);
    this.end();
  }

  /** Asks for the columns of the unnamed portal. */
  describe(): void {
    this.begin(DESCRIBE);
    this.byte(PORTAL);
    this.cstring('');
    this.end();
  }

  /** Runs the unnamed portal to its end. */
  execute(): void {
    this.begin(EXECUTE);
    this.cstring('');
    this.int32(0);
    this.end();
  }

  /** Ends the flight: behind an error the server passes over everything up to here. */
  sync(): void {
    this.begin(SYNC);
    this.end();
  }

  /** All messages. */
  take(): Buffer {
    return this.bytes.subarray(0, this.at);
  }

  private begin(kind: number): void {
    this.room(HEADER);
    this.begun = this.at;
    this.bytes[this.at] = kind;
    this.at += HEADER;
  }

  /** The length counts itself, but not the kind. */
  private end(): void {
    this.bytes.writeInt32BE(this.at - this.begun - 1, this.begun + 1);
  }

  private byte(value: number): void {
    this.room(1);
    this.bytes[this.at] = value;
    this.at += 1;
  }

  private int16(value: number): void {
    this.room(2);
    this.at = this.bytes.writeUInt16BE(value, this.at);
  }

  private int32(value: number): void {
    this.room(4);
    this.at = this.bytes.writeInt32BE(value, this.at);
  }

  private cstring(text: string): void {
    this.room(text.length * MOST_BYTES + 1);
    this.at += this.bytes.write(text, this.at, 'utf8');
    this.bytes[this.at] = 0;
    this.at += 1;
  }

  /** A text behind its length in bytes. */
  private counted(text: string): void {
    this.room(text.length * MOST_BYTES + 4);
    const written = this.bytes.write(text, this.at + 4, 'utf8');
    this.bytes.writeInt32BE(written, this.at);
    this.at += written + 4;
  }

  /** Octets behind their number. */
  private octets(bytes: Uint8Array): void {
    this.int32(bytes.length);
    this.room(bytes.length);
    this.bytes.set(bytes, this.at);
    this.at += bytes.length;
  }

  private room(more: number): void {
    if (this.at + more <= this.bytes.length) return;
    const grown = Buffer.allocUnsafe(Math.max(this.bytes.length * 2, this.at + more));
    this.bytes.copy(grown, 0, 0, this.at);
    this.bytes = grown;
  }
}

/** UTF-8 of one UTF-16 unit. */
const MOST_BYTES = 3;
/** A lone call's flight fits into it. */
const INITIAL = 16_384;
