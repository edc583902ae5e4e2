import pg from 'pg';
import type { AuditCodec } from '../ledger/audit/records.js';
import { endOfPeriod, nextIncarnation } from '../ledger/authority/incarnation.js';
import type { DomainRow } from '../ledger/authority/records.js';
import { restoreDomain } from '../ledger/authority/restore-domain.js';
import { refusal } from '../ledger/refusal.js';
import { Refused, runDecision } from '../ledger/run-decision.js';
import type { Micros } from '../ledger/types.js';
import { type StoreFacts, WorkingSet } from '../ledger/working-set.js';
import { MAX_CLOCK_REGRESSION } from './batch-transaction.js';
import { clientConfig, type Statement } from './connection.js';
import { DOMAIN_COLUMNS, domainOf, HEAD_COLUMNS, headOf } from './domain-rows.js';
import { assertSchemaCurrent } from './migrate.js';
import { MigrationError, toMigrationError } from './migrate-error.js';
import { writeStatements } from './write-statements.js';

/** What {@link beginIncarnation} takes. */
export interface RestoreInput {
  /** Of the migrating role: the serving one may not raise the incarnation. */
  readonly url: string;
  readonly codec: AuditCodec;
  /** Minted by the caller, for the log. */
  readonly commandId: string;
  /** {@link RestoreState.nextIncarnation} of some time ago: its period has to be over. */
  readonly incarnation: bigint;
}

/** What the store says of itself before a restore, or between two. */
export interface RestoreState {
  readonly incarnation: bigint;
  /** The one that a restore begins that is called for now; undefined where none is left. */
  readonly nextIncarnation: bigint | undefined;
  /** The store's clock. */
  readonly now: Micros;
  /** Whether `surety migrate --test` has marked it. */
  readonly testDatabase: boolean;
  /** Connections of services to the same database, as far as the server shows them. */
  readonly services: bigint;
}

/** What {@link beginIncarnation} did. */
export interface BegunIncarnation {
  readonly incarnation: bigint;
  readonly domains: number;
}

/** A restore that is not to be begun; nothing was changed. Its message is for the person who called for it. */
export class RestoreRefused extends Error {
  override readonly name = 'RestoreRefused';
}

interface StateRow {
  readonly incarnation: bigint;
  readonly test_database: boolean;
  readonly audience: string | null;
  readonly service_domain_id: string | null;
  readonly now: Micros;
}

/** A service holds a domain's head for milliseconds; one that is stuck for longer is to be stopped first. */
const LOCK_TIMEOUT_MS = 30_000;
/** Domains of one page: so many rows are in memory at once. */
const DOMAINS_PER_PAGE = 500;

const READ_STATE = `SELECT incarnation, test_database, surety_now() AS now,
  (SELECT count(*) FROM pg_stat_activity
   WHERE datname = current_database() AND application_name IN ('surety', 'surety-start', 'surety-archive')) AS services
  FROM service_state`;
/** Behind the lock of the service's own domain no domain is made any more: each is found by the next statement. */
const LOCK_OWN_HEAD = `SELECT FROM domain_heads
  WHERE domain_id = (SELECT service_domain_id FROM service_state) FOR NO KEY UPDATE`;
const LOCK_HEADS = `SELECT count(*) FROM (SELECT FROM domain_heads ORDER BY domain_id FOR NO KEY UPDATE) AS locked`;
/** Statements of their own behind the locks: within the locking one they would be as old as the wait. */
const READ_HEADS = `SELECT domain_id, ${HEAD_COLUMNS} FROM domain_heads
  WHERE domain_id > $1 ORDER BY domain_id LIMIT ${DOMAINS_PER_PAGE}`;
const READ_DOMAINS = `SELECT domain_id, ${DOMAIN_COLUMNS} FROM domains WHERE domain_id = ANY ($1)`;
const READ_CLOCK = 'SELECT surety_now() AS now';
const LOCK_STATE = `SELECT incarnation, test_database, audience, service_domain_id,
  (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + clock_offset AS now FROM service_state FOR UPDATE`;
const RAISE = 'UPDATE service_state SET incarnation = $1';

/**
 * What a restore is about to work on. Changes nothing.
 *
 * @throws MigrationError where the schema is not this program's, or the database does not answer
 */
export async function readRestoreState(url: string): Promise<RestoreState> {
  return onConnection(url, async (client) => {
    await assertSchemaCurrent(client);
    const { rows } = await client.query(READ_STATE);
    const [row] = rows as { incarnation: bigint; test_database: boolean; now: Micros; services: bigint }[];
    if (row === undefined) throw lostState();
    const { incarnation, now, services } = row;
    const next = nextIncarnation(incarnation, now);
    return { incarnation, nextIncarnation: next, now, testDatabase: row.test_database, services };
  });
}

/**
 * The first part of a restore (effects.md, Restore), in one transaction under the locks of all domains, so that every
 * batch of a service that still runs comes wholly before it or wholly after it: raises the incarnation once, and in each
 * domain freezes, and bumps policy revision and revocation epoch, with an entry in its log. What it does in a domain does
 * not depend on how many effects that has; those are moved afterwards, and until then nothing can start, cancel or expire
 * them.
 *
 * @throws {Refused} STORE_REGRESSED where the clock stands too far behind a domain's last time; nothing was changed
 * @throws {RestoreRefused} where the incarnation is not to be begun, or not yet; nothing was changed
 * @throws MigrationError where the database does not answer
 */
export async function beginIncarnation(input: RestoreInput): Promise<BegunIncarnation> {
  return onConnection(input.url, async (client) => {
    await client.query('BEGIN ISOLATION LEVEL READ COMMITTED');
    // In the order of a lane, which locks its domain first and may then come for this row.
    await client.query(LOCK_OWN_HEAD);
    await client.query(LOCK_HEADS);
    const [state] = (await client.query(LOCK_STATE)).rows as StateRow[];
    if (state === undefined) throw lostState();
    refuseToBegin(state, input.incarnation);
    const facts: StoreFacts = {
      incarnation: input.incarnation,
      audience: state.audience ?? '',
      serviceDomainId: state.service_domain_id ?? '',
    };
    await client.query(RAISE, [facts.incarnation.toString()]);
    let domains = 0;
    let after = '';
    for (;;) {
      const page = await restorePage(client, facts, after, input);
      domains += page.length;
      after = page.at(-1) ?? after;
      if (page.length < DOMAINS_PER_PAGE) break;
    }
    await client.query('COMMIT');
    return { incarnation: facts.incarnation, domains };
  });
}

/**
 * Under the locks: no restore that begins later chooses this incarnation, and none that began earlier has it. A test database
 * may be brought to any time, and is not waited for.
 */
function refuseToBegin(state: StateRow, incarnation: bigint): void {
  if (state.incarnation >= incarnation) {
    throw new RestoreRefused(
      `Another restore has begun incarnation ${state.incarnation} meanwhile. This one has changed nothing.`,
    );
  }
  if (!state.test_database && state.now < endOfPeriod(incarnation)) {
    throw new RestoreRefused(
      `The database's clock has gone back: the period of incarnation ${incarnation} is not over yet. Nothing was changed.`,
    );
  }
}

/** @returns the domains that were changed, in order */
async function restorePage(
  client: pg.Client,
  facts: StoreFacts,
  after: string,
  { codec, commandId }: RestoreInput,
): Promise<string[]> {
  const heads = (await client.query(READ_HEADS, [after])).rows as Readonly<Record<string, unknown>>[];
  const domainIds = heads.map((row) => row['domain_id'] as string);
  const domains = new Map<unknown, DomainRow>();
  for (const row of (await client.query(READ_DOMAINS, [domainIds])).rows) {
    domains.set(row.domain_id, domainOf(row));
  }
  const clock = (await client.query(READ_CLOCK)).rows[0].now as Micros;
  for (const row of heads) {
    const domainId = row['domain_id'] as string;
    const domain = domains.get(domainId);
    if (domain === undefined) throw new MigrationError('HISTORY_BROKEN', `${domainId} has a log and no row.`);
    const head = headOf(row);
    const set = new WorkingSet({ domainId, facts, codec, now: laterOf(clock, head.lastTime), head, domain });
    runDecision(set, restoreDomain, { domainId, commandId });
    await run(client, writeStatements(domainId, set.changes()));
  }
  return domainIds;
}

/** The store's clock never goes back (architecture.md). */
function laterOf(clock: Micros, lastTime: Micros): Micros {
  if (clock >= lastTime) return clock;
  if (lastTime - clock <= MAX_CLOCK_REGRESSION) return lastTime;
  throw new Refused(refusal('STORE_REGRESSED', "The store's clock stands behind what the log says."));
}

async function run(client: pg.Client, statements: readonly Statement[]): Promise<void> {
  for (const { text, values } of statements) await client.query(text, [...(values ?? [])]);
}

async function onConnection<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({
    ...clientConfig({ url, applicationName: 'surety-restore' }),
    lock_timeout: LOCK_TIMEOUT_MS,
    statement_timeout: LOCK_TIMEOUT_MS * 2,
    // Between two statements nothing is waited for.
    idle_in_transaction_session_timeout: LOCK_TIMEOUT_MS,
  });
  // A connection that breaks between two queries emits an error, which nobody listening to would end the process.
  client.on('error', () => {});
  try {
    await client.connect();
    return await work(client);
  } catch (error) {
    throw error instanceof Refused || error instanceof RestoreRefused ? error : failureOf(error);
  } finally {
    // What was not committed goes with the connection.
    await client.end().catch(() => {});
  }
}

/** The driver's words carry names, values and SQL. */
function failureOf(error: unknown): MigrationError {
  return toMigrationError(error, 'The database refused a statement of the restore');
}

function lostState(): MigrationError {
  return new MigrationError('HISTORY_BROKEN', 'The database has lost the row that says what it is.');
}
