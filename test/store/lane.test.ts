import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { acknowledgeTerminal } from '../../src/ledger/effect/acknowledge-terminal.js';
import { markUnknown } from '../../src/ledger/effect/mark-unknown.js';
import { reconcile } from '../../src/ledger/effect/reconcile.js';
import type { EffectRow } from '../../src/ledger/effect/records.js';
import { startExecution } from '../../src/ledger/effect/start-execution.js';
import { sha256 } from '../../src/ledger/encoding.js';
import {
  type EffectWorld,
  EXECUTOR_A,
  evidence,
  freshId,
  nowMicros,
  openWorld,
  publish,
  RECONCILER,
  type Replica,
  reservation,
  reserve,
  seedGrant,
  seedRegistration,
  transitionOf,
} from '../support/effect-world.js';

describe('the lane on Postgres', () => {
  let world: EffectWorld;
  let replica: Replica;

  beforeAll(async () => {
    world = await openWorld();
    replica = world.replica();
  });
  afterAll(() => world.close());

  test('reserves an effect, and answers a repeat with the first reply', async () => {
    const grant = await seedGrant(world);
    const command = reservation(await publish(replica), grant.grantId);
    const first = await reserve(replica, command);
    if (!first.ok) throw new Error(JSON.stringify(first.refusal));
    expect(first.reply).toMatchObject({ duplicate: false, currentState: 'PREPARED' });
    const again = await reserve(replica, { ...command, effectId: freshId('eff'), commandId: freshId('cmd') });
    expect(again).toMatchObject({
      ok: true,
      reply: { duplicate: true, effect: { effectId: command.effectId } },
    });
    const { rows } = await world.admin.query('SELECT uses FROM grants WHERE grant_id = $1', [grant.grantId]);
    expect(rows).toEqual([{ uses: '1' }]);
  });

  test('a whole life: start, unknown, reconcile', async () => {
    const grant = await seedGrant(world);
    const reserved = await reserve(replica, reservation(await publish(replica), grant.grantId));
    if (!reserved.ok) throw new Error(reserved.refusal.reason);
    let effect = reserved.reply.effect as EffectRow;
    const executor = await seedRegistration(world, EXECUTOR_A);
    const reconciler = await seedRegistration(world, RECONCILER);
    const attemptId = freshId('attempt');
    const started = await replica.lanes.submit(
      startExecution,
      transitionOf(
        EXECUTOR_A,
        executor,
        effect,
        'EXECUTING',
        evidence<'execution'>({
          attemptId,
          executorInstanceId: freshId('instance'),
          requestDigest: effect.requestDigest,
          startedAt: nowMicros(),
        }),
      ),
    );
    if (!started.ok) throw new Error(JSON.stringify(started.refusal));
    effect = started.reply.effect;
    const unknown = await replica.lanes.submit(
      markUnknown,
      transitionOf(
        EXECUTOR_A,
        executor,
        effect,
        'UNKNOWN',
        evidence<'uncertainty'>({
          attemptId,
          reason: 'TIMEOUT',
          observationDigest: sha256('nothing'),
          observedAt: nowMicros(),
        }),
      ),
    );
    if (!unknown.ok) throw new Error(JSON.stringify(unknown.refusal));
    effect = unknown.reply.effect;
    const terminal = evidence<'terminal'>({
      attemptId,
      externalReceiptId: 'receipt-1',
      externalReceiptDigest: sha256('receipt'),
      observedAt: nowMicros(),
    });
    const blind = await replica.lanes.submit(
      acknowledgeTerminal,
      transitionOf(EXECUTOR_A, executor, { ...effect, state: 'EXECUTING' }, 'SUCCEEDED', terminal),
    );
    expect(blind).toMatchObject({ ok: false, recorded: true, refusal: { reason: 'EFFECT_MUST_RECONCILE' } });
    const answer = evidence<'reconciliation'>({
      attemptId,
      authoritySystemId: 'bank-ledger',
      queryId: 'query-17',
      queryResponseDigest: sha256('answer'),
      observedAt: nowMicros() + 1_000_000n,
      terminalState: 'SUCCEEDED',
    });
    const settled = await replica.lanes.submit(
      reconcile,
      transitionOf(RECONCILER, reconciler, effect, 'SUCCEEDED', answer),
    );
    if (!settled.ok) throw new Error(JSON.stringify(settled.refusal));
    expect(settled.reply.effect).toMatchObject({ state: 'SUCCEEDED', step: 5n, stateSource: 'reconciler' });
    const repeated = await replica.lanes.submit(
      reconcile,
      transitionOf(RECONCILER, reconciler, effect, 'SUCCEEDED', answer),
    );
    expect(repeated).toMatchObject({ ok: true, reply: { duplicate: true } });
  });

  test('two hundred at once on a grant of five uses: five', async () => {
    const grant = await seedGrant(world, { maxUses: 5n });
    const other = world.replica();
    const events = await Promise.all(Array.from({ length: 200 }, () => publish(replica)));
    const outcomes = await Promise.all(
      events.map((eventId, i) =>
        reserve(
          i % 2 ? replica : other,
          reservation(eventId, grant.grantId, { effectKey: `key ${eventId}` }),
        ),
      ),
    );
    expect(outcomes.filter((outcome) => outcome.ok)).toHaveLength(5);
    const { rows } = await world.admin.query('SELECT uses FROM grants WHERE grant_id = $1', [grant.grantId]);
    expect(rows).toEqual([{ uses: '5' }]);
  });
});
