import { once } from 'node:events';
import type { Duplex } from 'node:stream';
import pg from 'pg';

/** PGCOPY, the signature of the binary format, without flags and without an extension. */
const HEADER = Buffer.concat([Buffer.from('PGCOPY\n\xff\r\n\0', 'latin1'), Buffer.alloc(8)]);
/** A field count of -1 ends the rows. */
const TRAILER = Buffer.from([0xff, 0xff]);

/** What the driver has of a connection that a COPY writes to. */
interface CopyConnection {
  readonly stream: Duplex;
  query(text: string): void;
  sendCopyFromChunk(chunk: Buffer): void;
  endCopyFrom(): void;
}

/** `COPY … FROM STDIN` in the binary format; the driver itself knows the messages and has no interface to them. */
export class CopyIn {
  private connection: CopyConnection | undefined;
  private failure: Error | undefined;
  private readonly opened: Promise<void>;
  private readonly ended: Promise<void>;
  private open!: () => void;
  private end!: () => void;
  private fail!: (error: Error) => void;

  private constructor(private readonly text: string) {
    this.opened = new Promise((resolve) => (this.open = resolve));
    this.ended = new Promise((resolve, reject) => {
      this.end = resolve;
      this.fail = reject;
    });
    this.ended.catch(() => undefined);
  }

  /** @param text the statement, with `FORMAT binary` */
  static async start(client: pg.Client, text: string): Promise<CopyIn> {
    const copy = new CopyIn(text);
    client.query(copy as unknown as pg.Submittable);
    await Promise.race([copy.opened, copy.ended]);
    copy.connection?.sendCopyFromChunk(HEADER);
    return copy;
  }

  /** Sends rows; the buffer is the connection's from now on. Resolves when more may come. */
  async write(rows: Buffer): Promise<void> {
    if (this.failure) throw this.failure;
    const { connection } = this;
    if (!connection) throw new Error('the copy has not begun');
    connection.sendCopyFromChunk(rows);
    if (!connection.stream.writableNeedDrain) return;
    await Promise.race([once(connection.stream, 'drain'), this.ended]);
  }

  /** Resolves when the server has taken all of it. @throws Error with the server's word */
  finish(): Promise<void> {
    this.connection?.sendCopyFromChunk(TRAILER);
    this.connection?.endCopyFrom();
    return this.ended;
  }

  // What follows is what the driver calls.

  submit(connection: CopyConnection): void {
    this.connection = connection;
    connection.query(this.text);
  }

  handleCopyInResponse(): void {
    this.open();
  }

  handleError(error: Error): void {
    this.failure = error;
    this.fail(error);
  }

  handleCommandComplete(): void {}

  handleReadyForQuery(): void {
    this.end();
  }
}
