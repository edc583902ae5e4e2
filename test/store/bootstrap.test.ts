import { fromBinary } from '@bufbuild/protobuf';
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { AuditEntrySchema, AuditKind } from '../../src/gen/surety/audit/v1/entry_pb.js';
import { auditCodec } from '../../src/lane/audit-codec.js';
import { chainHash, genesisHash, leafHash } from '../../src/ledger/audit/chain.js';
import { Refused } from '../../src/ledger/run-decision.js';
import { type BootstrapInput, bootstrap } from '../../src/store/bootstrap.js';
import { createTestDatabase, type TestDatabase } from '../support/postgres.js';

const ROOT = 'spiffe://surety.test/operator/root';

let database: TestDatabase;
let admin: pg.Client;
beforeEach(async () => {
  database = await createTestDatabase();
  admin = new pg.Client(database.url);
  await admin.connect();
});
afterEach(async () => {
  await admin.end();
  await database.drop();
});

function input(over: Partial<BootstrapInput> = {}): BootstrapInput {
  return {
    url: database.url,
    audience: 'spiffe://surety.test/surety',
    serviceDomainId: 'surety.test',
    operator: { spiffeId: ROOT, signingKeyJwk: '{"kty":"EC"}', signingKeyThumbprint: 'thumbprint' },
    commandId: 'boot_1',
    codec: auditCodec,
    ...over,
  };
}

async function outcome(over: Partial<BootstrapInput> = {}): Promise<string> {
  try {
    await bootstrap(input(over));
    return 'done';
  } catch (error) {
    if (error instanceof Refused) return error.refusal.reason;
    throw error;
  }
}

describe('authority.md, Bootstrap', () => {
  test('names the service, makes its own domain, its first operator, and entry 1 of its log', async () => {
    expect(await outcome()).toBe('done');
    const state = await admin.query('SELECT audience, service_domain_id, incarnation FROM service_state');
    expect(state.rows).toEqual([
      { audience: 'spiffe://surety.test/surety', service_domain_id: 'surety.test', incarnation: '1' },
    ]);
    const operators = await admin.query('SELECT * FROM operators');
    expect(operators.rows).toMatchObject([
      {
        domain_id: 'surety.test',
        spiffe_id: ROOT,
        roles: ['ADMIN'],
        scope_domain_id: null,
        status: 'active',
      },
    ]);
    const callers = await admin.query('SELECT domain_id, spiffe_id, kind, ref_id FROM callers');
    expect(callers.rows).toEqual([
      { domain_id: 'surety.test', spiffe_id: ROOT, kind: 'operator', ref_id: ROOT },
    ]);
    const domains = await admin.query('SELECT domain_id, status, policy_revision FROM domains');
    expect(domains.rows).toEqual([{ domain_id: 'surety.test', status: 'active', policy_revision: '1' }]);

    const { rows } = await admin.query('SELECT entry, leaf_hash, chain_hash FROM audit_entries');
    expect(rows).toHaveLength(1);
    const leaf = leafHash(rows[0].entry);
    const chained = chainHash(genesisHash('surety.test'), leaf);
    expect(rows[0].leaf_hash).toEqual(leaf);
    expect(rows[0].chain_hash).toEqual(chained);
    const heads = await admin.query('SELECT seq, chain_hash, incarnation FROM domain_heads');
    expect(heads.rows).toEqual([{ seq: '1', chain_hash: chained, incarnation: '1' }]);
    expect(fromBinary(AuditEntrySchema, rows[0].entry)).toMatchObject({
      domainId: 'surety.test',
      seq: 1n,
      incarnation: 1n,
      kind: AuditKind.BOOTSTRAP,
      actorSpiffeId: '',
      commandId: 'boot_1',
      record: { type: 'operator', id: ROOT, revision: 1n, operation: 'bootstrap' },
    });
  });

  test('is done once, and refused ever after', async () => {
    expect(await outcome()).toBe('done');
    expect(await outcome()).toBe('ALREADY_BOOTSTRAPPED');
    expect(await outcome({ serviceDomainId: 'other.test' })).toBe('ALREADY_BOOTSTRAPPED');
    const { rows } = await admin.query('SELECT count(*) FROM audit_entries');
    expect(rows).toEqual([{ count: '1' }]);
  });

  test('is done by one of several at once', async () => {
    const tries = await Promise.all(Array.from({ length: 8 }, (_, i) => outcome({ commandId: `boot_${i}` })));
    expect(tries.sort()).toEqual([...Array(7).fill('ALREADY_BOOTSTRAPPED'), 'done']);
    const { rows } = await admin.query('SELECT count(*) FROM operators');
    expect(rows).toEqual([{ count: '1' }]);
  });

  test('leaves nothing where it fails in the middle', async () => {
    await admin.query('ALTER TABLE audit_entries ADD CONSTRAINT none_today CHECK (false)');
    await expect(bootstrap(input())).rejects.toThrow();
    const { rows } = await admin.query(
      'SELECT (SELECT count(*) FROM domains) AS domains, audience FROM service_state',
    );
    expect(rows).toEqual([{ domains: '0', audience: null }]);
    await admin.query('ALTER TABLE audit_entries DROP CONSTRAINT none_today');
    expect(await outcome()).toBe('done');
  });

  test("is not the serving role's to do", async () => {
    await expect(bootstrap(input({ url: database.serviceUrl }))).rejects.toMatchObject({ code: '42501' });
  });
});
