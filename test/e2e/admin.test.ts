import { randomBytes } from 'node:crypto';
import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Mutation } from '../../src/cli/client/admin-session.js';
import type { Channel } from '../../src/cli/client/service-client.js';
import type { SuretyError } from '../../src/cli/client/surety-error.js';
import {
  AdminService,
  type ExecuteCommandResponse,
} from '../../src/gen/surety/authority/v1/admin_service_pb.js';
import type { CommandHeaderSchema } from '../../src/gen/surety/authority/v1/command_pb.js';
import { OperatorRole } from '../../src/gen/surety/authority/v1/records_pb.js';
import { RecordStatus } from '../../src/gen/surety/identity/v1/workload_pb.js';
import { createSigningKey, type SigningKey, signBytes, signCommand } from '../../src/identity/sign.js';
import { findingsOfLog, traces, WHOLE_LOG } from '../support/e2e-parties.js';
import {
  ACME,
  AUDIENCE,
  type E2eWorld,
  GLOBEX,
  HARNESS,
  OPERATOR,
  refusedWith,
  SERVICE_DOMAIN,
} from '../support/e2e-world.js';
import { type LivingOperator, ReplicatedWorld } from '../support/replicated-world.js';

// authority.md, Signed commands and Records: who may do what by a command, once, over the wire and on two replicas.

const { ACTIVE, SUSPENDED, REVOKED } = RecordStatus;
const { ADMIN, REGISTRAR, FREEZER, AUDITOR } = OperatorRole;
const MINUTE_MS = 60_000;

let living: ReplicatedWorld;
let world: E2eWorld;
let rootKey: SigningKey;
/** An administrator of acme.test, of acme.test. */
let anna: LivingOperator;

beforeAll(async () => {
  living = await ReplicatedWorld.open();
  world = living.world;
  rootKey = world.signingKey(OPERATOR);
  anna = await living.newOperator([ADMIN], { homeDomainId: ACME });
});
afterAll(() => living?.close());

type Header = Partial<Omit<MessageInitShape<typeof CommandHeaderSchema>, '$typeName' | '$unknown'>>;

let named = 0;
/** Makes a principal of its own: something that one can count. */
function newPrincipal(
  status: RecordStatus = ACTIVE,
): Mutation & { value: { principal: { principalId: string } } } {
  named += 1;
  return { case: 'putPrincipal', value: { principal: { principalId: `p-${named}`, status } } } as never;
}

/** A command by whoever has the key, that names everything rightly but what it is told to. */
async function signed(mutation: Mutation, header: Header = {}, key = rootKey): Promise<string> {
  const now = await world.now();
  const whole = {
    audience: AUDIENCE,
    incarnation: 1n,
    domainId: ACME,
    commandId: randomBytes(18).toString('base64url'),
    // Nothing here raises it; an entity revision of 0, the default, is that of a record that is not there yet.
    expectedPolicyRevision: 1n,
    reason: 'a test',
    issuedTime: timestampFromMs(now),
    expireTime: timestampFromMs(now + 300_000),
    ...header,
  };
  return signCommand({ header: whole, mutation }, key);
}

const send = (commandJws: string, channel: Channel): Promise<ExecuteCommandResponse> =>
  channel.service(AdminService).executeCommand({ commandJws });
const root = (replica = 0): Channel => world.channel(OPERATOR, living.replicas[replica]);

/** Sends it, and sees that nothing came of it. */
async function expectRefused(commandJws: string, channel: Channel, told: object): Promise<SuretyError> {
  const before = [await traces(world), await traces(world, SERVICE_DOMAIN)];
  const refused = await refusedWith(send(commandJws, channel));
  expect(refused).toMatchObject(told);
  expect([await traces(world), await traces(world, SERVICE_DOMAIN)]).toEqual(before);
  return refused;
}

async function revisionsOf(...principalIds: string[]): Promise<number[]> {
  const { rows } = await world.sql.query(
    'SELECT revision FROM principals WHERE domain_id = $1 AND principal_id = ANY($2)',
    [ACME, principalIds],
  );
  return rows.map(({ revision }) => Number(revision));
}

describe('a signed command is done once', () => {
  test('and answered again, on either replica, also when its time is over', async () => {
    const command = await signed(newPrincipal());
    const { result } = await send(command, root());
    for (const replica of [0, 1]) {
      expect(await send(command, root(replica))).toEqual(
        expect.objectContaining({ result, duplicate: true }),
      );
    }
    await world.advance(6 * MINUTE_MS);
    expect(await send(command, root(1))).toEqual(expect.objectContaining({ result, duplicate: true }));
    // Its id stands for its payload, though not for its signature: ECDSA makes another one each time.
    const late = await signed(newPrincipal(), { commandId: result?.commandId ?? '' });
    for (const replica of [0, 1])
      await expectRefused(late, root(replica), { code: 'ALREADY_EXISTS', reason: 'COMMAND_REPLAYED' });
  });

  test('when it is sent twelve times at once to two replicas', async () => {
    const mutation = newPrincipal();
    const command = await signed(mutation);
    const before = await traces(world);
    const answers = await Promise.all(Array.from({ length: 12 }, (_, i) => send(command, root(i % 2))));
    expect(answers.filter(({ duplicate }) => !duplicate)).toHaveLength(1);
    for (const { result } of answers) expect(result).toEqual(answers[0]?.result);
    expect(await revisionsOf(mutation.value.principal.principalId)).toEqual([1]);
    expect(Number((await traces(world))['seq'])).toBe(Number(before['seq']) + 2);
  });

  test('of several with one id, one', async () => {
    const commandId = randomBytes(18).toString('base64url');
    const mutations = Array.from({ length: 8 }, () => newPrincipal());
    const commands: string[] = [];
    for (const mutation of mutations) commands.push(await signed(mutation, { commandId }));
    const outcomes = await Promise.allSettled(commands.map((command, i) => send(command, root(i % 2))));
    const reasons = outcomes.flatMap((one) =>
      one.status === 'rejected' ? [(one.reason as SuretyError).reason] : [],
    );
    expect(reasons).toEqual(Array(7).fill('COMMAND_REPLAYED'));
    const ids = mutations.map(({ value }) => value.principal.principalId);
    expect(await revisionsOf(...ids)).toEqual([1]);
  });

  test('of several that rest on one revision, one', async () => {
    const mutation = newPrincipal();
    await send(await signed(mutation), root());
    const commands: string[] = [];
    for (let i = 0; i < 8; i += 1) commands.push(await signed(mutation, { expectedEntityRevision: 1n }));
    const outcomes = await Promise.allSettled(commands.map((command, i) => send(command, root(i % 2))));
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    for (const one of outcomes) {
      if (one.status === 'rejected') {
        expect(one.reason).toMatchObject({
          code: 'ABORTED',
          reason: 'REVISION_STALE',
          metadata: { current: '2' },
        });
      }
    }
    expect(await revisionsOf(mutation.value.principal.principalId)).toEqual([2]);
  });
});

describe('a signed command is for', () => {
  const wrong = (rule: string) => ({
    code: 'UNAUTHENTICATED',
    reason: 'COMMAND_SIGNATURE_INVALID',
    metadata: { rule },
  });

  test.each<[string, Header, object]>([
    ['this service', { audience: 'spiffe://other.test/surety' }, wrong('audience')],
    ['this store as it is now', { incarnation: 2n }, wrong('incarnation')],
    ['a domain that is there', { domainId: 'nowhere.test' }, { reason: 'DOMAIN_INACTIVE' }],
    ['the present policy', { expectedPolicyRevision: 9n }, { code: 'ABORTED', reason: 'REVISION_STALE' }],
    ['the present record', { expectedEntityRevision: 9n }, { code: 'ABORTED', reason: 'REVISION_STALE' }],
  ])('%s', async (_, header, told) => {
    await expectRefused(await signed(newPrincipal(), header), root(), told);
  });

  test.each<[string, number, number, boolean]>([
    ['300 s', 0, 300_000, true],
    ['no more than 300 s', 0, 300_001, false],
    ['what has begun, give or take a minute', 59_000, 120_000, true],
    ['nothing further ahead', 62_000, 120_000, false],
    ['what is not over', -120_000, -1, false],
    ['five minutes ago no more', -301_000, -1_000, false],
  ])('%s', async (_, issued, expires, good) => {
    const now = await world.now();
    const header = { issuedTime: timestampFromMs(now + issued), expireTime: timestampFromMs(now + expires) };
    const command = await signed(newPrincipal(), header);
    if (good) expect(await send(command, root())).toMatchObject({ duplicate: false });
    else await expectRefused(command, root(), { code: 'UNAUTHENTICATED', reason: 'COMMAND_EXPIRED' });
  });

  test('its signer alone to send', async () => {
    const [annas] = anna.channels as [Channel];
    await expectRefused(await signed(newPrincipal(), {}, anna.key), root(), wrong('key'));
    await expectRefused(await signed(newPrincipal()), annas, wrong('key'));
    await expectRefused(await signed(newPrincipal(), {}, createSigningKey()), root(), wrong('key'));
    const harness = world.channel(HARNESS);
    await expectRefused(await signed(newPrincipal()), harness, { reason: 'METHOD_NOT_ALLOWED' });
    expect(await send(await signed(newPrincipal(), {}, anna.key), annas)).toMatchObject({ duplicate: false });
  });

  test('nothing but what was signed, as what it was signed', async () => {
    const [header, payload, signature] = (await signed(newPrincipal())).split('.') as [
      string,
      string,
      string,
    ];
    const bytes = Buffer.from(payload, 'base64url');
    bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1;
    const altered = bytes.toString('base64url');
    await expectRefused([header, altered, signature].join('.'), root(), wrong('signature'));
    const none = Buffer.from('{"alg":"none"}').toString('base64url');
    for (const token of [`${none}.${payload}.`, `${none}.${payload}.${signature}`, `${header}.${payload}.`]) {
      await expectRefused(token, root(), { reason: 'COMMAND_SIGNATURE_INVALID' });
    }
    const possession = await signBytes('possession', Buffer.from(payload, 'base64url'), rootKey);
    await expectRefused(possession, root(), { reason: 'COMMAND_SIGNATURE_INVALID' });
  });

  test('a key that was replaced no more, from the next command on', async () => {
    const operator = await living.newOperator([ADMIN], { homeDomainId: ACME });
    const next = createSigningKey();
    const late = await signed(newPrincipal(), {}, operator.key);
    await living.setOperator({ ...operator, key: next }, ACTIVE);
    for (const channel of operator.channels) {
      await expectRefused(late, channel, wrong('key'));
      expect(await send(await signed(newPrincipal(), {}, next), channel)).toMatchObject({ duplicate: false });
    }
  });
});

describe('who may command what', () => {
  const freeze: Mutation = { case: 'setFreeze', value: { frozen: false } };
  const revoke: Mutation = { case: 'revokeWorkload', value: { registrationId: 'none' } };
  const create: Mutation = { case: 'createDomain', value: { domainId: 'initech.test' } };
  const putOperator = (spiffeId: string, scopeDomainId = ''): Mutation => ({
    case: 'putOperator',
    value: {
      operator: {
        spiffeId,
        signingKeyJwk: rootKey.publicKey.jwk,
        roles: [ADMIN],
        scopeDomainId,
        status: ACTIVE,
      },
    },
  });

  /** What a freeze rests on. */
  async function domainRevision(): Promise<bigint> {
    const { rows } = await world.sql.query('SELECT revision FROM domains WHERE domain_id = $1', [ACME]);
    return BigInt(rows[0].revision);
  }

  /** What becomes of a command: the reason, or `done`. */
  async function outcome(operator: LivingOperator, mutation: Mutation, domainId = ACME): Promise<string> {
    const expectedEntityRevision = mutation.case === 'setFreeze' ? await domainRevision() : 0n;
    const command = await signed(mutation, { domainId, expectedEntityRevision }, operator.key);
    return send(command, operator.channels[1] as Channel).then(
      () => 'done',
      (error: SuretyError) => error.reason,
    );
  }

  test('an administrator of a domain, there and nowhere else', async () => {
    expect(await outcome(anna, newPrincipal())).toBe('done');
    expect(await outcome(anna, freeze)).toBe('done');
    expect(await outcome(anna, putOperator('spiffe://acme.test/operator/bert'))).toBe('done');
    expect(await outcome(anna, newPrincipal(), GLOBEX)).toBe('NOT_VISIBLE');
    expect(await outcome(anna, putOperator('spiffe://acme.test/operator/x', GLOBEX))).toBe('FIELD_INVALID');
    expect(await outcome(anna, putOperator(anna.spiffeId), SERVICE_DOMAIN)).toBe('NOT_VISIBLE');
    expect(await outcome(anna, create, SERVICE_DOMAIN)).toBe('NOT_VISIBLE');
    expect(await outcome(anna, create)).toBe('ROLE_MISSING');
  });

  test('whose name is of another domain: where its row is', async () => {
    const visitor = await living.newOperator([ADMIN], { homeDomainId: ACME, trustDomain: GLOBEX });
    expect(await outcome(visitor, newPrincipal())).toBe('done');
    expect(await outcome(visitor, newPrincipal(), GLOBEX)).toBe('CALLER_UNKNOWN');
  });

  test('of the platform, but of one domain', async () => {
    const narrow = await living.newOperator([ADMIN], { scopeDomainId: ACME });
    expect(await outcome(narrow, newPrincipal())).toBe('done');
    expect(await outcome(narrow, newPrincipal(), GLOBEX)).toBe('CALLER_UNKNOWN');
    expect(await outcome(narrow, putOperator(narrow.spiffeId), SERVICE_DOMAIN)).toBe('CALLER_UNKNOWN');
    expect(await outcome(narrow, create, SERVICE_DOMAIN)).toBe('CALLER_UNKNOWN');
  });

  test('of the platform, whatever an administrator of a domain enters it there as', async () => {
    const [annas] = anna.channels as [Channel];
    const entered = async (roles: OperatorRole[], status: RecordStatus) => {
      const operator = await living.newOperator([ADMIN]);
      const local = putOperator(operator.spiffeId) as Mutation & { case: 'putOperator' };
      Object.assign(local.value.operator as object, { roles, status });
      await send(await signed(local, {}, anna.key), annas);
      return outcome(operator, newPrincipal());
    };
    expect(await entered([AUDITOR], ACTIVE)).toBe('done');
    expect(await entered([ADMIN], SUSPENDED)).toBe('done');
    expect(await entered([ADMIN], REVOKED)).toBe('done');
    const operator = await living.newOperator([ADMIN]);
    const owner = {
      spiffeId: operator.spiffeId,
      signingKeyJwk: rootKey.publicKey.jwk,
      sourceScopes: ['*'],
      typeScopes: ['*'],
      status: ACTIVE,
    };
    await send(await signed({ case: 'putOwner', value: { owner } }, {}, anna.key), annas);
    expect(await outcome(operator, newPrincipal())).toBe('done');
  });

  test.each<[string, OperatorRole[], string, string, string]>([
    ['who registers', [REGISTRAR], 'ROLE_MISSING', 'ROLE_MISSING', 'RECORD_MISSING'],
    ['who freezes', [FREEZER], 'ROLE_MISSING', 'done', 'ROLE_MISSING'],
    ['who does both', [FREEZER, REGISTRAR, AUDITOR], 'ROLE_MISSING', 'done', 'RECORD_MISSING'],
    ['who audits', [AUDITOR], 'METHOD_NOT_ALLOWED', 'METHOD_NOT_ALLOWED', 'METHOD_NOT_ALLOWED'],
  ])('%s', async (_, roles, principal, frozen, revoked) => {
    for (const homeDomainId of [ACME, SERVICE_DOMAIN]) {
      const operator = await living.newOperator(roles, { homeDomainId });
      const outcomes = [];
      for (const mutation of [newPrincipal(), freeze, revoke])
        outcomes.push(await outcome(operator, mutation));
      expect(outcomes).toEqual([principal, frozen, revoked]);
    }
  });
});

test('the log of all this verifies', async () => {
  expect(await findingsOfLog(world)).toEqual(WHOLE_LOG);
});
