import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { archiveDomain } from '../../src/cli/archive/archive-domain.js';
import type { EffectRow } from '../../src/ledger/effect/records.js';
import { type ReserveEffectCommand, reserveEffect } from '../../src/ledger/effect/reserve-effect.js';
import { DAY, MINUTE, type TerminalState } from '../../src/ledger/types.js';
import {
  acknowledgeCall,
  type Call,
  done,
  reconcileCall,
  seedWorkers,
  startCall,
  submit,
  unknownCall,
  type Workers,
} from '../fault/effect-life.js';
import { advanceClock, archiver, timelyCall } from '../support/archive-world.js';
import {
  DOMAIN,
  type EffectWorld,
  freshId,
  openWorld,
  publish,
  type Replica,
  reservation,
  seedGrant,
} from '../support/effect-world.js';

// effects.md, Reserve 5 and Archival: a key is held by what was done, whether its effect is archived or not.

let world: EffectWorld;
let replica: Replica;
let archive: Replica;
let workers: Workers & { grantId: string };
let folder: string;

beforeAll(async () => {
  world = await openWorld();
  replica = world.replica();
  archive = archiver(world);
  workers = await seedWorkers(world);
  folder = await mkdtemp(path.join(os.tmpdir(), 'surety-archive-'));
});
afterAll(async () => {
  await world.close();
  await rm(folder, { recursive: true, force: true });
});

const timely = (call: Call): Promise<Call> => timelyCall(replica, call);
const act = async (call: Call): Promise<EffectRow> => done(submit(replica, await timely(call)));

async function executing(overrides: Partial<ReserveEffectCommand>): Promise<EffectRow> {
  const command = reservation(await publish(replica), workers.grantId, overrides);
  return act(startCall(workers.executor, await done(replica.lanes.submit(reserveEffect, command) as never)));
}

async function settled(
  state: TerminalState,
  overrides: Partial<ReserveEffectCommand>,
): Promise<{ readonly effect: EffectRow }> {
  return { effect: await act(acknowledgeCall(workers.executor, await executing(overrides), state)) };
}

const tomorrow = (): Promise<void> => advanceClock(world, DAY + 1_000_000n);

function run() {
  return archiveDomain({
    reader: archive.reader,
    commands: archive.lanes,
    domainId: DOMAIN,
    retention: DAY,
    folder,
    newId: freshId,
  });
}

describe('effect keys', () => {
  const key = (): string => freshId('refund');

  async function reserveWith(effectKey: string, overrides: Partial<ReserveEffectCommand> = {}) {
    const command = reservation(await publish(replica), workers.grantId, { effectKey, ...overrides });
    const outcome = await replica.lanes.submit(reserveEffect, command);
    return outcome.ok ? 'reserved' : [outcome.refusal.reason, outcome.refusal.metadata];
  }

  test('what was done holds its key for ever, and its actor learns which', async () => {
    const effectKey = key();
    const { effect } = await settled('SUCCEEDED', { effectKey });
    await tomorrow();
    await run();
    const { grantId } = await seedGrant(world, { repeatable: true });
    for (const overrides of [{}, { grantId, repeatable: true }]) {
      expect(await reserveWith(effectKey, overrides)).toEqual([
        'EFFECT_KEY_DONE',
        { state: 'SUCCEEDED', effect_id: effect.effectId },
      ]);
    }
  });

  test('what was not done leaves its key free', async () => {
    const effectKey = key();
    await settled('FAILED', { effectKey });
    await tomorrow();
    await run();
    expect(await reserveWith(effectKey)).toBe('reserved');
  });

  test('what may be repeated stops whoever does not say so', async () => {
    const effectKey = key();
    const { grantId } = await seedGrant(world, { repeatable: true });
    const { effect } = await settled('SUCCEEDED', { effectKey, grantId, repeatable: true });
    await tomorrow();
    await run();
    expect(await reserveWith(effectKey)).toEqual([
      'EFFECT_KEY_DONE',
      { state: 'SUCCEEDED', effect_id: effect.effectId },
    ]);
    expect(await reserveWith(effectKey, { grantId, repeatable: true })).toBe('reserved');
  });

  test('that an archived effect holds is not taken again by one that is disputed', async () => {
    const effectKey = key();
    const unknown = await act(unknownCall(workers.executor, await executing({ effectKey })));
    await advanceClock(world, 3n * MINUTE);
    const failed = await act(reconcileCall(workers.reconciler, unknown, 'FAILED'));
    const { effect } = await settled('SUCCEEDED', { effectKey });
    await tomorrow();
    // Only the one that holds the key goes: the other one is disputed by what its executor says now.
    const late = await timely(
      acknowledgeCall(workers.executor, { ...failed, state: 'EXECUTING' }, 'SUCCEEDED'),
    );
    (late.command as never as { evidence: { fields: { observedAt: bigint } } }).evidence.fields.observedAt =
      failed.unknownAt ?? 0n;
    const other = await timely(
      acknowledgeCall(workers.executor, { ...failed, state: 'EXECUTING' }, 'CANCELLED'),
    );
    (other.command as never as { evidence: { fields: { observedAt: bigint } } }).evidence.fields.observedAt =
      failed.unknownAt ?? 0n;
    expect(await submit(replica, late)).toMatchObject({ refusal: { metadata: { late_evidence: 'kept' } } });
    const holder = await one(failed.effectId);
    expect(holder).toMatchObject({ disputed: true, holds_key: false });
    expect(await run()).toMatchObject([{ archived: 1 }]);
    expect(await one(effect.effectId)).toBeUndefined();
    expect(await submit(replica, other)).toMatchObject({ refusal: { metadata: { late_evidence: 'kept' } } });
    expect(await one(failed.effectId)).toMatchObject({ disputed: true, holds_key: false });
    expect(await reserveWith(effectKey)).toEqual([
      'EFFECT_KEY_DONE',
      { state: 'SUCCEEDED', effect_id: effect.effectId },
    ]);
  });

  async function one(effectId: string): Promise<unknown> {
    const { rows } = await world.admin.query(
      'SELECT disputed, holds_key FROM effects WHERE domain_id = $1 AND effect_id = $2',
      [DOMAIN, effectId],
    );
    return rows[0];
  }
});
