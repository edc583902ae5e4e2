import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readBasis } from '../../src/cli/client/current-revisions.js';
import type { Channel } from '../../src/cli/client/service-client.js';
import { AdminService } from '../../src/gen/surety/authority/v1/admin_service_pb.js';
import { AdminCommandSchema } from '../../src/gen/surety/authority/v1/command_pb.js';
import { RecordStatus } from '../../src/gen/surety/identity/v1/workload_pb.js';
import { type AdminWorld, DOMAIN, ROOT, refusedFor, SERVICE_DOMAIN } from '../support/admin-world.js';
import { ANN, ANNA, openAuthorityWorld } from './authority-world.js';

// api.md, AdminService: Get and List of each record.

let world: AdminWorld;
beforeAll(async () => {
  world = await openAuthorityWorld();
  await world.execute(SERVICE_DOMAIN, { case: 'createDomain', value: { domainId: 'globex.test' } });
});
afterAll(() => world.close());

const active = RecordStatus.ACTIVE;
const asRoot = (domainId = DOMAIN) => world.context(ROOT, 'operator', domainId);

describe('reads of records', () => {
  test('show each record as it was put', async () => {
    const { domain } = await world.call(AdminService.method.getDomain, { domainId: DOMAIN }, asRoot());
    expect(domain).toMatchObject({
      domainId: DOMAIN,
      status: active,
      allowStandingRegistrations: true,
      sinks: [
        {
          sink: 'bank',
          authoritySystems: ['bank-ledger'],
          sendWindow: { seconds: 60n, nanos: 0 },
          settleTime: { seconds: 60n, nanos: 0 },
          breakerThreshold: 10,
          breakerReset: { seconds: 60n, nanos: 0 },
          unknownCeiling: 1_000,
          unknownAge: { seconds: 86_400n, nanos: 0 },
        },
      ],
      limits: {
        requestsPerMinute: 60_000,
        actorRequestsPerMinute: 6_000,
        pendingCeiling: 1_000_000,
        fairnessBurst: 1_000,
        maxHops: 16,
      },
      serviceRequestsPerMinute: 0,
    });
    const { grant } = await world.call(AdminService.method.getGrant, { grantId: 'grant-1' }, asRoot());
    expect(grant).toMatchObject({
      principalId: 'paula',
      guestId: '',
      resources: ['order "1184", {a}\\'],
      dataClasses: [2, 3],
      maxUses: 5n,
      uses: 0n,
      policyRevision: 1n,
      credentialEpoch: 1n,
      revision: 1n,
    });
    const method = AdminService.method;
    const read = [
      (await world.call(method.getPrincipal, { principalId: 'paula' }, asRoot())).principal?.status,
      (await world.call(method.getGuest, { guestId: 'gus' }, asRoot())).guest?.status,
      (await world.call(method.getHarness, { harnessId: 'planner' }, asRoot())).harness?.status,
      (await world.call(method.getCredential, { credentialId: 'planner-1' }, asRoot())).credential?.status,
      (await world.call(method.getOperator, { spiffeId: ANNA.spiffeId }, asRoot())).operator?.status,
      (await world.call(method.getOwner, { spiffeId: 'spiffe://acme.test/owner/olga' }, asRoot())).owner
        ?.status,
    ];
    expect(read).toEqual(read.map(() => active));
    const { entitlement } = await world.call(method.getEntitlement, { entitlementId: 'ent-1' }, asRoot());
    expect(entitlement).toMatchObject({ resource: '*', policyRevision: 1n });
    expect(entitlement?.revokeTime).toBeUndefined();
  });

  test('list in pages, by key, each record once', async () => {
    const ids = Array.from({ length: 7 }, (_, index) => `listed-${index}`);
    for (const principalId of ids) {
      await world.execute('globex.test', {
        case: 'putPrincipal',
        value: { principal: { principalId, status: active } },
      });
    }
    const context = asRoot('globex.test');
    const seen: string[] = [];
    let pageToken = '';
    do {
      const page = await world.call(AdminService.method.listPrincipals, { pageSize: 3, pageToken }, context);
      seen.push(...page.principals.map(({ principalId }) => principalId));
      pageToken = page.nextPageToken;
    } while (pageToken !== '');
    expect(seen).toEqual(ids);
    const first = await world.call(AdminService.method.listPrincipals, { pageSize: 3 }, context);
    const list = (pageToken: string, domain: string) =>
      refusedFor(world.call(AdminService.method.listPrincipals, { pageToken }, asRoot(domain)));
    expect(await list(first.nextPageToken, 'globex.test')).toBe('done');
    expect(await list(first.nextPageToken, DOMAIN)).toBe('FIELD_INVALID page_token');
    expect(await list('nonsense', DOMAIN)).toBe('FIELD_INVALID page_token');
    const size = world.call(AdminService.method.listGrants, { pageSize: 1001 }, context);
    expect(await refusedFor(size)).toBe('FIELD_INVALID page_size');
  });

  test('list all domains only to the platform, in its own', async () => {
    const list = AdminService.method.listDomains;
    const { domains } = await world.call(list, {}, asRoot(SERVICE_DOMAIN));
    expect(domains.map(({ domainId, sinks }) => [domainId, sinks.length])).toEqual([
      [DOMAIN, 1],
      ['globex.test', 0],
      [SERVICE_DOMAIN, 0],
    ]);
    expect(await refusedFor(world.call(list, {}, asRoot()))).toBe('NOT_VISIBLE');
    expect(
      await refusedFor(world.call(list, {}, world.context(ANNA.spiffeId, 'operator', SERVICE_DOMAIN))),
    ).toBe('NOT_VISIBLE');
  });

  test('tell absent and foreign apart for nobody', async () => {
    const get = (domainId: string, spiffeId: string, principalId: string) =>
      refusedFor(
        world.call(
          AdminService.method.getPrincipal,
          { principalId },
          world.context(spiffeId, 'operator', domainId),
        ),
      );
    expect(await get(DOMAIN, ANNA.spiffeId, 'paula')).toBe('done');
    expect(await get(DOMAIN, ANNA.spiffeId, 'nobody')).toBe('NOT_VISIBLE');
    expect(await get('globex.test', ANNA.spiffeId, 'listed-1')).toBe('NOT_VISIBLE');
    expect(await get('nowhere.test', ROOT, 'paula')).toBe('NOT_VISIBLE');
    // Whatever the method table took the caller for: an auditor's row opens no administration.
    expect(await get(DOMAIN, ANN, 'paula')).toBe('NOT_VISIBLE');
  });
});

describe('of more sinks than a domain is shown with', () => {
  const COUNT = 1_005;
  const nameOf = (n: number) => `sink-${String(n).padStart(4, '0')}`;

  beforeAll(async () => {
    await world.execute(DOMAIN, {
      case: 'putSink',
      value: { sink: { sink: nameOf(1), authoritySystems: ['mail-ledger'] } },
    });
    const { rows } = await world.sql.query(
      "SELECT attname AS name FROM pg_attribute WHERE attrelid = 'sinks'::regclass AND attnum > 0 ORDER BY attnum",
    );
    const columns = rows.map(({ name }) =>
      name === 'sink' ? `'sink-' || lpad(n::text, 4, '0')` : `t.${name}`,
    );
    await world.sql.query(
      `INSERT INTO sinks SELECT ${columns.join(', ')} FROM sinks AS t, generate_series(2, ${COUNT}) AS n WHERE t.sink = '${nameOf(1)}'`,
    );
  });

  test('each is listed once, in pages', async () => {
    const sinks: string[] = [];
    let pageToken = '';
    do {
      const request = { pageSize: 400, pageToken };
      const page = await world.call(AdminService.method.listSinks, request, asRoot());
      sinks.push(...page.sinks.map(({ sink }) => sink));
      pageToken = page.nextPageToken;
    } while (pageToken !== '');
    expect(sinks).toEqual(['bank', ...Array.from({ length: COUNT }, (_, i) => nameOf(i + 1))]);
  });

  test('each is shown, and what a client signs about it rests on it', async () => {
    const last = nameOf(COUNT);
    const { domain } = await world.call(AdminService.method.getDomain, { domainId: DOMAIN }, asRoot());
    expect(domain?.sinks.map(({ sink }) => sink)).not.toContain(last);
    const { sink } = await world.call(AdminService.method.getSink, { sink: last }, asRoot());
    expect(sink).toMatchObject({ sink: last, authoritySystems: ['mail-ledger'], revision: 1n });

    const channel = {
      service: ({ method }: { method: Record<string, never> }) =>
        new Proxy(
          {},
          {
            get: (_, name: string) => (request: never) =>
              world.call(method[name] as never, request, asRoot()),
          },
        ),
    } as unknown as Channel;
    const mutation = create(AdminCommandSchema, {
      mutation: { case: 'setFreeze', value: { sink: last, frozen: true } },
    }).mutation;
    const basis = await readBasis(channel, DOMAIN, mutation);
    expect(basis).toMatchObject({ before: { revision: 1n }, expectedEntityRevision: 1n });
    const { expectedPolicyRevision, expectedEntityRevision } = basis;
    const expected = { expectedPolicyRevision, expectedEntityRevision };
    await world.send(DOMAIN, await world.sign(DOMAIN, mutation, expected));
    const frozen = await world.call(AdminService.method.getSink, { sink: last }, asRoot());
    expect(frozen.sink).toMatchObject({ frozen: true, revision: 2n });
  });

  test('one that is not there, or is not for the caller, looks the same', async () => {
    const { getSink } = AdminService.method;
    expect(await refusedFor(world.call(getSink, { sink: 'absent' }, asRoot()))).toBe('NOT_VISIBLE');
    const nobody = world.context('spiffe://acme.test/operator/nobody', 'operator', DOMAIN);
    expect(await refusedFor(world.call(getSink, { sink: 'bank' }, nobody))).toBe('NOT_VISIBLE');
  });
});
