import { ADMITS_ALL } from '../support/admits-all.js';
import { readdirSync, readFileSync } from 'node:fs';
import fc from 'fast-check';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sha256 } from '../../src/ledger/encoding.js';
import { KEY_FIELDS, type TableName } from '../../src/ledger/tables.js';
import { PipelineConnection } from '../../src/store/connection.js';
import { encodeArray, encodeValue, TYPES } from '../../src/store/row-codec.js';
import type { ColumnType } from '../../src/store/table-spec.js';
import { columnName, TABLES } from '../../src/store/tables.js';
import { reserved, seedWorkers } from '../fault/effect-life.js';
import { DOMAIN, type EffectWorld, openWorld } from '../support/effect-world.js';

let world: EffectWorld;
let connection: PipelineConnection;

beforeAll(async () => {
  world = await openWorld();
  connection = await PipelineConnection.open({
    url: world.database.serviceUrl,
    applicationName: 'surety-test',
  });
});
afterAll(async () => {
  await connection.end();
  await world.close();
});

const NAMES = Object.keys(TABLES) as TableName[];

describe('the descriptions of tables', () => {
  const PG_TYPES: Readonly<Record<ColumnType, string>> = {
    text: 'text',
    int8: 'bigint',
    int4: 'integer',
    bool: 'boolean',
    bytea: 'bytea',
    'text[]': 'text[]',
    'int4[]': 'integer[]',
    'bytea[]': 'bytea[]',
  };

  interface Column {
    readonly name: string;
    readonly type: string;
    readonly nullable: boolean;
    readonly collation: string | null;
  }

  async function schemaOf(name: string): Promise<Column[]> {
    const { rows } = await world.admin.query<Column>(
      `SELECT attname AS name, format_type(atttypid, atttypmod) AS type, NOT attnotnull AS nullable, collname AS collation
        FROM pg_attribute LEFT JOIN pg_collation c ON c.oid = attcollation
        WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attname COLLATE "C"`,
      [name],
    );
    return rows;
  }

  test.each(NAMES)('%s: names, types and nullability are those of the schema', async (name) => {
    const nullable = nullableFields(name);
    const described = Object.entries(TABLES[name].columns as Record<string, ColumnType>).map(
      ([field, type]) => ({
        name: columnName(field),
        type: PG_TYPES[type],
        nullable: nullable.has(field),
        collation: type.startsWith('text') ? 'C' : null,
      }),
    );
    described.push({ name: 'domain_id', type: 'text', nullable: false, collation: 'C' });
    expect(await schemaOf(name)).toEqual(described.sort((a, b) => (a.name < b.name ? -1 : 1)));
    expect(TABLES[name].name).toBe(name);
  });

  test.each(NAMES)('%s: its key is the key of the schema, behind the domain', async (name) => {
    const { rows } = await world.admin.query<{ columns: string[] }>(
      `SELECT ARRAY(SELECT attname::text FROM unnest(conkey) WITH ORDINALITY AS k(num, place)
        JOIN pg_attribute ON attrelid = conrelid AND attnum = k.num ORDER BY k.place) AS columns
        FROM pg_constraint WHERE conrelid = $1::regclass AND contype = 'p'`,
      [name],
    );
    expect(rows).toEqual([
      { columns: ['domain_id', ...(KEY_FIELDS[name] as readonly string[]).map(columnName)] },
    ]);
  });

  test('every index that is not of one domain begins with it', async () => {
    const { rows } = await world.admin.query(
      `SELECT indexrelid::regclass::text AS name FROM pg_index JOIN pg_attribute a ON a.attrelid = indrelid AND a.attnum = indkey[0]
        WHERE indrelid = ANY ($1::regclass[]) AND a.attname <> 'domain_id'`,
      [NAMES],
    );
    expect(rows).toEqual([]);
  });

  test('guards and mutable fields are columns, and no key is mutable', () => {
    for (const name of NAMES) {
      const {
        columns,
        mutable,
        guards = [],
      } = TABLES[name] as unknown as Record<string, never> & {
        columns: Record<string, unknown>;
        mutable: string[];
        guards?: string[];
      };
      for (const field of [...mutable, ...guards]) expect(columns, `${name}.${field}`).toHaveProperty(field);
      for (const field of KEY_FIELDS[name] as readonly string[]) expect(mutable, name).not.toContain(field);
    }
  });
});

describe('values on their way to Postgres and back', () => {
  /** What a value becomes in the store. */
  async function echo(casts: readonly [ColumnType, unknown][]): Promise<unknown[]> {
    const columns = casts.map(([type], i) => `$${i + 1}::${type} AS c${i}`);
    const values = casts.map(([type, value]) => encodeValue(type, value));
    const [answer] = await connection.flight([{ text: `SELECT ${columns.join(', ')}`, values }]);
    if (answer?.status !== 'fulfilled') throw answer?.reason;
    return casts.map((_, i) => answer.value.rows[0]?.[`c${i}`]);
  }

  const INT8 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
  const INT4 = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });
  /** Whatever Postgres can hold: no NUL, no lone surrogate; what is refused at the door. */
  const TEXT = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 20 }).filter((text) => !text.includes('\0')),
    fc.string({
      unit: fc.constantFrom('"', '\\', ',', '{', '}', "'", ' ', '\t', '\n', 'N', 'U', 'L', '(', ')'),
      maxLength: 12,
    }),
    fc.constantFrom(
      '',
      'NULL',
      'null',
      '{}',
      '""',
      '\\',
      '\\\\',
      '\\"',
      'é',
      'e\u0301',
      '👩‍👩‍👧',
      '\u{10ffff}',
      '\u2028',
      ' a ',
    ),
  );
  const BYTES = fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes));

  test('come back as they were, alone and in arrays', async () => {
    const row = fc.record({
      text: TEXT,
      int8: INT8,
      int4: INT4,
      bool: fc.boolean(),
      bytea: BYTES,
      'text[]': fc.array(TEXT, { maxLength: 6 }),
      'int4[]': fc.array(INT4, { maxLength: 6 }),
      'bytea[]': fc.array(BYTES, { maxLength: 6 }),
    });
    await fc.assert(
      fc.asyncProperty(row, async (values) => {
        const casts = Object.entries(values) as [ColumnType, unknown][];
        expect(await echo(casts)).toEqual(Object.values(values));
      }),
      { numRuns: 300 },
    );
  });

  test('come back as they were as columns of many rows, arrays within arrays and nulls too', async () => {
    const rows = fc.array(
      fc.record({
        text: fc.option(TEXT),
        int8: fc.option(INT8),
        bool: fc.boolean(),
        bytea: fc.option(BYTES),
        texts: fc.array(TEXT, { maxLength: 4 }),
        numbers: fc.array(INT4, { maxLength: 4 }),
        digests: fc.array(BYTES, { maxLength: 4 }),
      }),
      { minLength: 1, maxLength: 8 },
    );
    const sql = `SELECT text, int8, bool, bytea, texts::text[] AS texts, numbers::integer[] AS numbers, digests::bytea[] AS digests
      FROM unnest($1::text[], $2::bigint[], $3::boolean[], $4::bytea[], $5::text[], $6::text[], $7::text[])
        WITH ORDINALITY AS r(text, int8, bool, bytea, texts, numbers, digests, place) ORDER BY place`;
    await fc.assert(
      fc.asyncProperty(rows, async (values) => {
        const column = (type: ColumnType, field: keyof (typeof values)[0]): Buffer =>
          encodeArray(
            type,
            values.map((value) => value[field]),
          );
        const [answer] = await connection.flight([
          {
            text: sql,
            values: [
              column('text', 'text'),
              column('int8', 'int8'),
              column('bool', 'bool'),
              column('bytea', 'bytea'),
              column('text[]', 'texts'),
              column('int4[]', 'numbers'),
              column('bytea[]', 'digests'),
            ],
          },
        ]);
        if (answer?.status !== 'fulfilled') throw answer?.reason;
        expect(answer.value.rows.map((found) => ({ ...found }))).toEqual(values);
      }),
      { numRuns: 200 },
    );
  });

  test('NFC and NFD stay two', async () => {
    const [nfc, nfd] = ['caf\u00e9', 'cafe\u0301'];
    expect(nfc.normalize('NFD')).toBe(nfd);
    await world.seed('principals', [
      { principalId: nfc, status: 'active', revision: 1n },
      { principalId: nfd, status: 'suspended', revision: 2n },
    ]);
    const set = await world.replica().reader.gather(DOMAIN, { principals: [nfc, nfd] });
    expect(set?.get('principals', nfc)).toEqual({ principalId: nfc, status: 'active', revision: 1n });
    expect(set?.get('principals', nfd)).toEqual({ principalId: nfd, status: 'suspended', revision: 2n });
  });

  test.each([2n ** 53n + 1n, 2n ** 63n - 1n])('a fence of %s', async (fence) => {
    const replica = world.replica();
    const like = await reserved(replica, await seedWorkers(world));
    const effectId = `effect with ${fence}`;
    const effect = {
      ...like,
      effectId,
      fence,
      identityDigest: sha256(effectId),
      keyDigest: sha256(`key ${effectId}`),
    };
    await world.seed('effects', [effect]);
    const set = await replica.reader.gather(DOMAIN, { effects: [effectId] });
    expect(set?.get('effects', effectId)).toEqual(effect);
    const plain = new pg.Client({ connectionString: world.database.url });
    await plain.connect();
    const { rows } = await plain.query('SELECT fence::text FROM effects WHERE fence = $1', [
      fence.toString(),
    ]);
    await plain.end();
    expect(rows).toEqual([{ fence: fence.toString() }]);
  });

  test('a row with what is hard to quote, through insert and gather', async () => {
    const replica = world.replica();
    const hard = 'a "b" \\c, {d} \' é e\u0301 👩‍👩‍👧 NULL';
    await world.seed('sinks', [
      {
        sink: hard,
        authoritySystems: [hard, '', 'NULL', '{}'],
        sendWindow: 2n ** 53n + 1n,
        settleTime: 0n,
        ...ADMITS_ALL,
        frozen: true,
        freezeReason: hard,
        revision: 2n ** 63n - 1n,
      },
    ]);
    const set = await replica.reader.gather(DOMAIN, { sinks: [hard, 'absent "\\'] });
    expect(set?.get('sinks', hard)).toEqual({
      sink: hard,
      authoritySystems: [hard, '', 'NULL', '{}'],
      sendWindow: 2n ** 53n + 1n,
      settleTime: 0n,
      ...ADMITS_ALL,
      frozen: true,
      freezeReason: hard,
      revision: 2n ** 63n - 1n,
    });
    expect(set?.get('sinks', 'absent "\\')).toBeUndefined();
  });

  test('int8 is never a number', () => {
    const parse = TYPES.getTypeParser(20, 'text') as (text: string) => unknown;
    expect(parse('9007199254740993')).toBe(9_007_199_254_740_993n);
  });
});

/** The fields of a row type that may be null, from its source: types are gone when this runs. */
function nullableFields(name: TableName): Set<string> {
  const types = new Map(
    [...source('tables.ts').matchAll(/^ {2}(\w+): (\w+Row);$/gm)].map(([, table, type]) => [table, type]),
  );
  const fields = fieldsOf(types.get(name) ?? '');
  expect(fields.map(([field]) => field).sort(), name).toEqual(Object.keys(TABLES[name].columns).sort());
  return new Set(fields.filter(([, type]) => type.includes('| null')).map(([field]) => field));
}

/** The fields of a type with their own types, those of what it extends or picks too. */
function fieldsOf(type: string): [field: string, type: string][] {
  const text =
    LEDGER_TYPES.find((one) => new RegExp(`^export (interface|type) ${type}\\b`, 'm').test(one)) ?? '';
  const picked = new RegExp(`^export type ${type} = Pick<\\s*(\\w+),(.*?)>;`, 'ms').exec(text);
  if (picked?.[1] !== undefined) {
    const names = new Set([...(picked[2] ?? '').matchAll(/'(\w+)'/g)].map(([, field]) => field));
    return fieldsOf(picked[1]).filter(([field]) => names.has(field));
  }
  const whole = new RegExp(`^export interface ${type}(?: extends (\\w+))? \\{\\n(.*?)^\\}`, 'ms').exec(text);
  if (!whole) throw new Error(`no type ${type}`);
  const own = [...(whole[2] ?? '').matchAll(/^ {2}readonly (\w+): ([^;]+);$/gm)];
  return [
    ...(whole[1] === undefined ? [] : fieldsOf(whole[1])),
    ...own.map(([, field, fieldType]): [string, string] => [field as string, fieldType as string]),
  ];
}

const LEDGER = new URL('../../src/ledger/', import.meta.url);

const LEDGER_TYPES = readdirSync(LEDGER, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .map(source);

function source(path: string): string {
  try {
    return readFileSync(new URL(path, LEDGER), 'utf8');
  } catch {
    return '';
  }
}
