import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import {
  type DecideRequestSchema,
  PolicyService,
} from '../../src/gen/surety/authority/v1/policy_service_pb.js';
import { GrantSchema } from '../../src/gen/surety/authority/v1/records_pb.js';
import { Reason } from '../../src/gen/surety/error/v1/reason_pb.js';
import { CertificateBinding, RecordStatus } from '../../src/gen/surety/identity/v1/workload_pb.js';
import { sha256 } from '../../src/ledger/encoding.js';
import type { Reason as ReasonName } from '../../src/ledger/refusal.js';
import { SECOND } from '../../src/ledger/types.js';
import type { CallContext } from '../../src/rpc/handler.js';
import {
  AdminWorld,
  DOMAIN,
  type MutationInit,
  now,
  ROOT,
  refusedFor,
  SERVICE_DOMAIN,
} from '../support/admin-world.js';
import { later, stamp } from './authority-world.js';

// authority.md, Deciding: each denial by its name, recorded, and nothing else changed.

const { ACTIVE, SUSPENDED, REVOKED } = RecordStatus;
type Question = Omit<MessageInitShape<typeof DecideRequestSchema>, '$typeName' | '$unknown'>;

let world: AdminWorld;
const put = (mutation: MutationInit) => world.execute(DOMAIN, mutation);

beforeAll(async () => {
  world = await AdminWorld.open();
  await world.execute(SERVICE_DOMAIN, { case: 'createDomain', value: { domainId: DOMAIN } });
});
afterAll(() => world.close());

/** A harness with all that it needs to be allowed what it asks. */
interface Party {
  readonly id: string;
  readonly spiffeId: string;
  readonly owner: { readonly principalId?: string; readonly guestId?: string };
  readonly harness: object;
}

let parties = 0;

async function party(as: 'principal' | 'guest'): Promise<Party> {
  parties += 1;
  const id = `${as}-${parties}`;
  const spiffeId = `spiffe://${DOMAIN}/harness/${id}`;
  const owner = as === 'principal' ? { principalId: id } : { guestId: id };
  const harness = { harnessId: id, ...owner, bindingAssurance: 'attested', status: ACTIVE };
  if (as === 'principal') {
    await put({ case: 'putPrincipal', value: { principal: { principalId: id, status: ACTIVE } } });
    await entitle(id);
  } else {
    await put({ case: 'putGuest', value: { guest: { guestId: id, status: ACTIVE, expireTime: later() } } });
  }
  await put({ case: 'putHarness', value: { harness } });
  const credential = { credentialId: id, harnessId: id, spiffeId, binding: CertificateBinding.SPIFFE_ID };
  await put({ case: 'createCredential', value: { credential: { ...credential, expireTime: later() } } });
  await put({ case: 'createGrant', value: { grant: grantOf(id, owner) } });
  return { id, spiffeId, owner, harness };
}

const entitle = (id: string) =>
  put({
    case: 'putEntitlement',
    value: {
      entitlement: {
        entitlementId: id,
        principalId: id,
        action: 'refund',
        resource: '*',
        expireTime: later(),
      },
    },
  });

function grantOf(id: string, owner: Party['owner']) {
  return create(GrantSchema, {
    ...{ grantId: id, ...owner, harnessId: id, actions: ['refund'], resources: ['order-1'] },
    ...{ inputSources: ['tickets'], outputSinks: ['bank'], dataClasses: [2], maxUses: 1n },
    expireTime: later(),
  });
}

const question = ({ id }: Party): Question => ({
  ...{ action: 'refund', resource: 'order-1', inputSource: 'tickets', outputSink: 'bank', dataClass: 2 },
  ...{ requestDigest: new Uint8Array(32), grantId: id },
});
const asHarness = ({ spiffeId }: Party) => world.context(spiffeId, 'harness', DOMAIN);
const ask = (request: Question, context: CallContext) =>
  world.call(PolicyService.method.decide, request, context);

/** Behind every trigger: what no command of ours writes. */
async function tamper(sql: string, values: readonly unknown[]): Promise<void> {
  await world.sql.query('SET session_replication_role = replica');
  await world.sql.query(sql, [...values]);
  await world.sql.query('SET session_replication_role = origin');
}

/** The content of every table, as a digest, of one moment. */
async function tables(): Promise<Record<string, string>> {
  const { rows: names } = await world.sql.query(
    "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' ORDER BY relname",
  );
  const digests = names.map(
    ({ relname }) =>
      `SELECT '${relname}' AS name, md5(string_agg(t::text, '|' ORDER BY t::text)) AS held FROM ${relname} AS t`,
  );
  const { rows } = await world.sql.query(digests.join(' UNION ALL '));
  return Object.fromEntries(rows.map(({ name, held }) => [name, held ?? '']));
}

function changed(before: Record<string, string>, after: Record<string, string>): string[] {
  return Object.keys(after).filter((name) => after[name] !== before[name]);
}
/** `lanes` holds each lane's last batch; a call is counted, whatever it is answered (authority.md, Admission). */
const OF_A_DECISION = ['actor_counters', 'audit_entries', 'decisions', 'domain_heads', 'lanes'];

interface Case {
  readonly as?: 'guest';
  /** What is taken from a party that would be allowed. */
  readonly take?: (party: Party) => Promise<unknown>;
  /** What else is asked. */
  readonly ask?: Partial<Question>;
  /** Puts back what was taken from others too. */
  readonly restore?: () => Promise<unknown>;
}

const setDomain = (status: RecordStatus.ACTIVE | RecordStatus.SUSPENDED) =>
  put({ case: 'updateDomain', value: { status } });
const setGrant =
  (sql: string) =>
  ({ id }: Party) =>
    tamper(`UPDATE grants SET ${sql} WHERE grant_id = $1`, [id]);
const setCredential =
  (sql: string) =>
  ({ id }: Party) =>
    tamper(`UPDATE credentials SET ${sql} WHERE credential_id = $1`, [id]);

/** In the order of authority.md. */
const RECORDED: readonly (readonly [ReasonName, Case])[] = [
  ['DOMAIN_INACTIVE', { take: () => setDomain(SUSPENDED), restore: () => setDomain(ACTIVE) }],
  ['POLICY_REVISION_STALE', { ask: { policyRevision: 99n } }],
  [
    'HARNESS_INACTIVE',
    {
      take: ({ harness }) =>
        put({ case: 'putHarness', value: { harness: { ...harness, status: SUSPENDED } } }),
    },
  ],
  ['HARNESS_ASSURANCE_MISMATCH', { ask: { bindingAssurance: 'weak' } }],
  ['CREDENTIAL_EPOCH_STALE', { ask: { credentialEpoch: 9n } }],
  ['PRINCIPAL_MISSING', { take: ({ id }) => tamper('DELETE FROM principals WHERE principal_id = $1', [id]) }],
  [
    'PRINCIPAL_INACTIVE',
    {
      take: ({ id }) =>
        put({ case: 'putPrincipal', value: { principal: { principalId: id, status: REVOKED } } }),
    },
  ],
  [
    'GUEST_MISSING',
    { as: 'guest', take: ({ id }) => tamper('DELETE FROM guests WHERE guest_id = $1', [id]) },
  ],
  [
    'GUEST_INACTIVE',
    {
      as: 'guest',
      take: ({ id }) =>
        put({ case: 'putGuest', value: { guest: { guestId: id, status: SUSPENDED, expireTime: later() } } }),
    },
  ],
  [
    'GUEST_EXPIRED',
    {
      as: 'guest',
      take: ({ id }) =>
        put({
          case: 'putGuest',
          value: { guest: { guestId: id, status: ACTIVE, expireTime: stamp(now() - SECOND) } },
        }),
    },
  ],
  [
    'CREDENTIAL_MISSING',
    { take: ({ id }) => put({ case: 'bumpCredentialEpoch', value: { harnessId: id } }) },
  ],
  [
    'CREDENTIAL_UNBOUND',
    { take: setCredential("binding = 'certificate', certificate_digest = sha256('another leaf')") },
  ],
  [
    'CREDENTIAL_INACTIVE',
    { take: ({ id }) => put({ case: 'revokeCredential', value: { credentialId: id } }) },
  ],
  ['CREDENTIAL_OUTSIDE_VALIDITY', { take: setCredential('expires_at = not_before + 1') }],
  ['ELIGIBILITY_DENIED', { ask: { eligibilityDenials: ['off_duty', 'device_unmanaged'] } }],
  ['ENTITLEMENT_MISSING', { ask: { action: 'charge' } }],
  [
    'ENTITLEMENT_STALE',
    { take: ({ id }) => put({ case: 'revokeEntitlement', value: { entitlementId: id } }) },
  ],
  ['GRANT_REQUIRED', { as: 'guest', ask: { grantId: '' } }],
  ['GRANT_MISSING', { ask: { grantId: 'nothing' } }],
  ['GRANT_BINDING_STALE', { take: setGrant('credential_epoch = 7') }],
  [
    'GRANT_INCONSISTENT',
    {
      take: async (one) => {
        // The table would refuse such a row too.
        await world.sql.query('ALTER TABLE grants DROP CONSTRAINT grants_no_wildcard');
        await setGrant("resources = '{*}'")(one);
      },
    },
  ],
  ['GRANT_FOREIGN', { take: setGrant("actor_id = 'somebody'") }],
  ['GRANT_REVOKED', { take: ({ id }) => put({ case: 'revokeGrant', value: { grantId: id } }) }],
  ['GRANT_EXPIRED', { take: setGrant('expires_at = 1') }],
  ['GRANT_EXHAUSTED', { take: setGrant('uses = max_uses') }],
  ['GRANT_ACTION_NOT_COVERED', { take: setGrant("actions = '{charge}'") }],
  ['GRANT_RESOURCE_NOT_COVERED', { ask: { resource: 'order-2' } }],
  ['GRANT_INPUT_SOURCE_NOT_COVERED', { ask: { inputSource: 'mail' } }],
  ['GRANT_OUTPUT_SINK_NOT_COVERED', { ask: { outputSink: 'mail' } }],
  ['GRANT_DATA_CLASS_NOT_COVERED', { ask: { dataClass: 3 } }],
];

test('who has everything is allowed', async () => {
  for (const as of ['principal', 'guest'] as const) {
    const one = await party(as);
    expect((await ask(question(one), asHarness(one))).decision).toMatchObject({ allowed: true });
  }
});

describe('a denial', () => {
  test.each(RECORDED)(
    '%s is recorded, and nothing else',
    async (reason, { as, take, restore, ask: over }) => {
      if (restore) onTestFinished(async () => void (await restore()));
      const one = await party(as ?? 'principal');
      await take?.(one);
      const asked = { ...question(one), ...over };
      const before = await tables();
      const { decision, auditPosition, duplicate } = await ask(asked, asHarness(one));
      const after = await tables();
      expect(decision).toMatchObject({
        allowed: false,
        reason: Reason[reason],
        harnessId: one.id,
        used: false,
      });
      expect(duplicate).toBe(false);
      expect(changed(before, after)).toEqual(OF_A_DECISION);

      // Of each table one row more: the decision, and the entry at the head of the log that says the same.
      const decisionId = decision?.decisionId ?? '';
      const shown = await world.call(
        PolicyService.method.getDecision,
        { decisionId },
        world.context(ROOT, 'operator', DOMAIN),
      );
      expect(shown.decision).toEqual(decision);
      const { rows } = await world.sql.query(
        `SELECT h.seq, position($2::bytea IN a.entry) > 0 AS named, (SELECT count(*) FROM decisions WHERE decision_id = $3) AS kept
       FROM domain_heads AS h JOIN audit_entries AS a ON a.domain_id = h.domain_id AND a.seq = h.seq WHERE h.domain_id = $1`,
        [DOMAIN, Buffer.from(decisionId), decisionId],
      );
      expect(rows).toEqual([{ seq: String(auditPosition), named: true, kept: '1' }]);

      const again = await ask(asked, asHarness(one));
      expect(again).toEqual(expect.objectContaining({ decision, auditPosition, duplicate: true }));
      expect(changed(after, await tables()).filter((name) => name !== 'lanes')).toEqual([]);
    },
  );

  test('is recorded once, however the reasons and the questions of a caller alternate', async () => {
    const one = await party('principal');
    const setHarness = (status: RecordStatus) =>
      put({ case: 'putHarness', value: { harness: { ...one.harness, status } } });
    const asked = { ...question(one), action: 'charge' };
    const told: (readonly [Reason | undefined, string | undefined])[] = [];
    const note = async (request: Question) => {
      const { decision } = await ask(request, asHarness(one));
      told.push([decision?.reason, decision?.decisionId]);
    };
    for (let round = 0; round < 3; round += 1) {
      await note(asked);
      for (const policyRevision of [98n, 99n]) await note({ ...asked, policyRevision });
      await setHarness(SUSPENDED);
      await note(asked);
      await setHarness(ACTIVE);
    }
    const { ENTITLEMENT_MISSING, POLICY_REVISION_STALE: stale, HARNESS_INACTIVE } = Reason;
    expect(told.slice(0, 4).map(([reason]) => reason)).toEqual([
      ...[ENTITLEMENT_MISSING, stale, stale, HARNESS_INACTIVE],
    ]);
    expect(new Set(told.slice(0, 4).map(([, id]) => id)).size).toBe(4);
    expect(told.slice(4)).toEqual([...told.slice(0, 4), ...told.slice(0, 4)]);
  });

  test('is decided anew after 60 s', async () => {
    const one = await party('principal');
    const asked = { ...question(one), action: 'charge' };
    const first = await ask(asked, asHarness(one));
    await world.sql.query('UPDATE service_state SET clock_offset = clock_offset + $1', [
      String(61n * SECOND),
    ]);
    const second = await ask(asked, asHarness(one));
    expect(second).toMatchObject({ duplicate: false, decision: { reason: Reason.ENTITLEMENT_MISSING } });
    expect(second.decision?.decisionId).not.toBe(first.decision?.decisionId);
  });

  test.each<readonly [ReasonName, (one: Party) => Promise<CallContext>]>([
    ['CALLER_UNKNOWN', async (one) => world.context(`${one.spiffeId}-nobody`, 'harness', DOMAIN)],
    [
      'CALLER_UNKNOWN',
      async (one) => world.context(one.spiffeId, 'harness', DOMAIN, { trustDomain: 'globex.test' }),
    ],
    ['CALLER_UNKNOWN', async (one) => world.context(one.spiffeId, 'harness', DOMAIN, { notAfter: 1n })],
    [
      'CALLER_KIND_WITHOUT_AUTHORITY',
      async (one) => {
        await tamper("UPDATE callers SET kind = 'executor' WHERE spiffe_id = $1", [one.spiffeId]);
        return asHarness(one);
      },
    ],
    [
      'HARNESS_MISSING',
      async (one) => {
        await tamper('DELETE FROM harnesses WHERE harness_id = $1', [one.id]);
        return asHarness(one);
      },
    ],
  ])('%s of nobody whose decision it could be is refused, and nothing is recorded', async (reason, as) => {
    const one = await party('principal');
    const context = await as(one);
    const before = await tables();
    expect(await refusedFor(ask(question(one), context))).toBe(reason);
    expect(changed(before, await tables()).filter((name) => name !== 'lanes')).toEqual([]);
  });
});

test('of many credentials of one SPIFFE ID, each of its own certificate, each is good', async () => {
  const who = await party('principal');
  await put({ case: 'revokeCredential', value: { credentialId: who.id } });
  const COUNT = 33;
  const leafOf = (n: number) => sha256(`leaf ${n} of ${who.id}`);
  for (let n = 0; n < COUNT; n += 1) {
    const credential = {
      ...{ credentialId: `${who.id}-${n}`, harnessId: who.id, spiffeId: who.spiffeId },
      ...{ binding: CertificateBinding.CERTIFICATE, certificateDigest: leafOf(n) },
    };
    await put({ case: 'createCredential', value: { credential: { ...credential, expireTime: later() } } });
  }
  const { grantId: _, ...wish } = question(who);
  const told = [];
  for (let n = 0; n <= COUNT; n += 1) {
    const context = world.context(who.spiffeId, 'harness', DOMAIN, { leafDigest: leafOf(n) });
    const { decision } = await ask(wish, context);
    told.push(decision?.allowed === true ? 'allowed' : Reason[decision?.reason ?? 0]);
  }
  expect(told).toEqual([...Array(COUNT).fill('allowed'), 'CREDENTIAL_UNBOUND']);
});
