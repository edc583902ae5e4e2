import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Answer, PipelineConnection, type Statement } from '../../src/store/connection.js';
import { UnsendableError } from '../../src/store/flight.js';
import { createTestDatabase, type TestDatabase } from '../support/postgres.js';

// architecture.md, "pg in pipeline mode": statements that travel together, as one query of the driver's.

let database: TestDatabase;
let connection: PipelineConnection;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());
beforeEach(async () => {
  connection = await PipelineConnection.open({
    url: database.url,
    applicationName: 'surety-flight-test',
  });
});
afterEach(() => connection.destroy());

const echo = (value: string | null, more: Partial<Statement> = {}): Statement => ({
  name: 'echo',
  text: 'SELECT $1::text AS the_value, 7::bigint AS number',
  values: [value],
  ...more,
});

async function fly(...statements: Statement[]): Promise<Answer[]> {
  const settled = await connection.flight(statements);
  return settled.map((result) => {
    if (result.status === 'rejected') throw result.reason;
    return result.value;
  });
}

async function prepared(): Promise<string[]> {
  const [answer] = await fly({ text: 'SELECT name FROM pg_prepared_statements ORDER BY name' });
  return (answer?.rows ?? []).map((row) => row['name'] as string);
}

describe('a flight', () => {
  test.each(['', 'plain', 'ä€𝄞', `"quoted" \\ 'text'`, 'x'.repeat(100_000), '€'.repeat(20_000), null])(
    'brings values as they are (%#)',
    async (value) => {
      for (let time = 0; time < 3; time += 1) {
        const answers = await fly(echo(value), echo('other'), { text: 'SELECT 1 AS one' });
        expect(answers).toEqual([
          { rows: [{ the_value: value, number: 7n }], rowCount: 1, command: 'SELECT' },
          { rows: [{ the_value: 'other', number: 7n }], rowCount: 1, command: 'SELECT' },
          { rows: [{ one: 1 }], rowCount: 1, command: 'SELECT' },
        ]);
      }
    },
  );

  test('leaves the columns of a raw statement as they came', async () => {
    for (let time = 0; time < 2; time += 1) {
      expect((await fly(echo('a', { raw: true })))[0]?.rows).toEqual([['a', '7']]);
    }
  });

  test('says what each statement did, also one without rows', async () => {
    const table = 'CREATE TEMPORARY TABLE pile (n integer)';
    const insert = { name: 'fill', text: 'INSERT INTO pile SELECT generate_series(1, 3)' };
    const answers = await fly({ text: table }, insert, insert, { text: 'SELECT n FROM pile' });
    expect(answers.map(({ command, rowCount }) => [command, rowCount])).toEqual([
      ['CREATE', 0],
      ['INSERT', 3],
      ['INSERT', 3],
      ['SELECT', 6],
    ]);
  });

  test('is one transaction in itself: what follows a failure is not done, nor what came before', async () => {
    await fly({ text: 'CREATE TABLE tried (n integer)' });
    const insert = { text: 'INSERT INTO tried VALUES (1)' };
    const settled = await connection.flight([insert, { text: 'SELECT 1/0' }, insert, { text: 'COMMIT' }]);
    expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected', 'rejected']);
    expect(settled.slice(1)).toEqual(Array.from({ length: 3 }, () => settled[1]));
    expect(settled[1]).toMatchObject({ reason: { code: '22012' } });
    expect((await fly({ text: 'SELECT n FROM tried' }))[0]?.rows).toEqual([]);
  });

  test('of which one statement cannot be sent is not sent at all', async () => {
    for (const bad of [{ text: 'SELECT $1::text', values: [7 as never] }, { text: undefined as never }]) {
      const settled = await connection.flight([echo('a'), bad, echo('b')]);
      expect(settled).toMatchObject(
        Array.from({ length: 3 }, () => ({ status: 'rejected', reason: expect.any(UnsendableError) })),
      );
    }
    expect(await prepared()).toEqual([]);
  });
});

describe('a statement with a name', () => {
  test('is prepared once, also when it is twice in a flight', async () => {
    await fly(echo('a'), echo('b'));
    await fly(echo('c'));
    expect(await prepared()).toEqual(['echo']);
  });

  test('that was passed over behind a failure is prepared when its turn comes', async () => {
    const first = { name: 'first', text: 'SELECT 1 AS one' };
    const settled = await connection.flight([first, { name: 'failing', text: 'SELECT 1/0' }, echo('a')]);
    expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected']);
    expect(await prepared()).toEqual(['failing', 'first']);
    expect(await fly(first, echo('a'))).toMatchObject([{ rows: [{ one: 1 }] }, { rows: [{ number: 7n }] }]);
    // It failed when it was run, and was prepared all the same.
    expect((await connection.flight([{ name: 'failing', text: 'SELECT 1/0' }]))[0]).toMatchObject({
      reason: { code: '22012' },
    });
  });

  test('that the server cannot parse is no other the next time', async () => {
    const broken = { name: 'broken', text: 'SELECT FROM WHERE' };
    for (let time = 0; time < 2; time += 1) {
      expect((await connection.flight([broken]))[0]).toMatchObject({ reason: { code: '42601' } });
    }
    expect(await prepared()).toEqual([]);
    expect(await fly(echo('a'))).toHaveLength(1);
  });

  test('is refused another text', async () => {
    await fly(echo('a'));
    const settled = await connection.flight([{ name: 'echo', text: 'SELECT 1' }]);
    expect(settled[0]).toMatchObject({ reason: expect.any(UnsendableError) });
  });

  test('whose columns are not what they were is refused by the server', async () => {
    await fly({ text: 'CREATE TEMPORARY TABLE changing (n integer)' });
    const all = { name: 'all', text: 'SELECT * FROM changing' };
    await fly(all);
    await fly({ text: 'ALTER TABLE changing ADD COLUMN m text' });
    expect((await connection.flight([all]))[0]).toMatchObject({ reason: { code: '0A000' } });
  });
});

test('flights that are asked for at once follow each other', async () => {
  const all = await Promise.all(['a', 'b', 'c'].map((value) => fly(echo(value))));
  expect(all.map(([answer]) => answer?.rows[0]?.['the_value'])).toEqual(['a', 'b', 'c']);
});
