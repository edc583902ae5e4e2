import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { auditCodec } from '../../src/lane/audit-codec.js';
import type { RowChange } from '../../src/ledger/working-set.js';
import { commitBatch, didCommit, gatherBatch, type Seam } from '../../src/store/batch-transaction.js';
import { PipelineConnection, type Statement } from '../../src/store/connection.js';
import { laneStatement, writeStatements } from '../../src/store/write-statements.js';
import { DOMAIN, type EffectWorld, openWorld, seedGrant } from '../support/effect-world.js';
import { patientUrl } from '../support/postgres.js';

// architecture.md, Commit and "pg in pipeline mode": what the second flight may say.

let world: EffectWorld;
let connection: PipelineConnection;
let other: PipelineConnection;

beforeAll(async () => {
  world = await openWorld();
});
beforeEach(async () => {
  [connection, other] = [await open(), await open()];
});
afterEach(async () => {
  connection.destroy();
  other.destroy();
});
afterAll(() => world.close());

function open(url = patientUrl(world.database.serviceUrl)): Promise<PipelineConnection> {
  return PipelineConnection.open({ url, applicationName: 'surety-commit-test' });
}

/** Opens the batch's transaction, with the domain locked. */
async function begin(on = connection): Promise<void> {
  const gathered = await gatherBatch(on, {
    domainId: DOMAIN,
    reads: [{}],
    codec: auditCodec,
    seen: undefined,
  });
  expect(gathered.kind).toBe('gathered');
}

const noFault = (): undefined => undefined;
let made = 0;

/** A statement that is right, and a name under which it is found when it was committed. */
function lane(batch = 1n): { name: string; statement: Statement } {
  made += 1;
  const name = `lane-${made}`;
  return { name, statement: laneStatement(DOMAIN, name, batch, 1n) };
}

async function isThere(name: string): Promise<boolean> {
  const { rows } = await world.admin.query('SELECT FROM lanes WHERE lane_id = $1', [name]);
  return rows.length === 1;
}

describe('a commit flight', () => {
  test('is known to have taken effect when it returns', async () => {
    await begin();
    const { name, statement } = lane();
    await commitBatch(connection, [statement], noFault);
    expect(await isThere(name)).toBe(true);
    expect(connection.transactionStatus()).toBe('I');
  });

  test('is not begun outside of a transaction, nor in one that failed', async () => {
    const { name, statement } = lane();
    await expect(commitBatch(connection, [statement], noFault)).rejects.toMatchObject({
      failure: 'not_done',
    });
    await connection.flight([{ text: 'BEGIN' }, { text: 'SELECT 1/0' }]);
    // The driver tells the error a moment before the status that comes behind it.
    await expect.poll(() => connection.transactionStatus()).toBe('E');
    await expect(commitBatch(connection, [statement], noFault)).rejects.toMatchObject({
      failure: 'not_done',
    });
    expect(await isThere(name)).toBe(false);
  });

  const BROKEN: Readonly<Record<string, { statement: Statement; failure: object }>> = {
    'that the server refuses': {
      statement: { text: 'INSERT INTO lanes (domain_id) VALUES ($1)', values: ['x'] },
      failure: { failure: 'not_done', transient: false, detail: '23502' },
    },
    'that conflicts': {
      statement: { text: "DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '40001'; END $$" },
      failure: { failure: 'not_done', transient: true, detail: '40001' },
    },
    'whose name the driver knows for another': {
      statement: { name: 'put_lane', text: 'SELECT 1' },
      failure: { failure: 'not_done', transient: false },
    },
    'whose value the driver cannot bind': {
      statement: {
        text: 'SELECT $1::text',
        values: [
          {
            toPostgres: () => {
              throw new Error('no text');
            },
          } as never,
        ],
      },
      failure: { failure: 'not_done', transient: false },
    },
    'without text': {
      statement: { text: undefined as never },
      failure: { failure: 'not_done', transient: false },
    },
  };

  test.each(Object.keys(BROKEN).flatMap((what) => [0, 1, 2].map((place) => ({ what, place }))))(
    'with a statement $what, at place $place: not done, and nothing of it is there',
    async ({ what, place }) => {
      const { statement, failure } = BROKEN[what] as (typeof BROKEN)[string];
      // The name is taken.
      await begin();
      await commitBatch(connection, [lane().statement], noFault);
      await begin();
      const good = [lane(), lane()];
      const statements = good.map((one) => one.statement);
      statements.splice(place, 0, statement);
      await expect(commitBatch(connection, statements, noFault)).rejects.toMatchObject(failure);
      for (const { name } of good) expect(await isThere(name)).toBe(false);
      // Nobody is kept waiting.
      await begin(other);
    },
  );

  test('a bind that failed does not spoil another connection', async () => {
    await begin();
    const poison = BROKEN['whose value the driver cannot bind']?.statement as Statement;
    const failed = commitBatch(connection, [poison], noFault).catch(() => undefined);
    const [answer] = await other.flight([{ text: 'SELECT $1::text AS value', values: ['untouched'] }]);
    expect(answer).toMatchObject({ status: 'fulfilled', value: { rows: [{ value: 'untouched' }] } });
    await failed;
  });

  test('that touches another number of rows than were changed is not done', async () => {
    const grant = await seedGrant(world);
    const statementsFor = (uses: bigint): Statement[] => {
      const change = {
        table: 'grants',
        before: { ...grant, uses },
        after: { ...grant, uses: 7n },
      } as unknown;
      return writeStatements(DOMAIN, {
        rows: [change as RowChange],
        head: undefined,
        domain: undefined,
        createdDomains: [],
        serviceLimit: undefined,
      });
    };
    await begin();
    // Read with five uses, stored with none: somebody else changed it.
    await expect(commitBatch(connection, statementsFor(5n), noFault)).rejects.toMatchObject({
      failure: 'not_done',
      transient: true,
    });
    await begin(other);
    await commitBatch(other, statementsFor(0n), noFault);
    const { rows } = await world.admin.query('SELECT uses FROM grants WHERE grant_id = $1', [grant.grantId]);
    expect(rows).toEqual([{ uses: '7' }]);
  });

  test('names a row that was inserted and one that was removed, in an order that frees keys first', () => {
    const effect = { effectId: 'e', openedAt: 1n };
    const statements = writeStatements(DOMAIN, {
      rows: [
        { table: 'pending_work', before: undefined, after: effect },
        { table: 'grants', before: { grantId: 'g' }, after: { grantId: 'g' } },
        { table: 'pending_work', before: { ...effect, effectId: 'f' }, after: undefined },
      ] as unknown as RowChange[],
      head: undefined,
      domain: undefined,
      createdDomains: [],
      serviceLimit: undefined,
    });
    expect(statements.map(({ name }) => name)).toEqual([
      'delete_pending_work_one',
      'update_grants_one',
      'insert_pending_work_one',
    ]);
  });

  test('never updates what is append-only', () => {
    const change = {
      table: 'audit_entries',
      before: { seq: 1n },
      after: { seq: 1n },
    } as unknown as RowChange;
    const log = {
      rows: [change],
      head: undefined,
      domain: undefined,
      createdDomains: [],
      serviceLimit: undefined,
    };
    expect(() => writeStatements(DOMAIN, log)).toThrow('audit_entries is never updated');
  });

  test('whose connection is lost is unknown, at whatever moment', async () => {
    await begin();
    const { name, statement } = lane();
    const lost = commitBatch(connection, [statement], noFault);
    setImmediate(() => connection.destroy());
    await expect(lost).rejects.toMatchObject({ failure: 'unknown' });
    expect([true, false]).toContain(await isThere(name));

    connection = await open();
    await begin();
    connection.destroy();
    await expect(commitBatch(connection, [lane().statement], noFault)).rejects.toMatchObject({
      failure: 'unknown',
    });
  });

  test('whose session the server ended while it was idle is not done', async () => {
    connection.destroy();
    connection = await open(world.database.serviceUrl);
    await begin();
    await expect.poll(() => connection.usable).toBe(false);
    const { name, statement } = lane();
    await expect(commitBatch(connection, [statement], noFault)).rejects.toMatchObject({
      failure: 'not_done',
      transient: true,
      detail: '25P03',
    });
    expect(await isThere(name)).toBe(false);
  });

  test('meets its seams in order: between any two statements, and before COMMIT', async () => {
    await begin();
    const seams: Seam[] = [];
    const statements = [lane(), lane(), lane()].map((one) => one.statement);
    await commitBatch(connection, statements, (seam) => {
      seams.push(seam);
      return undefined;
    });
    expect(seams).toEqual(['in-commit-1', 'in-commit-2', 'before-commit']);
  });

  test('a fault between two statements strikes when those before it are done', async () => {
    await begin();
    const { name, statement } = lane();
    const locked = async (seam: Seam): Promise<void> => {
      expect(seam).toBe('in-commit-1');
      const idle = `SELECT query FROM pg_stat_activity WHERE datname = current_database()
        AND application_name = 'surety-commit-test' AND state = 'idle in transaction'`;
      const lastQuery = async (): Promise<unknown> => (await world.admin.query(idle)).rows[0]?.query;
      await expect.poll(lastQuery).toContain('INSERT INTO lanes');
    };
    await commitBatch(connection, [statement, lane().statement], (seam) =>
      seam === 'in-commit-1' ? locked(seam) : undefined,
    );
    expect(await isThere(name)).toBe(true);
  });
});

describe('asking what became of a COMMIT', () => {
  test('waits until the lost transaction is over, and then says', async () => {
    for (const end of ['COMMIT', 'ROLLBACK']) {
      await begin();
      const { name, statement } = lane(5n);
      await connection.flight([statement]);
      let said = false;
      const asked = didCommit(other, DOMAIN, name, 5n).finally(() => (said = true));
      await pause(300);
      expect(said).toBe(false);
      await connection.flight([{ text: end }]);
      expect(await asked).toBe(end === 'COMMIT');
    }
  });

  test('knows one batch from another', async () => {
    await begin();
    const { name, statement } = lane(5n);
    await commitBatch(connection, [statement], noFault);
    expect(await didCommit(other, DOMAIN, name, 5n)).toBe(true);
    expect(await didCommit(other, DOMAIN, name, 6n)).toBe(false);
    expect(await didCommit(other, DOMAIN, 'never seen', 1n)).toBe(false);
  });

  test('leaves no transaction behind, and says so where the store is away', async () => {
    expect(await didCommit(other, DOMAIN, 'never seen', 1n)).toBe(false);
    expect(other.transactionStatus()).toBe('I');
    other.destroy();
    await expect(didCommit(other, DOMAIN, 'never seen', 1n)).rejects.toMatchObject({ name: 'StoreError' });
  });
});

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
