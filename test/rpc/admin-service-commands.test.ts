import type { MessageInitShape } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { AdminService } from '../../src/gen/surety/authority/v1/admin_service_pb.js';
import { OperatorRole, type SinkSchema } from '../../src/gen/surety/authority/v1/records_pb.js';
import { CertificateBinding, RecordStatus } from '../../src/gen/surety/identity/v1/workload_pb.js';
import { createSigningKey } from '../../src/identity/sign.js';
import {
  type AdminWorld,
  DOMAIN,
  type MutationInit,
  now,
  ROOT,
  refusedFor,
  SERVICE_DOMAIN,
} from '../support/admin-world.js';
import { ANNA, HARNESS, HOUR, later, openAuthorityWorld, stamp } from './authority-world.js';

// authority.md, Signed commands: over the handlers, on Postgres.

let world: AdminWorld;
beforeAll(async () => {
  world = await openAuthorityWorld();
});
afterAll(() => world.close());

const active = RecordStatus.ACTIVE;
const asRoot = (domainId = DOMAIN) => world.context(ROOT, 'operator', domainId);

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

  test('answers an exact repeat of what replaced the key that it is signed with, to its signer alone', async () => {
    const replaced = { spiffeId: `spiffe://${DOMAIN}/operator/rita`, key: createSigningKey() };
    const put = (key: string, status = active, roles = [OperatorRole.ADMIN]): MutationInit => {
      const { spiffeId } = replaced;
      return { case: 'putOperator', value: { operator: { spiffeId, signingKeyJwk: key, roles, status } } };
    };
    await world.execute(DOMAIN, put(replaced.key.publicKey.jwk));
    const next = createSigningKey().publicKey.jwk;
    const rests = { expectedEntityRevision: 1n, commandId: 'command-own-key-1' };
    const signed = await world.sign(DOMAIN, put(next), rests, replaced);
    const first = await world.send(DOMAIN, signed, replaced);
    expect(first.duplicate).toBe(false);
    expect(await world.send(DOMAIN, signed, replaced)).toEqual({ ...first, duplicate: true });

    const refused = 'COMMAND_SIGNATURE_INVALID key';
    // Anything else by the old key, also the same words under another signature.
    const again = await world.sign(DOMAIN, bump, {}, replaced);
    expect(await refusedFor(world.send(DOMAIN, again, replaced))).toBe(refused);
    const [header, payload] = signed.split('.');
    const [, , other] = again.split('.');
    expect(await refusedFor(world.send(DOMAIN, [header, payload, other].join('.'), replaced))).toBe(refused);
    // Anybody else, and who is an operator no more.
    expect(await refusedFor(world.send(DOMAIN, signed))).toBe(refused);
    await world.execute(DOMAIN, put(next, RecordStatus.SUSPENDED));
    expect(await refusedFor(world.send(DOMAIN, signed, replaced))).toBe(refused);
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
    const annas = await world.sign(DOMAIN, bump, { expectedEntityRevision: 1n }, ANNA);
    expect(await refusedFor(world.send(DOMAIN, annas))).toBe('COMMAND_SIGNATURE_INVALID key');
    expect(await refusedFor(world.send(DOMAIN, annas, ANNA))).toBe('done');
    const [header, payload, signature] = annas.split('.') as [string, string, string];
    const bytes = Buffer.from(payload, 'base64url');
    bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1;
    const altered = [header, bytes.toString('base64url'), signature].join('.');
    expect(await refusedFor(world.send(DOMAIN, altered, ANNA))).toBe('COMMAND_SIGNATURE_INVALID signature');
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
    expect(await refusedFor(world.execute(DOMAIN, domain, {}, ANNA))).toBe('ROLE_MISSING');
    expect(await refusedFor(world.execute(SERVICE_DOMAIN, domain, {}, ANNA))).toBe(
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
    ['put_sink.sink.breaker_threshold', putSink({ breakerThreshold: -1 })],
    ['put_sink.sink.breaker_threshold', putSink({ breakerThreshold: 1_000_000_001 })],
    ['put_sink.sink.breaker_reset', putSink({ breakerReset: { seconds: 0n, nanos: 999_000_000 } })],
    ['put_sink.sink.breaker_reset', putSink({ breakerReset: { seconds: 86_401n, nanos: 0 } })],
    ['put_sink.sink.unknown_ceiling', putSink({ unknownCeiling: -1 })],
    ['put_sink.sink.unknown_ceiling', putSink({ unknownCeiling: 1_000_000_001 })],
    ['put_sink.sink.unknown_age', putSink({ unknownAge: { seconds: 0n, nanos: 999_000_000 } })],
    ['put_sink.sink.unknown_age', putSink({ unknownAge: { seconds: 367n * 86_400n, nanos: 0 } })],
    ['reset_breaker.sink', { case: 'resetBreaker', value: { sink: '' } }],
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
        value: { operator: { spiffeId: ANNA.spiffeId, roles: [OperatorRole.ADMIN], status: active } },
      },
    ],
    [
      'put_operator.operator.roles',
      { case: 'putOperator', value: { operator: { spiffeId: ANNA.spiffeId, status: active } } },
    ],
  ])('refuses %s', async (field, mutation) => {
    expect(await refusedFor(world.execute(DOMAIN, mutation))).toBe(`FIELD_INVALID command_jws.${field}`);
  });
});

/** A sink that is good but for these fields. */
function putSink(fields: Partial<MessageInitShape<typeof SinkSchema>>): MutationInit {
  return { case: 'putSink', value: { sink: { sink: 's', authoritySystems: ['bank'], ...fields } as never } };
}

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
