import pg from 'pg';
import { genesisHash } from '../ledger/audit/chain.js';
import type { AuditCodec } from '../ledger/audit/records.js';
import { NO_COUNTS } from '../ledger/admission/records.js';
import { bootstrapDomain, type FirstOperator, firstDomain } from '../ledger/authority/bootstrap-domain.js';
import { refusal } from '../ledger/refusal.js';
import { Refused } from '../ledger/run-decision.js';
import { Draft, WorkingSet } from '../ledger/working-set.js';
import type { Statement } from './connection.js';
import { TYPES } from './row-codec.js';
import { insertDomain, insertHead } from './domain-statements.js';
import { writeStatements } from './write-statements.js';

/** What {@link bootstrap} takes. */
export interface BootstrapInput {
  /** Of the migrating role: the serving one may not name the service. */
  readonly url: string;
  /** The service's SPIFFE ID: what signed statements name as their audience. */
  readonly audience: string;
  /** The service's own domain; the trust domain of `audience`, unless it was named. */
  readonly serviceDomainId: string;
  readonly operator: FirstOperator;
  /** Minted by the caller, for the log. */
  readonly commandId: string;
  readonly codec: AuditCodec;
}

const CONNECT_TIMEOUT_MS = 10_000;
/** Another bootstrap holds the row for some milliseconds. */
const LOCK_TIMEOUT_MS = 10_000;

/**
 * Makes the service's own domain with its first operator and entry 1 of its log, in one transaction, while no operator
 * exists (authority.md, Bootstrap). Of several at once, one does it.
 *
 * @throws {Refused} ALREADY_BOOTSTRAPPED, and nothing was changed
 * @throws the driver's error where the database is away or refuses
 */
export async function bootstrap(input: BootstrapInput): Promise<void> {
  const client = new pg.Client({
    connectionString: input.url,
    application_name: 'surety-bootstrap',
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    lock_timeout: LOCK_TIMEOUT_MS,
    types: TYPES,
  });
  // A connection that breaks between two queries emits an error, which nobody listening to would end the process.
  client.on('error', () => {});
  try {
    await client.connect();
    await client.query('BEGIN ISOLATION LEVEL READ COMMITTED');
    await write(client, input);
    await client.query('COMMIT');
  } finally {
    // What was not committed goes with the connection.
    await client.end().catch(() => {});
  }
}

async function write(client: pg.Client, input: BootstrapInput): Promise<void> {
  const { audience, serviceDomainId } = input;
  const state = await client.query('SELECT incarnation, service_domain_id FROM service_state FOR UPDATE');
  const { incarnation, service_domain_id: named } = state.rows[0] as {
    incarnation: bigint;
    service_domain_id: string | null;
  };
  // A statement of its own behind the lock: whoever held it has committed by now.
  const operators = await client.query('SELECT FROM operators LIMIT 1');
  if (named !== null || operators.rowCount !== 0) {
    throw new Refused(refusal('ALREADY_BOOTSTRAPPED', 'The database has its first operator already.'));
  }
  await client.query('UPDATE service_state SET audience = $1, service_domain_id = $2', [
    audience,
    serviceDomainId,
  ]);
  const clock = await client.query('SELECT surety_now() AS now');
  const { now } = clock.rows[0] as { now: bigint };
  const domain = firstDomain(now);
  await run(client, [insertDomain(serviceDomainId, domain), insertHead(serviceDomainId, now)]);
  const set = new WorkingSet({
    domainId: serviceDomainId,
    facts: { incarnation, audience, serviceDomainId },
    codec: input.codec,
    now,
    head: {
      seq: 0n,
      chainHash: genesisHash(serviceDomainId),
      incarnation: 0n,
      fenceCounter: 0n,
      lastTime: now,
      counters: NO_COUNTS,
    },
    domain,
  });
  const draft = new Draft(set);
  bootstrapDomain(draft, input.operator, input.commandId);
  set.apply(draft);
  await run(client, writeStatements(serviceDomainId, set.changes()));
}

async function run(client: pg.Client, statements: readonly Statement[]): Promise<void> {
  for (const { text, values } of statements) await client.query(text, [...(values ?? [])]);
}
