import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { DescMethod } from '@bufbuild/protobuf';
import { Metadata } from '@grpc/grpc-js';
import { registerWorkload } from '../../src/cli/client/register-workload.js';
import type { Channel } from '../../src/cli/client/service-client.js';
import { AuditService } from '../../src/gen/surety/audit/v1/audit_service_pb.js';
import { AdminService } from '../../src/gen/surety/authority/v1/admin_service_pb.js';
import { EffectService } from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { CallerKind, RecordStatus, WorkloadRole } from '../../src/gen/surety/identity/v1/workload_pb.js';
import { WorkloadService } from '../../src/gen/surety/identity/v1/workload_service_pb.js';
import { METHOD_TABLE } from '../../src/identity/method-table.js';
import { CONTRACT_SERVICES } from '../../src/rpc/contract.js';
import { reservation } from '../support/e2e-parties.js';
import {
  ACME,
  AUDIENCE,
  AUDITOR,
  type E2eWorld,
  EXECUTOR_A,
  GLOBEX,
  HARNESS,
  OPERATOR,
  openE2eWorld,
  RECONCILER,
  refusedWith,
} from '../support/e2e-world.js';
import { OwnPki } from '../support/own-pki.js';
import { Authority, type Certificate, type CertificateSpec, OID } from '../support/pki.js';
import { pathOf, RawCaller, type RawOutcome } from '../support/raw-caller.js';

// identity.md, The connection and Callers: who is let in, as whom, and to what, by a service with a store behind it.

const OWNER = 'spiffe://acme.test/owner/olga';
const WORKER = 'spiffe://acme.test/worker/mailer';
const HOUR_MS = 3_600_000;

let world: E2eWorld;
let pki: OwnPki;

beforeAll(async () => {
  pki = await OwnPki.create();
  world = await openE2eWorld({ globex: true, tls: pki.tls, env: { SURETY_REFLECTION: '1' } });
  await world.executor();
  await world.reconciler();
  await registerWorkload(world.admin, world.channel(WORKER), world.channel(OPERATOR), {
    domainId: ACME,
    spiffeId: WORKER,
    role: WorkloadRole.ACTION_WORKER,
    workloadId: 'mailer',
  });
});
afterAll(async () => {
  await world?.close();
  pki?.remove();
});

/** Connections that the service refused so far, by its reason. */
async function refusals(): Promise<Record<string, number>> {
  const text = await (await fetch(`${world.service.admin}/metrics`)).text();
  const lines = text.matchAll(/^surety_connections_refused\{reason="(\w+)"\} (\d+)$/gm);
  return Object.fromEntries([...lines].map(([, reason, count]) => [reason, Number(count)]));
}

function shows(certificate: Certificate | undefined, sent: readonly Certificate[] = []): Channel {
  return pki.channel({ service: world.service, certificate, sent });
}

const whoAmI = (channel: Channel, metadata?: Metadata) =>
  channel.service(WorkloadService).whoAmI({}, metadata ? { metadata } : {});

/** A command that the root operator signed just now: worth something to whoever may send it. */
const rootsCommand = () => world.admin.sign(ACME, { case: 'bumpPolicyRevision', value: {} }, 'stolen');

async function policyRevision(): Promise<unknown> {
  const { rows } = await world.sql.query('SELECT policy_revision FROM domains WHERE domain_id = $1', [ACME]);
  return rows[0].policy_revision;
}

describe('who is cut off before any HTTP/2', () => {
  const stranger = Authority.root('acme.test, of this test');
  const own = (spec: CertificateSpec) => () => pki.leaf(HARNESS, spec);
  test.each<[string, string, () => Certificate | undefined, (() => Certificate[])?]>([
    ['no certificate', 'NO_CERTIFICATE', () => undefined],
    ['an expired one', 'EXPIRED', own({ notAfter: new Date(Date.now() - 2_000) })],
    ['one not yet valid', 'NOT_YET_VALID', own({ notBefore: new Date(Date.now() + HOUR_MS) })],
    ["a stranger's, under the authority's very name", 'CHAIN_UNTRUSTED', () => stranger.leaf(HARNESS)],
    ['one by the authority of another domain', 'CHAIN_UNTRUSTED', () => pki.globex.leaf(HARNESS)],
    [
      'the same, with both authorities sent along',
      'CHAIN_UNTRUSTED',
      () => pki.globex.leaf(HARNESS),
      () => [pki.globex.certificate, pki.acme.certificate],
    ],
    ['an operator of the platform by a domain', 'CHAIN_UNTRUSTED', () => pki.acme.leaf(OPERATOR)],
    ['a domain without a bundle', 'TRUST_DOMAIN_UNKNOWN', () => pki.acme.leaf('spiffe://hooli.test/x')],
    ['one that may not sign', 'CHAIN_UNTRUSTED', own({ keyUsage: ['keyEncipherment'] })],
    ['one for servers only', 'CHAIN_UNTRUSTED', own({ extendedKeyUsage: [OID.serverAuth] })],
  ])('%s: %s', async (_, reason, certificate, sent) => {
    const before = (await refusals())[reason] ?? 0;
    const refused = await refusedWith(whoAmI(shows(certificate(), sent?.())));
    expect(refused).toMatchObject({ code: 'UNAVAILABLE', reason: '' });
    // The peer may learn of it a moment before it is counted.
    await expect.poll(async () => (await refusals())[reason] ?? 0).toBeGreaterThan(before);
  });
});

describe('who gets in', () => {
  test.each(['ec', 'rsa', 'ed25519'] as const)('a leaf with a key of kind %s', async (keyKind) => {
    const leaf = pki.leaf(HARNESS, { keyKind });
    const channel = shows(leaf);
    expect(await whoAmI(channel)).toMatchObject({
      spiffeId: HARNESS,
      kind: CallerKind.HARNESS,
      domainId: ACME,
      certificateDigest: leaf.sha256,
      audience: AUDIENCE,
      incarnation: 1n,
    });
    const request = await reservation(world);
    expect(await channel.service(EffectService).reserveEffect(request)).toMatchObject({ duplicate: false });
  });

  test('an operator behind an intermediate, who commands', async () => {
    const middle = pki.surety.intermediate('middle');
    const channel = shows(middle.leaf(OPERATOR), [middle.certificate]);
    const commandJws = await world.admin.sign(
      ACME,
      { case: 'putPrincipal', value: { principal: { principalId: 'pia', status: RecordStatus.ACTIVE } } },
      'a test',
    );
    const reply = await channel.service(AdminService).executeCommand({ commandJws });
    expect(reply).toMatchObject({ duplicate: false, result: { entityRevision: 1n } });
  });
});

describe('a trusted leaf that breaks a rule is nobody on each call, and stays connected', () => {
  test.each<[string, string, string | string[], CertificateSpec]>([
    ['two URI SANs', 'URI_SAN_NOT_SINGLE', [OPERATOR, HARNESS], {}],
    ['the same URI SAN twice', 'URI_SAN_NOT_SINGLE', [OPERATOR, OPERATOR], {}],
    ['a DNS SAN that prints like a URI', 'URI_SAN_NOT_SINGLE', [], { dnsNames: [`x, URI:${OPERATOR}`] }],
    ['quotes', 'SPIFFE_ID_INVALID', `spiffe://surety.test/x", URI:"${OPERATOR}`, {}],
    ['a comma', 'SPIFFE_ID_INVALID', `${OPERATOR}, URI:${OPERATOR}`, {}],
    ['a NUL', 'SPIFFE_ID_INVALID', `${OPERATOR}\0.evil`, {}],
    ['an escape', 'SPIFFE_ID_INVALID', OPERATOR.replace('root', '%72oot'), {}],
    ['upper case', 'SPIFFE_ID_INVALID', OPERATOR.replace('surety.test', 'Surety.test'), {}],
    ['a path that goes up', 'SPIFFE_ID_INVALID', 'spiffe://surety.test/x/../operator/root', {}],
    ['an authority as leaf', 'LEAF_IS_CA', OPERATOR, { basicConstraints: { ca: true } }],
    ['keyCertSign', 'KEY_USAGE_INVALID', OPERATOR, { keyUsage: ['digitalSignature', 'keyCertSign'] }],
    ['a key usage that is not critical', 'KEY_USAGE_NOT_CRITICAL', OPERATOR, { keyUsageCritical: false }],
    ['no key usage', 'KEY_USAGE_INVALID', OPERATOR, { keyUsage: null }],
    ['clients only', 'EXTENDED_KEY_USAGE_INVALID', OPERATOR, { extendedKeyUsage: [OID.clientAuth] }],
  ])('%s: %s', async (_, rule, uris, spec) => {
    const channel = shows(pki.surety.leaf(uris, spec));
    const revision = await policyRevision();
    const commandJws = await rootsCommand();
    const refused = await Promise.all([
      refusedWith(whoAmI(channel)),
      refusedWith(channel.service(AdminService).executeCommand({ commandJws })),
      refusedWith(channel.service(AdminService).getDomain({ domainId: ACME })),
      refusedWith(
        channel.service(AuditService).watchEntries({ domainId: ACME })[Symbol.asyncIterator]().next(),
      ),
    ]);
    for (const one of refused) {
      expect(one).toMatchObject({
        code: 'UNAUTHENTICATED',
        reason: 'CERTIFICATE_REJECTED',
        metadata: { rule },
      });
    }
    expect(await policyRevision()).toEqual(revision);
  });
});

describe('nothing in a header or a message says who the caller is', () => {
  function claims(spiffeId: string): Metadata {
    const metadata = new Metadata();
    const certificate = encodeURIComponent(pki.surety.leaf(spiffeId).pem);
    for (const [name, value] of Object.entries({
      'x-spiffe-id': spiffeId,
      'x-surety-caller': spiffeId,
      'x-forwarded-client-cert': `By=${AUDIENCE};Hash=00;URI=${spiffeId}`,
      'x-client-cert': certificate,
      'x-ssl-client-cert': certificate,
      'x-ssl-client-verify': 'SUCCESS',
      'x-ssl-client-s-dn': `CN=${spiffeId}`,
      forwarded: `for=127.0.0.1;by=${spiffeId}`,
      authorization: `Bearer ${spiffeId}`,
      'x-domain-id': 'surety.test',
      'x-kind': 'operator',
    })) {
      metadata.set(name, value);
    }
    return metadata;
  }

  test('WhoAmI answers alike, whatever is claimed', async () => {
    const plain = await whoAmI(world.channel(EXECUTOR_A));
    const claimed = await whoAmI(world.channel(EXECUTOR_A), claims(OPERATOR));
    expect(claimed).toEqual({ ...plain, nowTime: claimed.nowTime });
    expect(claimed).toMatchObject({ spiffeId: EXECUTOR_A, kind: CallerKind.EXECUTOR, domainId: ACME });
  });

  test('an executor does not command with it, and a stranger gets no name by it', async () => {
    const metadata = claims(OPERATOR);
    const commandJws = await rootsCommand();
    const send = (channel: Channel) =>
      channel.service(AdminService).executeCommand({ commandJws }, { metadata });
    expect(await refusedWith(send(world.channel(EXECUTOR_A)))).toMatchObject({
      code: 'PERMISSION_DENIED',
      reason: 'METHOD_NOT_ALLOWED',
      metadata: { kind: 'executor' },
    });
    const nobody = shows(pki.leaf('spiffe://acme.test/nobody'));
    expect(await refusedWith(send(nobody))).toMatchObject({
      code: 'UNAUTHENTICATED',
      reason: 'CALLER_UNKNOWN',
    });
    expect(await refusedWith(whoAmI(nobody, metadata))).toMatchObject({ reason: 'CALLER_UNKNOWN' });
    const two = shows(pki.acme.leaf([HARNESS, EXECUTOR_A]));
    expect(await refusedWith(whoAmI(two, claims(HARNESS)))).toMatchObject({ reason: 'CERTIFICATE_REJECTED' });
  });

  test('the host that a call is for says nothing either', async () => {
    const { pem, keyPem } = pki.leaf(HARNESS);
    const raw = new RawCaller(world.service.target, {
      certificate: Buffer.from(pem),
      key: Buffer.from(keyPem),
      roots: pki.roots,
    });
    const getDomain = pathOf(AdminService.method.getDomain);
    const headers = { ':authority': 'root.operator.surety.test', 'x-spiffe-id': OPERATOR };
    const refused = await raw.send(getDomain, Buffer.from([0, 0, 0, 0, 0]), headers);
    expect(refused).toMatchObject({ reason: 'METHOD_NOT_ALLOWED', metadata: { kind: 'harness' } });
    raw.close();
  });

  test('naming another domain does not lead there', async () => {
    const harness = world.channel(HARNESS).service(WorkloadService);
    expect(await refusedWith(harness.whoAmI({ domainId: GLOBEX }))).toMatchObject({
      code: 'PERMISSION_DENIED',
      reason: 'NOT_VISIBLE',
    });
    expect(await refusedWith(harness.whoAmI({ domainId: 'nowhere.test' }))).toMatchObject({
      reason: 'NOT_VISIBLE',
    });
    const auditor = world.channel(AUDITOR).service(WorkloadService);
    expect(await auditor.whoAmI({ domainId: GLOBEX })).toMatchObject({ kind: CallerKind.AUDITOR });
  });
});

describe('every method × every caller kind, and nobody', () => {
  const CALLERS = {
    harness: HARNESS,
    executor: EXECUTOR_A,
    reconciler: RECONCILER,
    worker: WORKER,
    owner: OWNER,
    operator: OPERATOR,
    auditor: AUDITOR,
  } as const;
  /** What whoever may call hears of a request that says nothing, where it is neither an answer nor a field's fault. */
  const HEARD: Readonly<Record<string, RegExp>> = {
    ExecuteCommand: /^COMMAND_SIGNATURE_INVALID$/,
    RenewWorkload: /^POSSESSION_INVALID$/,
    AddBoundedGrant: /^APPROVAL_SIGNATURE_INVALID$/,
    // All domains are listed in the service's own.
    ListDomains: /^NOT_VISIBLE$/,
  };
  const NOBODY = ['acme', 'surety', 'globex'].map((domain) => `spiffe://${domain}.test/nobody`);
  const callers = new Map<string, RawCaller>();

  beforeAll(() => {
    for (const spiffeId of [...Object.values(CALLERS), ...NOBODY]) {
      const { pem, keyPem } = pki.leaf(spiffeId);
      const identity = { certificate: Buffer.from(pem), key: Buffer.from(keyPem), roots: pki.roots };
      callers.set(spiffeId, new RawCaller(world.service.target, identity));
    }
  });
  afterAll(() => {
    for (const caller of callers.values()) caller.close();
  });

  /** Names the domain wherever there is a place for it, and nothing else: whoever may call hears what is missing. */
  function call(method: DescMethod, spiffeId: string): Promise<RawOutcome> {
    const domainId = spiffeId.startsWith('spiffe://globex.test') ? GLOBEX : ACME;
    const named = method.input.fields.some(({ name }) => name === 'domain_id') ? { domainId } : {};
    const request = method.name === 'VerifyReference' ? { reference: { domainId } } : named;
    return (callers.get(spiffeId) as RawCaller).call(method, request);
  }

  const METHODS = CONTRACT_SERVICES.flatMap(({ methods }) => methods);
  test.each(METHODS.map((method) => [pathOf(method), method] as const))('%s', async (path, method) => {
    const kinds = METHOD_TABLE.get(path.slice(1))?.kinds;
    for (const [kind, spiffeId] of Object.entries(CALLERS)) {
      const { code, reason } = await call(method, spiffeId);
      if (kinds?.has(kind as keyof typeof CALLERS)) {
        expect([kind, reason]).toEqual([
          kind,
          expect.stringMatching(HEARD[method.name] ?? /^(|FIELD_INVALID)$/),
        ]);
      } else {
        expect([kind, code, reason]).toEqual([kind, 'PERMISSION_DENIED', 'METHOD_NOT_ALLOWED']);
      }
    }
    for (const nobody of NOBODY) {
      const { code, reason } = await call(method, nobody);
      expect([nobody, code, reason]).toEqual([nobody, 'UNAUTHENTICATED', 'CALLER_UNKNOWN']);
    }
  });

  test('all of that went over the connections that it began on', () => {
    for (const { session } of callers.values()) expect(session.destroyed).toBe(false);
  });
});
