import { createHash } from 'node:crypto';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { TimestampSchema } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { AdminService } from '../../src/gen/surety/authority/v1/admin_service_pb.js';
import { PolicyService } from '../../src/gen/surety/authority/v1/policy_service_pb.js';
import { OperatorRole } from '../../src/gen/surety/authority/v1/records_pb.js';
import { Reason } from '../../src/gen/surety/error/v1/reason_pb.js';
import {
  CallerKind,
  CertificateBinding,
  type PossessionStatementSchema,
  RecordStatus,
  type RegistrationSpec,
  WorkloadRole,
} from '../../src/gen/surety/identity/v1/workload_pb.js';
import { WorkloadService } from '../../src/gen/surety/identity/v1/workload_service_pb.js';
import { createSigningKey, type SigningKey, signPossession, signRenewal } from '../../src/identity/sign.js';
import { microsToTimestamp } from '../../src/identity/timestamp.js';
import {
  AdminWorld,
  AUDIENCE,
  DOMAIN,
  type MutationInit,
  now,
  ROOT,
  refusedFor,
  SERVICE_DOMAIN,
  type Signer,
} from '../support/admin-world.js';

const HOUR = 3_600_000_000n;
const HARNESS = 'spiffe://acme.test/harness/planner';
const EXECUTOR = 'spiffe://acme.test/executor/payments-a';
const ANNA = 'spiffe://acme.test/operator/anna';
const ANN = 'spiffe://surety.test/auditor/ann';
const active = RecordStatus.ACTIVE;
const stamp = (micros: bigint) => create(TimestampSchema, microsToTimestamp(micros));
const later = () => stamp(now() + HOUR);

let world: AdminWorld;
const anna: Signer = { spiffeId: ANNA, key: createSigningKey() };

beforeAll(async () => {
  world = await AdminWorld.open();
  const execute = (mutation: MutationInit) => world.execute(DOMAIN, mutation);
  await world.execute(SERVICE_DOMAIN, {
    case: 'createDomain',
    value: { domainId: DOMAIN, allowStandingRegistrations: true },
  });
  await execute({ case: 'putSink', value: { sink: { sink: 'bank', authoritySystems: ['bank-ledger'] } } });
  await execute({ case: 'putPrincipal', value: { principal: { principalId: 'paula', status: active } } });
  await execute({
    case: 'putGuest',
    value: { guest: { guestId: 'gus', status: active, expireTime: later() } },
  });
  await execute({
    case: 'putHarness',
    value: {
      harness: { harnessId: 'planner', principalId: 'paula', bindingAssurance: 'attested', status: active },
    },
  });
  await execute({
    case: 'createCredential',
    value: {
      credential: {
        credentialId: 'planner-1',
        harnessId: 'planner',
        spiffeId: HARNESS,
        binding: CertificateBinding.SPIFFE_ID,
        expireTime: later(),
      },
    },
  });
  await execute({
    case: 'putEntitlement',
    value: {
      entitlement: {
        entitlementId: 'ent-1',
        principalId: 'paula',
        action: 'payment.refund',
        resource: '*',
        expireTime: later(),
      },
    },
  });
  await execute({
    case: 'createGrant',
    value: {
      grant: {
        grantId: 'grant-1',
        principalId: 'paula',
        harnessId: 'planner',
        actions: ['payment.refund'],
        resources: ['order "1184", {a}\\'],
        inputSources: ['tickets'],
        outputSinks: ['bank'],
        dataClasses: [2, 3],
        maxUses: 5n,
        expireTime: later(),
      },
    },
  });
  await execute({
    case: 'putOperator',
    value: {
      operator: {
        spiffeId: ANNA,
        signingKeyJwk: anna.key.publicKey.jwk,
        roles: [OperatorRole.ADMIN],
        status: active,
      },
    },
  });
  await execute({
    case: 'putOwner',
    value: {
      owner: {
        spiffeId: 'spiffe://acme.test/owner/olga',
        signingKeyJwk: createSigningKey().publicKey.jwk,
        sourceScopes: ['*'],
        typeScopes: ['mail'],
        status: active,
      },
    },
  });
  await world.execute(SERVICE_DOMAIN, {
    case: 'putOperator',
    value: { operator: { spiffeId: ANN, roles: [OperatorRole.AUDITOR], status: active } },
  });
});
afterAll(() => world.close());

const asRoot = (domainId = DOMAIN) => world.context(ROOT, 'operator', domainId);
const asHarness = () => world.context(HARNESS, 'harness', DOMAIN);

describe('ExecuteCommand', () => {
  const bump: MutationInit = {
    case: 'putPrincipal',
    value: { principal: { principalId: 'pia', status: active } },
  };

  test('answers an exact repeat with the first result, and another payload under its id with COMMAND_REPLAYED', async () => {
    const header = { commandId: 'command-repeated-1' };
    const signed = await world.sign(DOMAIN, bump, header);
    const first = await world.send(DOMAIN, signed);
    expect(first).toMatchObject({ duplicate: false, result: { entityRevision: 1n, policyRevision: 1n } });
    const again = await world.send(DOMAIN, signed);
    expect(again.duplicate).toBe(true);
    expect(again.result).toEqual(first.result);
    // ECDSA signatures differ each time, the payload does not: the payload is the command.
    const other = await world.sign(DOMAIN, { case: 'bumpPolicyRevision', value: {} }, header);
    expect(await refusedFor(world.send(DOMAIN, other))).toBe('COMMAND_REPLAYED');
    const { rows } = await world.sql.query("SELECT revision FROM principals WHERE principal_id = 'pia'");
    expect(rows).toEqual([{ revision: '1' }]);
  });

  test('takes one of several that are sent at once', async () => {
    const signed = await world.sign(DOMAIN, {
      case: 'putPrincipal',
      value: { principal: { principalId: 'once', status: active } },
    });
    const answers = await Promise.all(Array.from({ length: 6 }, () => world.send(DOMAIN, signed)));
    expect(answers.filter((answer) => !answer.duplicate)).toHaveLength(1);
    const { rows } = await world.sql.query("SELECT revision FROM principals WHERE principal_id = 'once'");
    expect(rows).toEqual([{ revision: '1' }]);
  });

  test('is signed by the very caller', async () => {
    const stranger = createSigningKey();
    const signed = await world.sign(DOMAIN, bump, {}, { spiffeId: ROOT, key: stranger });
    expect(await refusedFor(world.send(DOMAIN, signed))).toBe('COMMAND_SIGNATURE_INVALID key');
    const annas = await world.sign(DOMAIN, bump, { expectedEntityRevision: 1n }, anna);
    expect(await refusedFor(world.send(DOMAIN, annas))).toBe('COMMAND_SIGNATURE_INVALID key');
    expect(await refusedFor(world.send(DOMAIN, annas, anna))).toBe('done');
    const [header, payload, signature] = annas.split('.') as [string, string, string];
    const bytes = Buffer.from(payload, 'base64url');
    bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1;
    const altered = [header, bytes.toString('base64url'), signature].join('.');
    expect(await refusedFor(world.send(DOMAIN, altered, anna))).toBe('COMMAND_SIGNATURE_INVALID signature');
  });

  test('compares what it is meant for', async () => {
    const over = (header: Parameters<AdminWorld['sign']>[2]) =>
      refusedFor(world.execute(DOMAIN, bump, header));
    expect(await over({ audience: 'spiffe://other.test/surety' })).toBe('COMMAND_SIGNATURE_INVALID audience');
    expect(await over({ incarnation: 2n })).toBe('COMMAND_SIGNATURE_INVALID incarnation');
    expect(await over({ issuedTime: stamp(now() - 2n * HOUR) })).toBe('COMMAND_EXPIRED');
    expect(await over({ expectedPolicyRevision: 9n })).toBe('REVISION_STALE 1');
    expect(await over({ expectedEntityRevision: 9n })).toMatch(/^REVISION_STALE/);
  });

  test('keeps a domain operator within its domain, and the platform above', async () => {
    const domain: MutationInit = { case: 'createDomain', value: { domainId: 'globex.test' } };
    expect(await refusedFor(world.execute(DOMAIN, domain, {}, anna))).toBe('ROLE_MISSING');
    expect(await refusedFor(world.execute(SERVICE_DOMAIN, domain, {}, anna))).toBe(
      'COMMAND_SIGNATURE_INVALID key',
    );
    expect(await refusedFor(world.execute(SERVICE_DOMAIN, domain))).toBe('done');
    expect(await refusedFor(world.execute(SERVICE_DOMAIN, domain))).toBe('RECORD_EXISTS');
    expect(await refusedFor(world.execute('globex.test', bump))).toBe('done');
  });

  test('names every field that breaks a rule, at once', async () => {
    const refused = await refusedFor(
      world.execute(
        DOMAIN,
        {
          case: 'createGrant',
          value: {
            grant: { principalId: 'p', guestId: 'g', actions: ['*'], resources: ['a', 'a'], maxUses: -1n },
          },
        },
        { commandId: 'short', reason: '' },
      ),
    );
    const grant = 'command_jws.create_grant.grant';
    expect(refused.split(' ')).toEqual([
      'FIELD_INVALID',
      ...['command_jws.header.command_id', 'command_jws.header.reason'],
      ...[`${grant}.principal_id`, `${grant}.grant_id`, `${grant}.harness_id`, `${grant}.actions[0]`],
      ...[`${grant}.resources`, `${grant}.input_sources`, `${grant}.output_sinks`, `${grant}.data_classes`],
      ...[`${grant}.max_uses`, `${grant}.expire_time`],
    ]);
    expect(await refusedFor(world.execute(DOMAIN, { case: undefined }))).toBe(
      'FIELD_INVALID command_jws.mutation',
    );
  });

  test.each<readonly [string, MutationInit]>([
    ['create_domain.domain_id', { case: 'createDomain', value: { domainId: 'Acme.test' } }],
    ['update_domain.status', { case: 'updateDomain', value: { status: RecordStatus.REVOKED } }],
    ['put_sink.sink.sink', { case: 'putSink', value: { sink: { sink: '*', authoritySystems: ['bank'] } } }],
    ['put_sink.sink.authority_systems', { case: 'putSink', value: { sink: { sink: 's' } } }],
    [
      'put_sink.sink.authority_systems[0]',
      { case: 'putSink', value: { sink: { sink: 's', authoritySystems: ['ab'] } } },
    ],
    [
      'put_sink.sink.send_window',
      {
        case: 'putSink',
        value: { sink: { sink: 's', authoritySystems: ['bank'], sendWindow: { seconds: 3601n, nanos: 0 } } },
      },
    ],
    [
      'put_sink.sink.settle_time',
      {
        case: 'putSink',
        value: { sink: { sink: 's', authoritySystems: ['bank'], settleTime: { seconds: -1n, nanos: 0 } } },
      },
    ],
    ['put_principal.principal.status', { case: 'putPrincipal', value: { principal: { principalId: 'p' } } }],
    [
      'put_principal.principal.principal_id',
      { case: 'putPrincipal', value: { principal: { principalId: 'p\u0007', status: active } } },
    ],
    [
      'create_credential.credential.spiffe_id',
      {
        case: 'createCredential',
        value: {
          credential: {
            credentialId: 'c',
            harnessId: 'planner',
            spiffeId: 'spiffe://globex.test/harness/x',
            binding: CertificateBinding.SPIFFE_ID,
            expireTime: stamp(4_000_000_000_000_000n),
          },
        },
      },
    ],
    [
      'create_credential.credential.certificate_digest',
      {
        case: 'createCredential',
        value: {
          credential: {
            credentialId: 'c',
            harnessId: 'planner',
            spiffeId: HARNESS,
            binding: CertificateBinding.CERTIFICATE,
            expireTime: stamp(4_000_000_000_000_000n),
          },
        },
      },
    ],
    [
      'put_operator.operator.signing_key_jwk',
      {
        case: 'putOperator',
        value: { operator: { spiffeId: ANNA, roles: [OperatorRole.ADMIN], status: active } },
      },
    ],
    [
      'put_operator.operator.roles',
      { case: 'putOperator', value: { operator: { spiffeId: ANNA, status: active } } },
    ],
  ])('refuses %s', async (field, mutation) => {
    expect(await refusedFor(world.execute(DOMAIN, mutation))).toBe(`FIELD_INVALID command_jws.${field}`);
  });
});

describe('every mutation, on Postgres', () => {
  const domainId = 'changes.test';
  const id = (name: string) => `spiffe://${domainId}/${name}`;
  const owner = { spiffeId: id('owner/o'), signingKeyJwk: createSigningKey().publicKey.jwk, status: active };
  const operator = { spiffeId: id('operator/o'), roles: [OperatorRole.AUDITOR], status: active };
  const harness = { harnessId: 'h', guestId: 'g', bindingAssurance: 'weak', status: active };
  const scopes = { sourceScopes: ['a', 'b'], typeScopes: ['*'] };
  const entitlement = { entitlementId: 'e', principalId: 'p', action: 'a', resource: 'r' };
  const grant = { grantId: 'gr', guestId: 'g', harnessId: 'h', maxUses: 1n };
  const sets = {
    actions: ['a'],
    resources: ['r'],
    inputSources: ['i'],
    outputSinks: ['s'],
    dataClasses: [1],
  };
  const credential = { credentialId: 'c', harnessId: 'h', spiffeId: id('harness/h') };
  const binding = { binding: CertificateBinding.CERTIFICATE, certificateDigest: new Uint8Array(32) };
  const suspended = RecordStatus.SUSPENDED;

  const steps: readonly (readonly [MutationInit, bigint])[] = [
    [{ case: 'updateDomain', value: { status: active, allowStandingRegistrations: true } }, 2n],
    [{ case: 'bumpPolicyRevision', value: {} }, 3n],
    [{ case: 'bumpRevocationEpoch', value: {} }, 4n],
    [{ case: 'setFreeze', value: { frozen: true } }, 5n],
    [{ case: 'putSink', value: { sink: { sink: 's', authoritySystems: ['sys'] } } }, 1n],
    [{ case: 'putSink', value: { sink: { sink: 's', authoritySystems: ['sys', 'two'] } } }, 2n],
    [{ case: 'setFreeze', value: { sink: 's', frozen: true } }, 3n],
    [{ case: 'putPrincipal', value: { principal: { principalId: 'p', status: active } } }, 1n],
    [{ case: 'putPrincipal', value: { principal: { principalId: 'p', status: suspended } } }, 2n],
    [{ case: 'putGuest', value: { guest: { guestId: 'g', status: active, expireTime: later() } } }, 1n],
    [{ case: 'putGuest', value: { guest: { guestId: 'g', status: active, expireTime: later() } } }, 2n],
    [{ case: 'putHarness', value: { harness } }, 1n],
    [{ case: 'putHarness', value: { harness: { ...harness, bindingAssurance: 'strong' } } }, 2n],
    [{ case: 'bumpCredentialEpoch', value: { harnessId: 'h' } }, 3n],
    [
      { case: 'createCredential', value: { credential: { ...credential, ...binding, expireTime: later() } } },
      1n,
    ],
    [{ case: 'revokeCredential', value: { credentialId: 'c' } }, 2n],
    [{ case: 'putEntitlement', value: { entitlement: { ...entitlement, expireTime: later() } } }, 1n],
    [{ case: 'revokeEntitlement', value: { entitlementId: 'e' } }, 2n],
    [{ case: 'putEntitlement', value: { entitlement: { ...entitlement, expireTime: later() } } }, 3n],
    [{ case: 'createGrant', value: { grant: { ...grant, ...sets, expireTime: later() } } }, 1n],
    [{ case: 'revokeGrant', value: { grantId: 'gr' } }, 2n],
    [{ case: 'putOperator', value: { operator } }, 1n],
    [
      {
        case: 'putOperator',
        value: {
          operator: { ...operator, roles: [OperatorRole.FREEZER], signingKeyJwk: owner.signingKeyJwk },
        },
      },
      2n,
    ],
    [{ case: 'putOwner', value: { owner: { ...owner, ...scopes } } }, 1n],
    [{ case: 'putOwner', value: { owner: { ...owner, ...scopes, status: suspended } } }, 2n],
  ];

  test('makes a revision of its record', async () => {
    await world.execute(SERVICE_DOMAIN, { case: 'createDomain', value: { domainId } });
    for (const [mutation, revision] of steps) {
      const { result } = await world.execute(domainId, mutation);
      expect(`${mutation.case} ${result?.entityRevision}`).toBe(`${mutation.case} ${revision}`);
    }
    const { domain } = await world.call(AdminService.method.getDomain, { domainId }, asRoot(domainId));
    expect(domain).toMatchObject({
      policyRevision: 2n,
      revocationEpoch: 2n,
      frozen: true,
      freezeReason: 'a test',
      sinks: [{ authoritySystems: ['sys', 'two'], frozen: true, freezeReason: 'a test' }],
    });
    const { rows } = await world.sql.query(
      'SELECT kind, count(*) FROM callers WHERE domain_id = $1 GROUP BY kind ORDER BY kind',
      [domainId],
    );
    expect(rows).toEqual(['harness', 'operator', 'owner'].map((kind) => ({ kind, count: '1' })));
  });
});

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
        },
      ],
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
      (await world.call(method.getOperator, { spiffeId: ANNA }, asRoot())).operator?.status,
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
    expect(seen).toEqual([...ids, 'pia']);
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
      ['changes.test', 1],
      ['globex.test', 0],
      [SERVICE_DOMAIN, 0],
    ]);
    expect(await refusedFor(world.call(list, {}, asRoot()))).toBe('NOT_VISIBLE');
    expect(await refusedFor(world.call(list, {}, world.context(ANNA, 'operator', SERVICE_DOMAIN)))).toBe(
      'NOT_VISIBLE',
    );
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
    expect(await get(DOMAIN, ANNA, 'paula')).toBe('done');
    expect(await get(DOMAIN, ANNA, 'nobody')).toBe('NOT_VISIBLE');
    expect(await get('globex.test', ANNA, 'pia')).toBe('NOT_VISIBLE');
    expect(await get('nowhere.test', ROOT, 'paula')).toBe('NOT_VISIBLE');
    // Whatever the method table took the caller for: an auditor's row opens no administration.
    expect(await get(DOMAIN, ANN, 'paula')).toBe('NOT_VISIBLE');
  });
});

describe('Decide and GetDecision', () => {
  const decide = PolicyService.method.decide;
  const requestDigest = createHash('sha256').update('request').digest();
  const request = {
    action: 'payment.refund',
    resource: 'order-7',
    requestDigest: Uint8Array.from(requestDigest),
  };

  test('records an allowance, which its actor, operators and auditors may see', async () => {
    const { decision, auditPosition, duplicate } = await world.call(decide, request, asHarness());
    expect(decision).toMatchObject({
      harnessId: 'planner',
      principalId: 'paula',
      allowed: true,
      reason: Reason.UNSPECIFIED,
      entitlementId: 'ent-1',
      used: false,
    });
    expect(duplicate).toBe(false);
    expect(auditPosition).toBeGreaterThan(0n);
    const read = (spiffeId: string, kind: 'harness' | 'operator' | 'auditor', domainId = DOMAIN) =>
      world.call(
        PolicyService.method.getDecision,
        { decisionId: decision?.decisionId ?? '' },
        world.context(spiffeId, kind, domainId),
      );
    for (const call of [read(HARNESS, 'harness'), read(ROOT, 'operator'), read(ANN, 'auditor')]) {
      expect((await call).decision).toEqual(decision);
    }
    expect(await refusedFor(read(ANNA, 'operator', 'globex.test'))).toBe('NOT_VISIBLE');
  });

  test('answers a denial, and the same one within the minute from the stored one', async () => {
    const denied = { ...request, action: 'payment.charge' };
    const first = await world.call(decide, denied, asHarness());
    expect(first.decision).toMatchObject({ allowed: false, reason: Reason.ENTITLEMENT_MISSING });
    const second = await world.call(decide, denied, asHarness());
    expect(second).toEqual({ ...first, duplicate: true });
    const other = await world.call(decide, { ...denied, eventId: 'event-1' }, asHarness());
    expect(other.decision?.decisionId).not.toBe(first.decision?.decisionId);
  });

  test('decides with the whole grant where one is named', async () => {
    const whole = {
      ...request,
      resource: 'order "1184", {a}\\',
      grantId: 'grant-1',
      inputSource: 'tickets',
      outputSink: 'bank',
      dataClass: 2,
    };
    const allowed = await world.call(decide, whole, asHarness());
    expect(allowed.decision).toMatchObject({ allowed: true, grantId: 'grant-1' });
    const denied = await world.call(decide, { ...whole, outputSink: 'mail' }, asHarness());
    expect(denied.decision?.reason).toBe(Reason.GRANT_OUTPUT_SINK_NOT_COVERED);
  });

  test('gives an operator no authority', async () => {
    const call = world.call(decide, request, asRoot(SERVICE_DOMAIN));
    expect(await refusedFor(call)).toBe('CALLER_KIND_WITHOUT_AUTHORITY');
  });

  test('names what is wrong with a question', async () => {
    const call = world.call(decide, { eligibilityDenials: [''], policyRevision: -1n }, asHarness());
    expect(await refusedFor(call)).toBe(
      'FIELD_INVALID policy_revision action resource request_digest eligibility_denials[0]',
    );
  });
});

describe('workloads', () => {
  type Statement = MessageInitShape<typeof PossessionStatementSchema>;
  type Spec = Partial<Omit<RegistrationSpec, '$typeName' | '$unknown'>>;

  // The same at the renewal: nobody gives himself more than an operator did.
  const renewableUntilTime = stamp(now() + 2n * HOUR);

  function statement(key: SigningKey, over: Spec = {}): Statement {
    const registration = {
      registrationId: 'reg-1',
      domainId: DOMAIN,
      workloadId: 'payments',
      role: WorkloadRole.EFFECT_EXECUTOR,
      recipientScope: '*',
      processId: '4711',
      processStartTime: stamp(now() - HOUR),
      sessionId: 'session-1',
      spiffeId: EXECUTOR,
      certificateBinding: CertificateBinding.SPIFFE_ID,
      proofKeyJwk: key.publicKey.jwk,
      credentialEpoch: 1n,
      revocationEpoch: 1n,
      sinks: ['bank'],
      issuedTime: stamp(now()),
      expireTime: stamp(now() + HOUR / 2n),
      renewableUntilTime,
      ...over,
    };
    return { audience: AUDIENCE, incarnation: 1n, registration };
  }

  async function register(key: SigningKey, over: Spec = {}) {
    const possessionJws = await signPossession(statement(key, over), key);
    return world.execute(DOMAIN, { case: 'registerWorkload', value: { possessionJws } });
  }

  async function renew(old: SigningKey, key: SigningKey, over: Spec, spiffeId = EXECUTOR) {
    const renewal = statement(key, { credentialEpoch: 2n, sessionId: 'session-2', ...over });
    const request = {
      possessionJws: await signPossession(renewal, key),
      authorizationJws: await signRenewal(renewal, old),
    };
    const context = world.context(spiffeId, 'executor', DOMAIN);
    return { request, call: () => world.call(WorkloadService.method.renewWorkload, request, context) };
  }

  test('register by command, renew themselves, and are seen by whom they are', async () => {
    const [first, second] = [createSigningKey(), createSigningKey()];
    expect(await register(first)).toMatchObject({ result: { entityRevision: 1n } });
    const { call } = await renew(first, second, {});
    const renewed = await call();
    expect(renewed).toMatchObject({
      duplicate: false,
      registration: {
        status: active,
        proofKeyThumbprint: second.publicKey.thumbprint,
        spec: {
          credentialEpoch: 2n,
          sessionId: 'session-2',
          proofKeyJwk: second.publicKey.jwk,
          sinks: ['bank'],
        },
      },
    });
    expect(await call()).toEqual({ ...renewed, duplicate: true });

    const get = (spiffeId: string, kind: 'executor' | 'operator' | 'auditor') =>
      world.call(
        WorkloadService.method.getWorkload,
        { registrationId: 'reg-1' },
        world.context(spiffeId, kind, DOMAIN),
      );
    for (const seen of [get(EXECUTOR, 'executor'), get(ANNA, 'operator'), get(ANN, 'auditor')]) {
      expect((await seen).registration).toEqual(renewed.registration);
    }
    expect(await refusedFor(get('spiffe://acme.test/executor/payments-b', 'executor'))).toBe('NOT_VISIBLE');
  });

  test('renew only with the current key, over the same payload', async () => {
    const [first, second, third] = [createSigningKey(), createSigningKey(), createSigningKey()];
    const own = { registrationId: 'reg-2', spiffeId: 'spiffe://acme.test/executor/payments-b' };
    await register(first, own);
    const stranger = await renew(third, second, own, own.spiffeId);
    expect(await refusedFor(stranger.call())).toBe('PROOF_SIGNATURE_INVALID key');
    const mine = await renew(first, second, own, own.spiffeId);
    const mixed = { ...mine.request, possessionJws: stranger.request.possessionJws };
    const context = world.context(own.spiffeId, 'executor', DOMAIN);
    const call = world.call(WorkloadService.method.renewWorkload, mixed, context);
    expect(await refusedFor(call)).toBe('PROOF_SIGNATURE_INVALID payload');
    expect(await refusedFor(mine.call())).toBe('done');
    // The old key is no longer the current one.
    const late = await renew(first, third, { ...own, credentialEpoch: 3n }, own.spiffeId);
    expect(await refusedFor(late.call())).toBe('PROOF_SIGNATURE_INVALID key');
  });

  test('prove the possession of the very key that they register', async () => {
    const [key, other] = [createSigningKey(), createSigningKey()];
    const signed = await signPossession(statement(key, { registrationId: 'reg-x' }), other);
    const command = world.execute(DOMAIN, { case: 'registerWorkload', value: { possessionJws: signed } });
    expect(await refusedFor(command)).toBe('POSSESSION_INVALID key');
    const stale = register(key, { registrationId: 'reg-x', revocationEpoch: 7n });
    expect(await refusedFor(stale)).toBe('REVISION_STALE 1');
    const field = 'command_jws.register_workload.possession_jws.registration';
    const wrong = register(key, {
      registrationId: '',
      spiffeId: 'spiffe://globex.test/executor/a',
      role: WorkloadRole.EFFECT_RECONCILER,
      grantId: 'grant-1',
      expireTime: stamp(now() + 2n * HOUR),
    });
    expect(await refusedFor(wrong)).toBe(
      `FIELD_INVALID ${[
        'registration_id',
        'spiffe_id',
        'parent_event_id',
        'sinks',
        'expire_time',
        'workload_id',
      ]
        .map((name) => `${field}.${name}`)
        .join(' ')}`,
    );
    expect(await refusedFor(register(key, { proofKeyJwk: '{}' }))).toBe(
      `FIELD_INVALID ${field}.proof_key_jwk`,
    );
  });

  test('are bound to an event and a grant that are there', async () => {
    const bound = { registrationId: 'reg-b', parentEventId: 'event-1', grantId: 'grant-1', sinks: [] };
    expect(await refusedFor(register(createSigningKey(), bound))).toBe('RECORD_MISSING event');
  });

  test('list in pages by SPIFFE ID and status', async () => {
    const list = async (request: { spiffeId?: string; status?: RecordStatus; pageSize?: number }) => {
      const context = world.context(ANN, 'auditor', DOMAIN);
      const { registrations } = await world.call(WorkloadService.method.listWorkloads, request, context);
      return registrations.map(({ spec }) => spec?.registrationId);
    };
    await register(createSigningKey(), { registrationId: 'reg-3' });
    await world.execute(DOMAIN, { case: 'revokeWorkload', value: { registrationId: 'reg-3' } });
    expect(await list({})).toEqual(['reg-1', 'reg-2', 'reg-3']);
    expect(await list({ pageSize: 1 })).toEqual(['reg-1']);
    expect(await list({ spiffeId: EXECUTOR })).toEqual(['reg-1', 'reg-3']);
    expect(await list({ status: active })).toEqual(['reg-1', 'reg-2']);
    expect(await list({ spiffeId: EXECUTOR, status: RecordStatus.REVOKED })).toEqual(['reg-3']);
  });

  test('WhoAmI tells what a signed statement must name', async () => {
    const context = world.context(EXECUTOR, 'executor', DOMAIN);
    expect(await world.call(WorkloadService.method.whoAmI, {}, context)).toMatchObject({
      spiffeId: EXECUTOR,
      kind: CallerKind.EXECUTOR,
      domainId: DOMAIN,
      audience: AUDIENCE,
      incarnation: 1n,
      policyRevision: 1n,
      revocationEpoch: 1n,
      certificateDigest: Uint8Array.from(context.caller.leafDigest),
    });
  });
});

describe('the log', () => {
  test('is gap-free, and every command and version of a workload is in it', async () => {
    const { rows } = await world.sql.query(
      `SELECT (SELECT count(*) FROM audit_entries WHERE domain_id = $1) AS entries,
        (SELECT seq FROM domain_heads WHERE domain_id = $1) AS head,
        (SELECT count(*) FROM admin_commands WHERE domain_id = $1) AS commands,
        (SELECT count(*) FROM decisions WHERE domain_id = $1) AS decisions,
        (SELECT count(*) FROM registration_versions WHERE domain_id = $1) AS versions`,
      [DOMAIN],
    );
    const { entries, head, commands, decisions, versions } = rows[0];
    expect(entries).toBe(head);
    expect(Number(entries)).toBe(2 * Number(commands) + Number(decisions) + Number(versions));
  });
});
