import type { MessageInitShape } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Channel } from '../../src/cli/client/service-client.js';
import { digest } from '../../src/cli/client/workload-session.js';
import { DEMO_ACTION, DEMO_HARNESS, DEMO_PRINCIPAL } from '../../src/cli/demo/set-up-domain.js';
import { AdminService } from '../../src/gen/surety/authority/v1/admin_service_pb.js';
import {
  type DecideRequestSchema,
  PolicyService,
} from '../../src/gen/surety/authority/v1/policy_service_pb.js';
import { GateFieldKind, OperatorRole } from '../../src/gen/surety/authority/v1/records_pb.js';
import { Reason } from '../../src/gen/surety/error/v1/reason_pb.js';
import { RecordStatus } from '../../src/gen/surety/identity/v1/workload_pb.js';
import { addGuestHarness, put, traces } from '../support/e2e-parties.js';
import {
  ACME,
  type E2eWorld,
  GLOBEX,
  HARNESS,
  OPERATOR,
  refusedWith,
  SERVICE_DOMAIN,
} from '../support/e2e-world.js';
import { type LivingOperator, ReplicatedWorld } from '../support/replicated-world.js';

// authority.md, Records and Deciding, over the wire: who sees what is administered, and what is answered and kept.

let living: ReplicatedWorld;
let world: E2eWorld;
/** An administrator of acme.test, of acme.test. */
let anna: LivingOperator;

beforeAll(async () => {
  living = await ReplicatedWorld.open({ replicas: 1 });
  world = living.world;
  anna = await living.newOperator([OperatorRole.ADMIN], { homeDomainId: ACME });
});
afterAll(() => living?.close());

const root = (): Channel => world.channel(OPERATOR);

describe('every record that is administered', () => {
  const RECORDS = AdminService.methods.flatMap((list) => {
    const get = AdminService.methods.find(
      ({ name }) => list.name === `List${name.slice(3)}s` || list.name === `List${name.slice(3)}es`,
    );
    return get && list.name.startsWith('List') ? [{ list, get, name: get.name.slice(3) }] : [];
  });
  type Call = (request: object) => Promise<Record<string, unknown>>;
  const callOf = (channel: Channel, localName: string) =>
    (channel.service(AdminService) as unknown as Record<string, Call>)[localName] as Call;

  beforeAll(async () => {
    const names = { spiffeId: `spiffe://${ACME}/harness/visitor`, harnessId: 'visitor', guestId: 'gus' };
    await addGuestHarness(world, names);
    await world.grant();
    await world.grant();
    const status = RecordStatus.ACTIVE;
    const field = { name: 'amount', kind: GateFieldKind.TEXT };
    await put(world, {
      case: 'putGateShape',
      value: { gateShape: { gateShapeId: 'invoice', fields: [field], status } },
    });
    const actionCondition = { actionType: 'mail.send', expression: 'true', status };
    await put(world, { case: 'putActionCondition', value: { actionCondition } });
    await put(world, { case: 'putTool', value: { tool: { toolName: 'mailer', status } } });
  });

  test('has a Get and a List', () => {
    expect(RECORDS.map(({ name }) => name).sort()).toEqual([
      'ActionCondition',
      'Credential',
      'Domain',
      'Entitlement',
      'GateShape',
      'Grant',
      'Guest',
      'Harness',
      'Operator',
      'Owner',
      'Principal',
      'Sink',
      'Tool',
    ]);
  });

  type Row = Readonly<Record<string, unknown>>;
  type Kind = (typeof RECORDS)[number];
  /** All domains are listed in the service's own. */
  const homeOf = ({ name }: Kind): string => (name === 'Domain' ? SERVICE_DOMAIN : ACME);
  const keyOf = ({ get }: Kind): string =>
    get.input.fields.find((one) => one.name !== 'domain_id')?.localName ?? 'domainId';

  async function page({ list }: Kind, request: object): Promise<{ rows: Row[]; nextPageToken: string }> {
    const reply = await callOf(root(), list.localName)(request);
    const rows = reply[list.output.fields[0]?.localName ?? ''] as Row[];
    return { rows, nextPageToken: reply['nextPageToken'] as string };
  }

  const CASES = RECORDS.map((record) => [record.name, record] as const);

  test.each(CASES)(
    '%s: is listed in pages, each once, in the order of the whole list',
    async (name, kind) => {
      const domainId = homeOf(kind);
      const { rows: whole } = await page(kind, { domainId, pageSize: 1000 });
      expect(whole.length).toBeGreaterThan(0);
      const rows: Row[] = [];
      let pageToken = '';
      do {
        const one = await page(kind, { domainId, pageSize: 1, pageToken });
        expect(one.rows.length).toBeLessThanOrEqual(1);
        rows.push(...one.rows);
        pageToken = one.nextPageToken;
        if (pageToken !== '') {
          const { reason } = await refusedWith(page(kind, { domainId: GLOBEX, pageToken }));
          expect(reason).toBe(name === 'Domain' ? 'NOT_VISIBLE' : 'FIELD_INVALID');
        }
      } while (pageToken !== '');
      expect(rows).toEqual(whole);
    },
  );

  test.each(CASES)('%s: is shown by its name as it is listed', async (_, kind) => {
    const [domainId, key] = [homeOf(kind), keyOf(kind)];
    const { rows } = await page(kind, { domainId, pageSize: 5 });
    for (const row of rows) {
      const shown = await callOf(root(), kind.get.localName)({ domainId, [key]: row[key] });
      expect(Object.values(shown)).toContainEqual(row);
    }
  });

  test.each(CASES)('%s: of another domain looks like what is not there', async (_, kind) => {
    const [annas] = anna.channels as [Channel];
    const list = callOf(annas, kind.list.localName);
    const get = callOf(annas, kind.get.localName);
    const key = keyOf(kind);
    const { rows } = await page(kind, { domainId: homeOf(kind), pageSize: 1 });
    const told = await Promise.all([
      refusedWith(get({ [key]: rows[0]?.[key], domainId: GLOBEX })),
      refusedWith(list({ domainId: GLOBEX })),
      refusedWith(list({ domainId: 'nowhere.test' })),
      refusedWith(
        get({ [key]: 'spiffe://acme.test/none', domainId: kind.name === 'Domain' ? GLOBEX : ACME }),
      ),
    ]);
    for (const { code, reason, message } of told) {
      expect([code, reason, message]).toEqual(['PERMISSION_DENIED', 'NOT_VISIBLE', told[0]?.message]);
    }
  });
});

describe('Decide', () => {
  type Question = Partial<Omit<MessageInitShape<typeof DecideRequestSchema>, '$typeName' | '$unknown'>>;
  const ask = (question: Question, channel = world.channel(HARNESS)) =>
    channel.service(PolicyService).decide({
      action: DEMO_ACTION,
      resource: 'order-1184',
      requestDigest: digest('request'),
      ...question,
    });

  test('allows what is entitled, and says who may know', async () => {
    const { decision, duplicate } = await ask({});
    expect(decision).toMatchObject({
      allowed: true,
      reason: Reason.UNSPECIFIED,
      principalId: DEMO_PRINCIPAL,
      used: false,
    });
    expect(duplicate).toBe(false);
  });

  test.each<[keyof typeof Reason, (grantId: string) => Question | Promise<Question>]>([
    ['POLICY_REVISION_STALE', () => ({ policyRevision: 99n, bindingAssurance: 'other', action: 'none' })],
    ['HARNESS_ASSURANCE_MISMATCH', () => ({ bindingAssurance: 'other', credentialEpoch: 9n })],
    ['CREDENTIAL_EPOCH_STALE', () => ({ credentialEpoch: 9n, eligibilityDenials: ['device_unmanaged'] })],
    ['ELIGIBILITY_DENIED', () => ({ eligibilityDenials: ['device_unmanaged'], action: 'none' })],
    ['ENTITLEMENT_MISSING', (grantId) => ({ action: 'payment.make', grantId })],
    ['GRANT_MISSING', () => ({ grantId: 'none' })],
    ['GRANT_RESOURCE_NOT_COVERED', (grantId) => ({ grantId, resource: 'order-2' })],
    ['GRANT_INPUT_SOURCE_NOT_COVERED', (grantId) => ({ grantId, inputSource: 'other' })],
    [
      'GRANT_REVOKED',
      async (grantId) => {
        await put(world, { case: 'revokeGrant', value: { grantId } });
        return { grantId, resource: 'order-2' };
      },
    ],
  ])('%s: is answered and kept, and asked again within a minute it is the same', async (reason, question) => {
    const asked = await question(await world.grant());
    const { decision, auditPosition, duplicate } = await ask(asked);
    expect(decision).toMatchObject({ allowed: false, reason: Reason[reason], harnessId: DEMO_HARNESS });
    expect(duplicate).toBe(false);
    expect(auditPosition).toBe(BigInt((await traces(world))['seq'] as string));
    const decisionId = decision?.decisionId ?? '';
    const again = await ask(asked, living.connect(living.pki.leaf(HARNESS))[0]);
    expect(again).toMatchObject({ duplicate: true, auditPosition, decision: { decisionId } });
    for (const [channel, request] of [
      [world.channel(HARNESS), { decisionId }],
      [root(), { decisionId, domainId: ACME }],
    ] as const) {
      expect((await channel.service(PolicyService).getDecision(request)).decision).toEqual(decision);
    }
  });

  test('a guest needs a grant; who is no harness has no authority', async () => {
    const [guest] = living.connect(living.pki.leaf(`spiffe://${ACME}/harness/visitor`)) as [Channel];
    const { decision } = await ask({}, guest);
    expect(decision).toMatchObject({ allowed: false, reason: Reason.GRANT_REQUIRED, guestId: 'gus' });
    const { decisionId = '' } = decision ?? {};
    const others = world.channel(HARNESS).service(PolicyService).getDecision({ decisionId });
    expect(await refusedWith(others)).toMatchObject({ reason: 'NOT_VISIBLE' });
    expect(await refusedWith(ask({}, root()))).toMatchObject({ reason: 'CALLER_KIND_WITHOUT_AUTHORITY' });
  });
});
