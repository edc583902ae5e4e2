import type pg from 'pg';

/** An index, and what drops it and makes it again as it was. */
export interface StoredIndex {
  readonly name: string;
  readonly drop: string;
  readonly make: string;
}

interface IndexRow {
  readonly name: string;
  readonly definition: string;
  readonly constraint: string | null;
}

/** Those of a table, by the server's own words. */
export async function storedIndexes(sql: pg.Client, table: string): Promise<StoredIndex[]> {
  const { rows } = await sql.query<IndexRow>(
    `SELECT c.relname AS name, pg_get_indexdef(c.oid) AS definition, pg_get_constraintdef(k.oid) AS constraint
     FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
     LEFT JOIN pg_constraint AS k ON k.conindid = c.oid AND k.conrelid = i.indrelid
     WHERE i.indrelid = $1::regclass ORDER BY c.relname`,
    [table],
  );
  return rows.map(({ name, definition, constraint }) =>
    constraint === null
      ? { name, drop: `DROP INDEX ${name}`, make: definition }
      : {
          name,
          drop: `ALTER TABLE ${table} DROP CONSTRAINT ${name}`,
          make: `ALTER TABLE ${table} ADD CONSTRAINT ${name} ${constraint}`,
        },
  );
}
