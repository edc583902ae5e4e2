import { durationFromMs } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { WorkloadSession } from '../../src/cli/client/workload-session.js';
import { AuditService } from '../../src/gen/surety/audit/v1/audit_service_pb.js';
import { EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { EffectService } from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { ACME, AUDITOR, type E2eWorld, HARNESS, openE2eWorld, refusedWith } from '../support/e2e-world.js';
import {
  bySuperuser,
  cancel,
  decide,
  findingsOfLog,
  type ReserveRequest,
  reservation,
  reserveAs,
  traces,
  WHOLE_LOG,
} from '../support/e2e-parties.js';

const { PREPARED, EXECUTING, SUCCEEDED, UNKNOWN, CANCELLED } = EffectState;

describe('effects.md, Beyond: a changed row is noticed', () => {
  let world: E2eWorld;
  let executor: WorkloadSession;

  beforeAll(async () => {
    // No sweep but those that `advance` makes.
    world = await openE2eWorld({ env: { SURETY_SWEEP_INTERVAL_MS: '600000' } });
    executor = await world.executor();
  });
  afterAll(() => world.close());

  /** Changes an effect's row past every guard, and puts it back afterwards. */
  async function whileChanged(
    effectId: string,
    change: Record<string, unknown>,
    act: () => Promise<void>,
  ): Promise<void> {
    const columns = Object.keys(change);
    const set = columns.map((column, index) => `${column} = $${index + 2}`).join(', ');
    const update = `UPDATE effects SET ${set} WHERE effect_id = $1`;
    const { rows } = await world.sql.query('SELECT * FROM effects WHERE effect_id = $1', [effectId]);
    await bySuperuser(world, update, [effectId, ...Object.values(change)]);
    await act();
    await bySuperuser(world, update, [effectId, ...columns.map((column) => rows[0][column])]);
  }

  async function expectCorrupt(call: Promise<unknown>, record: string): Promise<void> {
    expect(await refusedWith(call)).toMatchObject({
      code: 'DATA_LOSS',
      reason: 'DATA_CORRUPT',
      metadata: { record },
    });
  }

  test.each<[string, EffectState, Record<string, unknown>]>([
    ['a state that was not reached', PREPARED, { state: 'CANCELLED', holds_key: false }],
    ['a failure that was a success', SUCCEEDED, { state: 'FAILED', holds_key: false }],
    ['a lower fence', EXECUTING, { fence: 1 }],
    ['a higher fence', EXECUTING, { fence: '4611686018427387904' }],
    ['a step that was not taken', UNKNOWN, { step: 9 }],
    ['a step that was', UNKNOWN, { step: 2 }],
    ['another entry of the log', SUCCEEDED, { last_seq: 1 }],
    ['an entry that is not there', SUCCEEDED, { last_seq: 1_000_000 }],
  ])('%s', async (_, state, change) => {
    const effectKey = `changed ${JSON.stringify(change)}`;
    const request: ReserveRequest = await reservation(world, { effectKey });
    const { effectId } = await reserveAs(world, HARNESS, request);
    await world.effectIn(state, executor, request);
    const look = () => executor.look(effectId);
    const shown = await look();
    const before = await traces(world);
    await whileChanged(effectId, change, async () => {
      const record = `effect/${effectId}`;
      const [harness, auditor] = [HARNESS, AUDITOR].map((id) => world.channel(id).service(EffectService));
      await expectCorrupt(look(), record);
      await expectCorrupt(harness?.checkRetry({ effectId }) as Promise<unknown>, record);
      await expectCorrupt(harness?.getEffectHistory({ effectId }) as Promise<unknown>, record);
      await expectCorrupt(auditor?.listEffects({ domainId: ACME }) as Promise<unknown>, record);
      await expectCorrupt(reserveAs(world, HARNESS, request), record);
      await expectCorrupt(cancel(world, effectId, 'none'), record);
      const start = executor.start(shown, 'an attempt of mine');
      await expectCorrupt(executor.channel.service(EffectService).startExecution(await start), record);
      expect(await traces(world)).toEqual(before);
    });
    expect(await look()).toEqual(shown);
  });

  test('a key that a changed row holds is not given away', async () => {
    const effectKey = 'held';
    const { effectId } = await world.reserve({ effectKey });
    await whileChanged(effectId, { fence: 1 }, async () => {
      const before = await traces(world);
      const request = await reservation(world, { effectKey });
      await expectCorrupt(reserveAs(world, HARNESS, request), `effect/${effectId}`);
      const after = await traces(world);
      expect([after['fence_counter'], after['effects']]).toEqual([
        before['fence_counter'],
        before['effects'],
      ]);
    });
  });

  test('a changed entry of the log is named, and its effect is refused', async () => {
    const { effect } = await world.effectIn(SUCCEEDED, executor);
    const { effectId } = effect;
    const position = String(effect.auditPosition);
    const before = await traces(world);
    const { rows } = await world.sql.query(
      'SELECT entry FROM audit_entries WHERE domain_id = $1 AND seq = $2',
      [ACME, position],
    );
    const entry = rows[0].entry as Buffer;
    const changed = Buffer.from(entry);
    // One bit of the fence, or of whatever stands last.
    changed[changed.length - 1] = (changed[changed.length - 1] ?? 0) ^ 1;
    const write = (bytes: Buffer) =>
      bySuperuser(world, 'UPDATE audit_entries SET entry = $1 WHERE domain_id = $2 AND seq = $3', [
        bytes,
        ACME,
        position,
      ]);
    await write(changed);
    await expectCorrupt(executor.look(effectId), `effect/${effectId}`);
    const auditor = world.channel(AUDITOR);
    const watched = auditor
      .service(EffectService)
      .watchEffects({ domainId: ACME, afterPosition: effect.auditPosition - 1n });
    await expectCorrupt(drain(watched), `audit_entry/${ACME}/${position}`);
    const verdict = await auditor.service(AuditService).verifyChain({ domainId: ACME });
    expect(verdict.verified).toBe(false);
    expect(verdict.findings.map(({ seq }) => seq)).toContain(effect.auditPosition);
    await write(entry);
    expect(await executor.look(effectId)).toEqual(effect);
    expect(await traces(world)).toEqual(before);
  });

  test('a step that is missing in the log is never passed over', async () => {
    const { effect } = await world.effectIn(UNKNOWN, executor);
    const { effectId } = effect;
    const history = () => world.channel(HARNESS).service(EffectService).getEffectHistory({ effectId });
    const { steps } = await history();
    const position = steps[1]?.auditPosition;
    await bySuperuser(world, 'UPDATE audit_entries SET effect_id = NULL WHERE seq = $1 AND domain_id = $2', [
      position,
      ACME,
    ]);
    await expectCorrupt(history(), `effect/${effectId}/2`);
    await bySuperuser(world, 'UPDATE audit_entries SET effect_id = $3 WHERE seq = $1 AND domain_id = $2', [
      position,
      ACME,
      effectId,
    ]);
    expect((await history()).steps).toEqual(steps);
  });

  test('a changed row stops nobody else: the sweep passes it and cancels what is due', async () => {
    const wish = { reservationTtl: durationFromMs(10_000) };
    const [bad, good] = [await world.reserve(wish), await world.reserve(wish)];
    const decision = await decide(world, bad.effectId);
    await whileChanged(bad.effectId, { fence: 1 }, async () => {
      await world.advance(10_000);
      expect((await executor.look(good.effectId)).state).toBe(CANCELLED);
      const { rows } = await world.sql.query('SELECT state FROM effects WHERE effect_id = $1', [
        bad.effectId,
      ]);
      expect(rows[0].state).toBe('PREPARED');
      const decisionId = decision.decision?.decisionId ?? '';
      await expectCorrupt(cancel(world, bad.effectId, decisionId), `effect/${bad.effectId}`);
    });
    await world.advance(1);
    expect((await executor.look(bad.effectId)).state).toBe(CANCELLED);
  });

  test('the log of all this verifies', async () => {
    expect(await findingsOfLog(world)).toEqual(WHOLE_LOG);
  });
});

async function drain(stream: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of stream);
}
