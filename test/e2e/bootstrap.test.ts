import { spawn } from 'node:child_process';
import path from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createSigningKey } from '../../src/identity/sign.js';
import { OwnPki } from '../support/own-pki.js';
import { createTestDatabase, type TestDatabase } from '../support/postgres.js';

// authority.md, Bootstrap: only while no operator exists.

let pki: OwnPki;
let database: TestDatabase;
beforeAll(async () => {
  pki = await OwnPki.create();
  database = await createTestDatabase();
});
afterAll(async () => {
  await database?.drop();
  pki?.remove();
});

test('of two processes that bootstrap one database at once, one does', async () => {
  const names = ['one', 'two'].map((name) => `spiffe://surety.test/operator/${name}`);
  const ends = await Promise.all(names.map((spiffeId) => bootstrapProcess(spiffeId)));
  expect(ends.map(({ code }) => code).sort()).toEqual([0, 1]);
  const winner = names[ends.findIndex(({ code }) => code === 0)];
  expect(ends.find(({ code }) => code !== 0)?.output).toMatch(/ALREADY_BOOTSTRAPPED/);
  const sql = new pg.Client(database.url);
  await sql.connect();
  const { rows } = await sql.query(
    'SELECT spiffe_id, (SELECT count(*) FROM audit_entries)::int AS entries, (SELECT seq FROM domain_heads) AS seq FROM operators',
  );
  await sql.end();
  expect(rows).toEqual([{ spiffe_id: winner, entries: 1, seq: '1' }]);
});

function bootstrapProcess(spiffeId: string): Promise<{ code: number | null; output: string }> {
  const { cert, key, bundlesDir } = pki.tls;
  const args = ['bootstrap', '--operator', spiffeId, '--key', createSigningKey().publicKey.jwk];
  const child = spawn(process.execPath, [path.resolve('dist/src/cli/main.js'), ...args], {
    env: {
      PATH: process.env['PATH'],
      SURETY_MIGRATION_URL: database.url,
      SURETY_TLS_CERT_FILE: cert,
      SURETY_TLS_KEY_FILE: key,
      SURETY_BUNDLES_DIR: bundlesDir,
    },
  });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
  return new Promise((resolve) => child.once('close', (code) => resolve({ code, output })));
}
