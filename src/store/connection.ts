import pg from 'pg';
import { type Answer, Flight, PreparedStatements, type Statement } from './flight.js';
import { TYPES } from './row-codec.js';

export type { Answer, Statement, Value } from './flight.js';

/**
 * Timeouts of every connection, in milliseconds: an idle transaction ends before a waiter gives up its lock, a waiter
 * before its statement (architecture.md). Each holds up a whole domain, so none is long.
 */
export const IDLE_IN_TRANSACTION_MS = 5_000;
export const LOCK_TIMEOUT_MS = 8_000;
export const STATEMENT_TIMEOUT_MS = 12_000;
const CONNECT_TIMEOUT_MS = 5_000;
/** A half-open connection must not hold a lane for ever. */
const QUERY_TIMEOUT_MS = 15_000;

/** What a decision and its COMMIT rest on, as it holds for this very connection: a role or a database may set its own. */
const READ_SETTINGS = `SELECT current_setting('default_transaction_isolation') AS isolation, current_setting('fsync') AS fsync,
  current_setting('full_page_writes') AS full_page_writes, current_setting('synchronous_commit') AS synchronous_commit`;

/** A connection on which a decision could be stale, or a COMMIT be lost after it was answered (architecture.md). */
class UnsafeSettingError extends Error {
  /** For the log. */
  readonly code: string;

  constructor(setting: string) {
    super(`the store's ${setting} is not what the service rests on`);
    this.name = 'UnsafeSettingError';
    this.code = `unsafe ${setting}`;
  }
}

function unsafeSetting(settings: Readonly<Record<string, unknown>>): string | undefined {
  if (settings['isolation'] !== 'read committed') return 'default_transaction_isolation';
  return ['fsync', 'full_page_writes', 'synchronous_commit'].find((name) => settings[name] === 'off');
}

/** How to connect. */
export interface ConnectionSettings {
  readonly url: string;
  /** Taken with SET ROLE on every connection, where the URL's user is not the serving role itself. */
  readonly role?: string;
  readonly applicationName: string;
  /** Another limit than `STATEMENT_TIMEOUT_MS`, in milliseconds. */
  readonly statementTimeoutMs?: number;
  /** Another limit than `LOCK_TIMEOUT_MS`, in milliseconds. */
  readonly lockTimeoutMs?: number;
  /** Leaves to Postgres whether a statement is planned with its values each time: for those whose best plan depends on what is asked. */
  readonly planEachTime?: true;
}

const SEARCH_PATH = 'search_path=public';
/**
 * How a lane's statements are planned: once per connection. Planned with its values, as it would be each time, most of a
 * statement's cost is its plan. All that a lane prepares finds its rows by an index (test/store/lookup-plans.test.ts), and
 * one that met a table of few rows must not walk it from then on: a scan of all is what it does where nothing else can be.
 *
 * Nor may it keep another index than the exact one because there was little when it planned: of a hundred rows without statistics
 * each index that begins with the domain seems to find one, and to descend an index that is a level higher, as the exact one
 * is by then, to cost more than that; so descending costs nothing here, and the order that the exact index gives decides.
 * A bitmap over all rows of the domain, in the few pages that a table has at first, would seem cheaper still.
 */
export const PLANNED_ONCE: readonly string[] = [
  'plan_cache_mode=force_generic_plan',
  'enable_seqscan=off',
  'enable_bitmapscan=off',
  'cpu_operator_cost=0.00001',
  'jit=off',
];

/**
 * One pipelined connection of a lane: a flight of statements costs one round trip. Once anything went wrong on it, it is
 * thrown away.
 */
export class PipelineConnection {
  private broken: Error | undefined;
  private warned = false;
  private readonly prepared = new PreparedStatements();
  private flying: Flight | undefined;

  private constructor(private readonly client: pg.Client) {
    client.on('error', (error: Error) => {
      this.broken ??= error;
    });
    client.on('end', () => {
      this.broken ??= new Error('the connection ended');
    });
    // A synchronous wait that was cancelled warns at COMMIT: durable here, perhaps not on the standby.
    client.on('notice', (notice) => {
      if (notice.severity === 'WARNING') this.warned = true;
    });
  }

  /** Opens a connection, checked: READ COMMITTED, durable settings, the serving role. */
  static async open(settings: ConnectionSettings): Promise<PipelineConnection> {
    const client = new pg.Client({
      ...clientConfig(settings),
      options: [SEARCH_PATH, ...(settings.planEachTime ? [] : PLANNED_ONCE)]
        .map((setting) => `-c ${setting}`)
        .join(' '),
      query_timeout: QUERY_TIMEOUT_MS,
    });
    const connection = new PipelineConnection(client);
    try {
      await client.connect();
      connection.inner()?.on('parseComplete', () => connection.prepared.parsed());
      if (settings.role !== undefined) await client.query(`SET ROLE ${pg.escapeIdentifier(settings.role)}`);
      const { rows } = await client.query(READ_SETTINGS);
      const setting = unsafeSetting(rows[0] ?? {});
      if (setting !== undefined) throw new UnsafeSettingError(setting);
    } catch (error) {
      connection.destroy();
      throw error;
    }
    return connection;
  }

  /** Whether it can carry another transaction. */
  get usable(): boolean {
    return this.broken === undefined;
  }

  /** Whether a WARNING came since the last `clearWarning`. */
  get sawWarning(): boolean {
    return this.warned;
  }

  clearWarning(): void {
    this.warned = false;
  }

  /** `T` within a transaction, `E` in a failed one, `I` outside. */
  transactionStatus(): string {
    return (this.client as unknown as { getTransactionStatus(): string }).getTransactionStatus();
  }

  /**
   * Sends all statements at once and answers when each is answered. Behind one that failed the others are not done, and
   * are rejected with its error; so are all of them where one cannot be sent (`UnsendableError`): then none was.
   */
  async flight(statements: readonly Statement[]): Promise<PromiseSettledResult<Answer>[]> {
    try {
      // What an earlier one prepares is known when it has been answered.
      while (this.flying) await this.flying.settled;
      if (this.broken) throw this.broken;
      const flight = new Flight(statements, this.prepared);
      this.flying = flight;
      this.client.query(flight);
      const settled = await flight.settled;
      this.flying = undefined;
      return settled;
    } catch (reason) {
      return statements.map(() => ({ status: 'rejected', reason }));
    }
  }

  /** Closes at once, without a word to the server. */
  destroy(): void {
    this.broken ??= new Error('the connection was destroyed');
    this.inner()?.stream.destroy();
    this.client.end().catch(() => undefined);
  }

  /** Closes politely. */
  async end(): Promise<void> {
    this.broken ??= new Error('the connection was ended');
    await this.client.end().catch(() => undefined);
  }

  private inner(): DriverConnection | undefined {
    return (this.client as unknown as { connection?: DriverConnection }).connection;
  }
}

/** The driver's connection below its client. */
interface DriverConnection {
  readonly stream: { destroy(): void };
  on(event: 'parseComplete', listener: () => void): void;
}

/** The driver's settings for a URL of ours; `PG*` variables play no part. */
export function clientConfig(settings: ConnectionSettings): pg.ClientConfig {
  return {
    connectionString: settings.url,
    application_name: settings.applicationName,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS,
    lock_timeout: settings.lockTimeoutMs ?? LOCK_TIMEOUT_MS,
    statement_timeout: settings.statementTimeoutMs ?? STATEMENT_TIMEOUT_MS,
    keepAlive: true,
    // Said here so that the environment does not say it: PGSSLMODE (the URL's sslmode counts) and PGOPTIONS.
    ssl: false,
    options: `-c ${SEARCH_PATH}`,
    types: TYPES,
  };
}
