import pg from 'pg';

/** @param sql that answers one number, called `count` */
export async function countRows(databaseUrl: string, sql: string): Promise<number> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    const { rows } = await client.query<{ count: string }>(sql);
    return Number(rows[0]?.count);
  } finally {
    await client.end();
  }
}
