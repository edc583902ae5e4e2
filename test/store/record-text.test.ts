import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { PipelineConnection } from '../../src/store/connection.js';
import { parseRecord } from '../../src/store/record-text.js';
import { createTestDatabase, type TestDatabase } from '../support/postgres.js';

// What Postgres makes of a row that travels as one value, read back field by field.

let database: TestDatabase;
let connection: PipelineConnection;
beforeAll(async () => {
  database = await createTestDatabase();
  connection = await PipelineConnection.open({ url: database.url, applicationName: 'surety-record-test' });
});
afterAll(async () => {
  connection.destroy();
  await database.drop();
});

/** Each field beside the same value within a row. */
async function sent(
  expression: string,
  values: readonly (string | null)[],
): Promise<{ alone: unknown; within: string }> {
  const [answer] = await connection.flight([
    { text: `SELECT ${expression}, ROW(${expression})`, values, raw: true },
  ]);
  if (answer?.status !== 'fulfilled') throw answer?.reason;
  const columns = answer.value.rows[0] as unknown as (string | null)[];
  return { alone: columns.slice(0, -1), within: columns.at(-1) as string };
}

const TROUBLE = ['', '"', '\\', ',', '(', ')', ' ', '\n', '\t', 'x', '""', '\\\\', '\\x', '€', '𝄞', '{', '}'];
const aText = fc.oneof(
  fc.string({ unit: fc.constantFrom(...TROUBLE), maxLength: 6 }),
  fc.string({ unit: 'grapheme', maxLength: 8 }).filter((text) => !text.includes('\0')),
);

describe('a row as text', () => {
  test('of any texts and nulls is what its columns are', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.option(aText), { minLength: 2, maxLength: 7 }), async (values) => {
        const { alone, within } = await sent(values.map((_, i) => `$${i + 1}::text`).join(', '), values);
        expect(parseRecord(within)).toEqual(alone);
        expect(alone).toEqual(values);
      }),
      { numRuns: 300 },
    );
  });

  test('of octets, numbers, truths and lists is what its columns are', async () => {
    const { alone, within } = await sent(
      `'\\x'::bytea, '\\x00ff5c22'::bytea, (-9223372036854775808)::bigint, true, NULL::bytea, '{}'::text[],
       ARRAY['a', '', NULL, 'b "c" \\ d,e', '{}'], ARRAY['\\x5c'::bytea, '\\x'], ARRAY[1, -2], 'end'::text`,
      [],
    );
    expect(parseRecord(within)).toEqual(alone);
  });

  test.each([
    ['(a,,"")', ['a', null, '']],
    ['(,)', [null, null]],
    ['("\\\\x5c22")', ['\\x5c22']],
    // What begins like octets and is a text.
    ['("\\\\xy""z\\\\")', ['\\xy"z\\']],
    ['("\\\\x \\\\")', ['\\x \\']],
  ])('%s', (text, fields) => {
    expect(parseRecord(text)).toEqual(fields);
  });

  test('that ends within a quote is none', () => {
    expect(() => parseRecord('("a,b)')).toThrow('within a quote');
  });
});
