/** A message from a Postgres client, as far as a proxy needs to see it. */
export interface FrontendMessage {
  /** The type's letter: `Q`uery, `P`arse, `B`ind, `E`xecute, `S`ync and so on. */
  readonly type: string;
  /** What follows the length. */
  readonly body: Buffer;
}

/** A message, and where it lies in the chunk with which it became complete. */
interface ScannedMessage {
  readonly message: FrontendMessage;
  /** Negative if it began in an earlier chunk. */
  readonly start: number;
  readonly end: number;
  /** How often the server will have said that it is ready for a query once it has answered all up to here. */
  readonly readyCount: number;
}

/** No startup packet is longer (libpq's own limit); another protocol's first bytes read as a huge length. */
const maxStartupBytes = 10_000;

const maxMessageBytes = 1 << 30;

const sslRequest = 80_877_103;
const gssRequest = 80_877_104;

/**
 * Splits a stream into Postgres messages while it passes, and gives up (for good: `opaque`) when it is none.
 * Wire format: PostgreSQL documentation, Message Formats.
 */
class MessageSplitter {
  opaque = false;
  private chunks: Buffer[] = [];
  private pendingBytes = 0;
  /** Nothing can be split before this much is there: long messages are put together once, not chunk by chunk. */
  private neededBytes = 0;

  /**
   * @param next - the length of the message with which the given bytes begin, if it can be told
   * @param take - gets each complete message
   */
  protected split(
    chunk: Buffer,
    next: (pending: Buffer) => { length: number } | 'incomplete' | 'opaque',
    take: (bytes: Buffer, start: number, end: number) => void,
  ): void {
    if (this.opaque) return;
    let offset = -this.pendingBytes;
    this.chunks.push(chunk);
    this.pendingBytes += chunk.length;
    if (this.pendingBytes < this.neededBytes) return;
    let pending = Buffer.concat(this.chunks);
    for (;;) {
      const found = next(pending);
      this.opaque = found === 'opaque';
      if (found === 'opaque' || found === 'incomplete' || pending.length < found.length) {
        this.chunks = this.opaque ? [] : [pending];
        this.pendingBytes = pending.length;
        this.neededBytes = typeof found === 'object' ? found.length : 0;
        return;
      }
      take(pending.subarray(0, found.length), offset, offset + found.length);
      pending = pending.subarray(found.length);
      offset += found.length;
    }
  }
}

/** Typed messages: a letter, then a length that counts itself and the body. */
function typedLength(pending: Buffer): { length: number } | 'incomplete' | 'opaque' {
  if (pending.length < 5) return 'incomplete';
  const length = pending.readUInt32BE(1);
  return length < 4 || length > maxMessageBytes ? 'opaque' : { length: length + 1 };
}

/** What a client sends. */
export class FrontendScanner extends MessageSplitter {
  /** Requests for encryption that the server answers with a single byte. */
  encryptionRequests = 0;
  private started = false;
  /** The first one ends the startup. */
  private readyCount = 1;

  /** The typed messages that this chunk completes. */
  push(chunk: Buffer): ScannedMessage[] {
    const messages: ScannedMessage[] = [];
    this.split(
      chunk,
      (pending) => (this.started ? typedLength(pending) : startupLength(pending)),
      (bytes, start, end) => {
        if (!this.started) {
          this.takeStartup(bytes);
          return;
        }
        const message = { type: String.fromCharCode(bytes[0] ?? 0), body: bytes.subarray(5) };
        if (endsFlight(message)) this.readyCount++;
        messages.push({ message, start, end, readyCount: this.readyCount });
      },
    );
    return messages;
  }

  private takeStartup(bytes: Buffer): void {
    const code = bytes.readUInt32BE(4);
    if (code === sslRequest || code === gssRequest) this.encryptionRequests++;
    else this.started = true;
  }
}

/** What a server answers: only how often it said `ReadyForQuery` is of interest. */
export class BackendScanner extends MessageSplitter {
  readySeen = 0;
  private encryptionAnswers = 0;

  constructor(private readonly frontend: FrontendScanner) {
    super();
  }

  push(chunk: Buffer): void {
    this.split(
      chunk,
      (pending) => {
        if (this.encryptionAnswers === this.frontend.encryptionRequests) return typedLength(pending);
        if (pending.length === 0) return 'incomplete';
        // 'N': go on in the clear. All else is a stream that we cannot read.
        return pending[0] === 0x4e ? { length: 1 } : 'opaque';
      },
      (bytes) => {
        if (bytes.length === 1) this.encryptionAnswers++;
        else if (bytes[0] === 0x5a) this.readySeen++;
      },
    );
  }
}

/** If the server answers this message, and all before it, by becoming ready: Query, Sync, FunctionCall. */
export function endsFlight(message: FrontendMessage): boolean {
  return message.type === 'Q' || message.type === 'S' || message.type === 'F';
}

/** If the message is the COMMIT of a lane's batch: bound to the unnamed portal, under its name. */
export function isLaneCommit({ type, body }: FrontendMessage): boolean {
  return type === 'B' && body.toString('latin1').startsWith('\0commit\0');
}

function startupLength(pending: Buffer): { length: number } | 'incomplete' | 'opaque' {
  if (pending.length < 8) return 'incomplete';
  const length = pending.readUInt32BE(0);
  return length < 8 || length > maxStartupBytes ? 'opaque' : { length };
}
