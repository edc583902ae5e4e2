import type { AuditCodec } from '../ledger/audit/records.js';
import type { Reads } from '../ledger/reads.js';
import { refusal } from '../ledger/refusal.js';
import { Refused } from '../ledger/run-decision.js';
import { WorkingSet } from '../ledger/working-set.js';
import type { Answer, ConnectionSettings, Statement, Value } from './connection.js';
import { ConnectionPool } from './connection-pool.js';
import { DOMAIN_COLUMNS, domainOf, HEAD_COLUMNS, headOf } from './domain-rows.js';
import { planGather } from './gather.js';
import type { QueryParameter, Reader } from './reader.js';
import { encodeArray } from './row-codec.js';
import { loadStatements } from './sql-files.js';
import { detailOf, isTransient, StoreError } from './store-error.js';

/** An old snapshot slows the domain's row for everybody (architecture.md), so no read may last longer, in milliseconds. */
const READ_TIMEOUT_MS = 2_000;
/** A read that met a lost connection is tried once more: it decided nothing. */
const READ_ATTEMPTS = 2;
const RETRY_AFTER = 1_000_000n;

const BEGIN_SNAPSHOT: Statement = { text: 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY' };
const READ_HEAD = `SELECT ${HEAD_COLUMNS} FROM domain_heads WHERE domain_id = $1`;
const READ_FACTS = `SELECT incarnation, audience, service_domain_id,
  (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + clock_offset AS now FROM service_state`;
const READ_DOMAIN = `SELECT ${DOMAIN_COLUMNS} FROM domains WHERE domain_id = $1`;

/** Reads on a pool of their own. */
export class PgReader implements Reader {
  private readonly pool: ConnectionPool;
  private readonly statements = loadStatements('./sql/queries');

  constructor(
    settings: ConnectionSettings,
    size: number,
    private readonly codec: AuditCodec,
    onPoolWait?: (ms: number) => void,
  ) {
    this.pool = new ConnectionPool(
      { ...settings, statementTimeoutMs: READ_TIMEOUT_MS, planEachTime: true },
      size,
      onPoolWait,
    );
  }

  async gather(domainId: string, reads: Reads): Promise<WorkingSet | undefined> {
    const plan = planGather(domainId, [reads], { lock: false });
    const head: Statement[] = [
      BEGIN_SNAPSHOT,
      { name: 'read_head', text: READ_HEAD, values: [domainId] },
      { name: 'read_facts', text: READ_FACTS },
      { name: 'read_domain', text: READ_DOMAIN, values: [domainId] },
    ];
    const answers = await this.flight([...head, ...plan.statements, { text: 'COMMIT' }]);
    const [, headRow, facts, domain] = answers.map((answer) => answer.rows[0]);
    if (!headRow || !facts || !domain) return undefined;
    const domainHead = headOf(headRow);
    const clock = facts['now'] as bigint;
    const set = new WorkingSet({
      domainId,
      codec: this.codec,
      now: clock > domainHead.lastTime ? clock : domainHead.lastTime,
      head: domainHead,
      domain: domainOf(domain),
      facts: {
        incarnation: facts['incarnation'] as bigint,
        audience: (facts['audience'] as string | null) ?? '',
        serviceDomainId: (facts['service_domain_id'] as string | null) ?? '',
      },
    });
    plan.fill(set, answers.slice(head.length));
    return set;
  }

  async query<Row extends object>(name: string, parameters: readonly QueryParameter[]): Promise<Row[]> {
    const text = this.statements.get(name);
    if (text === undefined) throw new Error(`no statement ${name}`);
    const [answer] = await this.flight([
      { name: `query_${name}`, text, values: parameters.map(encodeParameter) },
    ]);
    return (answer?.rows ?? []).map((row) => camelRow(row) as Row);
  }

  /** How many connections are in use, and how many calls wait, for metrics. */
  get load(): { readonly inUse: number; readonly waiting: number } {
    return this.pool.load;
  }

  close(): Promise<void> {
    return this.pool.close();
  }

  private async flight(statements: readonly Statement[]): Promise<Answer[]> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.flightOnce(statements);
      } catch (error) {
        if (!(error instanceof StoreError)) throw error;
        if (!error.transient) throw error;
        if (attempt < READ_ATTEMPTS) continue;
        throw new Refused(
          refusal('STORE_UNAVAILABLE', 'The store cannot be reached.', { retryAfter: RETRY_AFTER }),
        );
      }
    }
  }

  private async flightOnce(statements: readonly Statement[]): Promise<Answer[]> {
    const connection = await this.pool.acquire();
    let healthy = false;
    try {
      const settled = await connection.flight(statements);
      const answers = settled.map((result) => {
        if (result.status === 'fulfilled') return result.value;
        throw new StoreError('not_done', isTransient(result.reason), detailOf(result.reason), {
          cause: result.reason,
        });
      });
      healthy = true;
      return answers;
    } finally {
      this.pool.release(connection, healthy);
    }
  }
}

function encodeParameter(value: QueryParameter): Value {
  if (value === null || typeof value === 'string') return value;
  if (typeof value === 'boolean') return value ? 't' : 'f';
  if (Buffer.isBuffer(value)) return `\\x${value.toString('hex')}`;
  if (typeof value === 'object') return encodeArray('text', value);
  return String(value);
}

function camelRow(row: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const result: Record<string, unknown> = {};
  for (const [column, value] of Object.entries(row)) {
    result[column.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())] = value;
  }
  return result;
}
