import { FrontendWriter } from './frontend-messages.js';
import { parserOf } from './row-codec.js';

/** A parameter: a text as Postgres reads it, octets in its binary form, or NULL. */
export type Value = string | Uint8Array | null;

/** One statement of a flight. */
export interface Statement {
  /** Prepared under this name; undefined: not prepared. */
  readonly name?: string;
  readonly text: string;
  readonly values?: readonly Value[];
  /** Its rows are lists of texts and nulls, in the order of the columns: for whoever does not want all of them decoded. */
  readonly raw?: true;
}

/** What one statement answered. */
export interface Answer {
  readonly rows: readonly Record<string, unknown>[];
  readonly rowCount: number;
  /** The command tag's first word. */
  readonly command: string;
}

/** A statement that was not sent: what the driver or the server would stumble over while others commit. */
export class UnsendableError extends Error {
  constructor(what: string) {
    super(`a statement cannot be sent: ${what}`);
    this.name = 'UnsendableError';
  }
}

/** A column of an answer. */
interface Column {
  readonly name: string;
  readonly parse: ((text: string) => unknown) | undefined;
}

/** A statement that the server knows, or is about to. */
interface Prepared {
  readonly name: string;
  readonly text: string;
  /** Known when it was answered once. */
  columns?: readonly Column[];
}

/** Postgres counts parameters with 16 bits. */
const MOST_VALUES = 65_535;
const UNNAMED = '';

/** What one connection has prepared. */
export class PreparedStatements {
  private readonly known = new Map<string, Prepared>();
  /** Sent to be parsed, in order, and not yet answered. */
  private parsing: Prepared[] = [];

  get(name: string): Prepared | undefined {
    return this.known.get(name);
  }

  /** A flight leaves; what an earlier one asked for and did not get was passed over behind an error. */
  expect(parsing: Prepared[]): void {
    this.parsing = parsing;
  }

  /** The server has parsed the next one. */
  parsed(): void {
    const next = this.parsing.shift();
    if (next && next.name !== UNNAMED) this.known.set(next.name, next);
  }
}

/** What the driver hands to its own queries, and to ours. */
interface DriverConnection {
  readonly stream: { readonly writable: boolean; write(bytes: Buffer): boolean };
}

/**
 * Statements that travel together, with one Sync at the end: one round trip, one write on either side, and behind a
 * statement that failed the server passes over all others, COMMIT included. To the driver it is one query.
 */
export class Flight {
  /** The driver's, for its timeout. */
  callback: () => void = () => undefined;
  /** Settled when the last one is answered, or one has failed; never rejects. */
  readonly settled: Promise<PromiseSettledResult<Answer>[]>;
  private readonly bytes: Buffer;
  private readonly entries: Prepared[] = [];
  private readonly parsing: Prepared[] = [];
  private readonly answers: PromiseFulfilledResult<Answer>[] = [];
  private rows: Record<string, unknown>[] = [];
  private resolve: (settled: PromiseSettledResult<Answer>[]) => void = () => undefined;

  /** @throws UnsendableError */
  constructor(
    private readonly statements: readonly Statement[],
    private readonly prepared: PreparedStatements,
  ) {
    this.settled = new Promise((resolve) => {
      this.resolve = resolve;
    });
    this.bytes = this.encode();
  }

  /** All statements as messages; of the known ones only the values travel. */
  private encode(): Buffer {
    const writer = new FrontendWriter();
    const fresh = new Map<string, Prepared>();
    for (const statement of this.statements) {
      checkStatement(statement);
      const { name = UNNAMED, text, values = [] } = statement;
      const known = name === UNNAMED ? undefined : (this.prepared.get(name) ?? fresh.get(name));
      if (known && known.text !== text) throw new UnsendableError(`${name} is another statement`);
      const entry = known ?? { name, text };
      if (!known) {
        fresh.set(name, entry);
        this.parsing.push(entry);
        writer.parse(name, text);
      }
      this.entries.push(entry);
      writer.bind(name, values);
      if (!entry.columns) writer.describe();
      writer.execute();
    }
    writer.sync();
    return writer.take();
  }

  /** The driver's: it is this query's turn. */
  submit(connection: DriverConnection): null {
    this.prepared.expect(this.parsing);
    if (connection.stream.writable) connection.stream.write(this.bytes);
    return null;
  }

  /** The driver's, as all that follow. */
  handleRowDescription({
    fields,
  }: {
    readonly fields: readonly { readonly name: string; readonly dataTypeID: number }[];
  }): void {
    const entry = this.entries[this.answers.length];
    if (!entry) return;
    entry.columns = fields.map(({ name, dataTypeID }) => ({ name, parse: parserOf(dataTypeID) }));
  }

  handleDataRow({ fields }: { readonly fields: readonly (string | null)[] }): void {
    const at = this.answers.length;
    if (this.statements[at]?.raw) {
      this.rows.push(fields as unknown as Record<string, unknown>);
      return;
    }
    const columns = this.entries[at]?.columns ?? [];
    const row: Record<string, unknown> = {};
    for (let i = 0; i < columns.length; i += 1) {
      const { name, parse } = columns[i] as Column;
      const text = fields[i] as string | null;
      row[name] = text === null || parse === undefined ? text : parse(text);
    }
    this.rows.push(row);
  }

  handleCommandComplete({ text }: { readonly text: string }): void {
    const [command = ''] = text.split(' ', 1);
    const rowCount = Number(text.slice(text.lastIndexOf(' ') + 1));
    const at = this.answers.length;
    const entry = this.entries[at];
    // It was described and has no columns.
    if (entry) entry.columns ??= [];
    const value = { rows: this.rows, rowCount: Number.isNaN(rowCount) ? 0 : rowCount, command };
    this.rows = [];
    this.answers.push({ status: 'fulfilled', value });
  }

  handleEmptyQuery(): void {
    this.handleCommandComplete({ text: '' });
  }

  handleReadyForQuery(): void {
    this.callback();
    this.resolve(this.answers);
  }

  /** A statement failed, or the connection did: those behind it were not done, as far as anybody knows. */
  handleError(error: unknown): void {
    this.callback();
    const reason: PromiseRejectedResult = { status: 'rejected', reason: error };
    this.resolve(this.statements.map((_, i) => this.answers[i] ?? reason));
  }
}

function checkStatement({ text, values = [] }: Statement): void {
  if (typeof text !== 'string') throw new UnsendableError('it has no text');
  if (values.length > MOST_VALUES) throw new UnsendableError('it has too many values');
  for (const value of values) {
    if (value === null || typeof value === 'string' || value instanceof Uint8Array) continue;
    throw new UnsendableError('a value is neither text nor octets');
  }
}
