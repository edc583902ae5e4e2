import { fromBinary, type MessageInitShape } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { AuditEntrySchema, AuditKind } from '../../src/gen/surety/audit/v1/entry_pb.js';
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
import { type AdminWorld, AUDIENCE, DOMAIN, now, refusedFor } from '../support/admin-world.js';
import { ANN, ANNA, EXECUTOR, HOUR, openAuthorityWorld, stamp } from './authority-world.js';

// identity.md, Workload registration: over the handlers, on Postgres.

let world: AdminWorld;
beforeAll(async () => {
  world = await openAuthorityWorld();
});
afterAll(() => world.close());

const active = RecordStatus.ACTIVE;

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
    for (const seen of [get(EXECUTOR, 'executor'), get(ANNA.spiffeId, 'operator'), get(ANN, 'auditor')]) {
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

  test('has an intent before each completion, and nothing of another call between them', async () => {
    const sql = 'SELECT entry FROM audit_entries WHERE domain_id = $1 ORDER BY seq';
    const { rows } = await world.sql.query(sql, [DOMAIN]);
    const log = rows.map(({ entry }) => fromBinary(AuditEntrySchema, entry));
    const completions = log.filter(({ kind }) => kind === AuditKind.COMMAND);
    const stored = await world.sql.query(
      "SELECT audit_seq, admin_command_id, encode(payload_digest, 'hex') AS digest FROM admin_commands WHERE domain_id = $1 ORDER BY audit_seq",
      [DOMAIN],
    );
    expect(stored.rows.map(({ audit_seq }) => BigInt(audit_seq))).toEqual(completions.map(({ seq }) => seq));
    for (const [index, { seq, intentSeq, commandId, actorSpiffeId, record }] of completions.entries()) {
      const [intent, ...between] = log.slice(Number(intentSeq) - 1, Number(seq) - 1);
      const { admin_command_id: adminCommandId, digest } = stored.rows[index];
      expect(intent).toMatchObject({
        kind: AuditKind.COMMAND_INTENT,
        actorSpiffeId,
        commandId,
        command: { adminCommandId, operation: record?.operation, payloadDigest: record?.digest },
      });
      expect(Buffer.from(record?.digest ?? []).toString('hex')).toBe(digest);
      expect(between.map((entry) => [entry.commandId, entry.kind])).toEqual(
        record?.type === 'workload' ? [[commandId, AuditKind.WORKLOAD]] : [],
      );
    }
  });
});
