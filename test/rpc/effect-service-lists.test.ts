import { ADMITS_ALL } from '../support/admits-all.js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Effect, EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { callerOf, EXECUTOR_A, freshId, publish, RECONCILER, seedGrant } from '../support/effect-world.js';
import {
  acknowledgeRequest,
  type Peer,
  PLANNER,
  refusalOf,
  ServiceWorld,
  violationsOf,
  type Workload,
} from './effect-service-world.js';

const OPERATOR: Peer = { caller: callerOf('spiffe://acme.test/operator/olaf'), kind: 'operator' };
const HOUR_SECONDS = 3_600n;

type Filter = Parameters<typeof list>[1];

let service: ServiceWorld;
let executor: Workload;
/** Two at the bank, one of them lost; two at the mail system, one of them done. In the order of their fences. */
let effects: { prepared: Effect; lost: Effect; mailed: Effect; waiting: Effect };

beforeAll(async () => {
  service = await ServiceWorld.open();
  const { world, replica } = service;
  await service.operator(OPERATOR);
  await world.seed('sinks', [
    {
      sink: 'mail',
      authoritySystems: ['mail-log', 'post-office'],
      sendWindow: 1_000_000n,
      settleTime: 0n,
      ...ADMITS_ALL,
      frozen: false,
      freezeReason: null,
      revision: 1n,
    },
  ]);
  executor = await service.workload(EXECUTOR_A, { sinks: ['bank', 'mail'] });
  const grant = await seedGrant(world, { outputSinks: ['bank', 'mail'] });
  const { grantId } = grant;
  const shared = await publish(replica);
  const key = freshId('key');
  const prepared = await service.reserve({ grantId, eventId: shared, effectKey: key });
  const lost = await service.lose(executor, { grantId });
  const sent = await service.start(
    executor,
    await service.reserve({ grantId, outputSink: 'mail', eventId: shared }),
  );
  await service.call('acknowledgeTerminal', executor, await acknowledgeRequest(executor, sent, 'SUCCEEDED'));
  const mailed = await service.show(sent.effectId);
  const waiting = await service.reserve({ grantId, outputSink: 'mail', effectKey: key });
  effects = { prepared, lost, mailed, waiting };
});
afterAll(() => service.close());

/** Everything that a peer gets, page by page. */
async function list(
  peer: Peer,
  filter: {
    state?: EffectState;
    outputSink?: string;
    eventId?: string;
    effectKey?: string;
    minAge?: { seconds: bigint; nanos: number };
    registrationId?: string;
  } = {},
  pageSize = 0,
): Promise<Effect[]> {
  const found: Effect[] = [];
  for (let pageToken = '', first = true; first || pageToken !== ''; first = false) {
    const page = await service.call('listEffects', peer, { ...filter, pageSize, pageToken });
    if (pageSize > 0) expect(page.effects.length).toBeLessThanOrEqual(pageSize);
    found.push(...page.effects);
    pageToken = page.nextPageToken;
  }
  return found;
}

/** The same by the names above. */
async function names(peer: Peer, filter: Filter = {}): Promise<string[]> {
  const found = await list(peer, filter);
  return found.map(({ effectId }) => {
    const named = Object.entries(effects).find(([, effect]) => effect.effectId === effectId);
    return named?.[0] ?? effectId;
  });
}

describe('ListEffects of an operator', () => {
  test('all of the domain as they are, oldest fence first, whatever the size of the page', async () => {
    const all = Object.values(effects);
    expect(await list(OPERATOR)).toEqual(all);
    for (const size of [1, 2, 3, 4, 1000]) expect(await list(OPERATOR, {}, size)).toEqual(all);
    const { nextPageToken } = await service.call('listEffects', OPERATOR, { pageSize: 4 });
    expect(nextPageToken).toBe('');
  });

  test.each<[string, () => Filter, string[]]>([
    ['state', () => ({ state: EffectState.PREPARED }), ['prepared', 'waiting']],
    ['the state UNKNOWN', () => ({ state: EffectState.UNKNOWN }), ['lost']],
    ['sink', () => ({ outputSink: 'mail' }), ['mailed', 'waiting']],
    ['event', () => ({ eventId: effects.prepared.eventId }), ['prepared', 'mailed']],
    ['key', () => ({ effectKey: effects.prepared.effectKey }), ['prepared', 'waiting']],
    ['sink and key', () => ({ outputSink: 'mail', effectKey: effects.prepared.effectKey }), ['waiting']],
    [
      'event and state',
      () => ({ eventId: effects.prepared.eventId, state: EffectState.SUCCEEDED }),
      ['mailed'],
    ],
    ['UNKNOWN at a sink where none is', () => ({ state: EffectState.UNKNOWN, outputSink: 'mail' }), []],
    ['what is not there', () => ({ eventId: 'nothing' }), []],
    ['an age that none has', () => ({ minAge: { seconds: HOUR_SECONDS, nanos: 0 } }), []],
  ])('filters by %s', async (_, filter, expected) => {
    expect(await names(OPERATOR, filter())).toEqual(expected);
    const one = await list(OPERATOR, filter(), 1);
    expect(one).toHaveLength(expected.length);
  });

  test('ages are by the clock of the store', async () => {
    const { admin } = service.world;
    await admin.query('UPDATE service_state SET clock_offset = $1', [String(2n * HOUR_SECONDS * 1_000_000n)]);
    const minAge = { seconds: HOUR_SECONDS, nanos: 0 };
    expect(await names(OPERATOR, { minAge })).toEqual(['prepared', 'lost', 'mailed', 'waiting']);
    const { effectId } = await service.reserve();
    expect(await names(OPERATOR, { minAge })).not.toContain(effectId);
    expect(await names(OPERATOR, { minAge: { seconds: 0n, nanos: 0 } })).toContain(effectId);
  });

  test('a token is of its own list only', async () => {
    const { nextPageToken: pageToken } = await service.call('listEffects', OPERATOR, { pageSize: 1 });
    const page = await service.call('listEffects', OPERATOR, { pageSize: 2, pageToken });
    expect(page.effects.map(({ effectId }) => effectId)).toEqual([
      effects.lost.effectId,
      effects.mailed.effectId,
    ]);
    const other = service.call('listEffects', OPERATOR, { outputSink: 'bank', pageToken });
    expect(await violationsOf(other)).toEqual(['page_token']);
    const wild = service.call('listEffects', OPERATOR, {
      state: 9 as EffectState,
      outputSink: 's'.repeat(257),
      eventId: 'e\n',
      effectKey: 'k'.repeat(257),
      minAge: { seconds: -1n, nanos: 0 },
      pageSize: -1,
      pageToken: '=',
      registrationId: 'r'.repeat(257),
    });
    expect(await violationsOf(wild)).toEqual([
      'effect_key',
      'event_id',
      'min_age',
      'output_sink',
      'page_size',
      'page_token',
      'registration_id',
      'state',
    ]);
  });

  test('who is no operator of the domain is told nothing', async () => {
    const stranger: Peer = { caller: callerOf('spiffe://globex.test/operator/gina'), kind: 'operator' };
    expect((await refusalOf(service.call('listEffects', stranger, {}))).reason).toBe('NOT_VISIBLE');
  });
});

describe('ListEffects of a reconciler', () => {
  const forBoth = { sinks: ['bank', 'mail'] };
  const bank = (found: string[]) => found.filter((name) => name in effects);

  test.each<[string, object, string[]]>([
    ['standing for both sinks, of the system of one', forBoth, ['prepared', 'lost']],
    [
      'standing for both sinks, of the system of the other',
      { ...forBoth, workloadId: 'effect-system:post-office' },
      ['mailed', 'waiting'],
    ],
    ['of a system that no sink names', { ...forBoth, workloadId: 'effect-system:bank' }, []],
    ['of no system', { ...forBoth, workloadId: 'bank-ledger' }, []],
    ['standing for a sink that is not of its system', { sinks: ['mail'] }, []],
    ['for another harness', { ...forBoth, recipientScope: 'other' }, []],
  ])('%s', async (_, over, expected) => {
    const { registration, ...peer } = await service.workload(RECONCILER, over);
    const { registrationId } = registration;
    expect(bank(await names(peer, { registrationId }))).toEqual(expected);
    const lost = expected.includes('lost') ? ['lost'] : [];
    expect(await names(peer, { registrationId, state: EffectState.UNKNOWN })).toEqual(lost);
    await service.tamper(`UPDATE registrations SET status = 'revoked' WHERE registration_id = $1`, [
      registrationId,
    ]);
    expect(await refusalOf(service.call('listEffects', peer, { registrationId }))).toMatchObject({
      reason: 'WORKLOAD_NOT_CURRENT',
      metadata: { rule: 'status' },
    });
  });

  test('bound to an event and a grant: what is theirs at the sinks of its system', async () => {
    const { eventId, grantId } = effects.prepared;
    const first = await service.workload(RECONCILER, { parentEventId: eventId, grantId, sinks: [] });
    const of = (registrationId: string) => ({ registrationId });
    const { registrationId } = first.registration;
    expect(await names(first, of(registrationId))).toEqual(['prepared']);
    expect(await names(first, { ...of(registrationId), eventId: effects.lost.eventId })).toEqual([]);
    expect(await names(first, { ...of(registrationId), outputSink: 'mail' })).toEqual([]);
    // With all of its registrations it has what each of them is for.
    await service.workload(RECONCILER, { parentEventId: effects.lost.eventId, grantId, sinks: [] });
    expect(await names(first)).toEqual(['prepared', 'lost']);
    expect(await list(first, {}, 1)).toHaveLength(2);
  });

  test('a registration lends its system to no other of the same peer', async () => {
    const crosswise: Peer = { caller: callerOf('spiffe://acme.test/reconciler/both'), kind: 'reconciler' };
    const { spiffeId } = crosswise.caller;
    await service.world.seed('callers', [{ spiffeId, kind: 'reconciler', refId: spiffeId }]);
    const role = 'effect_reconciler';
    await service.workload(crosswise.caller, {
      role,
      workloadId: 'effect-system:bank-ledger',
      sinks: ['mail'],
    });
    await service.workload(crosswise.caller, { role, workloadId: 'effect-system:mail-log', sinks: ['bank'] });
    expect(await names(crosswise)).toEqual([]);
    await service.workload(crosswise.caller, { role, workloadId: 'effect-system:mail-log', sinks: ['mail'] });
    expect(await names(crosswise)).toEqual(['mailed', 'waiting']);
  });

  test('an executor and a harness have no lists', async () => {
    expect(await names(executor)).toEqual([]);
    expect(await names(PLANNER)).toEqual([]);
  });
});

/** Older effects at another sink, so many that three statements look at them; nobody wrote them into the log. */
async function fillBefore(count: number): Promise<void> {
  const others: Readonly<Record<string, string>> = {
    effect_id: `'filler-' || n`,
    fence: 'n',
    sink: `'filler'`,
    identity_digest: 'sha256(n::text::bytea)',
    state: `'CANCELLED'`,
    holds_key: 'false',
  };
  const { rows } = await service.world.admin.query<{ name: string }>(
    `SELECT attname AS name FROM pg_attribute WHERE attrelid = 'effects'::regclass AND attnum > 0 AND NOT attisdropped`,
  );
  const columns = rows.map(({ name }) => name);
  const values = columns.map((name) => others[name] ?? name);
  await service.tamper(
    `INSERT INTO effects (${columns.join(', ')})
     SELECT ${values.join(', ')} FROM effects, generate_series(1, ${count}) AS n WHERE effect_id = $1`,
    [effects.prepared.effectId],
  );
}

describe('ListEffects of a large domain', () => {
  test('finds the few behind many in short statements, and names the one row that was changed', async () => {
    await fillBefore(12_000);
    expect(await names(OPERATOR, { outputSink: 'mail' })).toEqual(['mailed', 'waiting']);
    expect(await names(OPERATOR, { state: EffectState.UNKNOWN })).toEqual(['lost']);
    expect(await names(OPERATOR, { outputSink: 'nowhere' })).toEqual([]);
    expect(await list(OPERATOR, { outputSink: 'mail' }, 1)).toHaveLength(2);
    expect(await refusalOf(service.call('listEffects', OPERATOR, {}))).toMatchObject({
      reason: 'DATA_CORRUPT',
      metadata: { record: 'effect/filler-1' },
    });
  });
});
