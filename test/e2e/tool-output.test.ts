import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { digest, type WorkloadSession } from '../../src/cli/client/workload-session.js';
import { DEMO_AUTHORITY_SYSTEM, DEMO_DATA_CLASS } from '../../src/cli/demo/set-up-domain.js';
import { EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { ProvenanceService } from '../../src/gen/surety/provenance/v1/provenance_service_pb.js';
import { ObjectType, type ProvenanceRecord, StepKind } from '../../src/gen/surety/provenance/v1/record_pb.js';
import { canonicalDigest } from '../../src/ledger/encoding.js';
import { ACME, OPERATOR } from '../support/e2e-world.js';
import { hex, type Rpc, type Target, time, TransitionRig } from '../support/transition-rig.js';

const SECOND = 1_000_000n;

let rig: TransitionRig;
let executor: WorkloadSession;
let reconciler: WorkloadSession;

beforeAll(async () => {
  rig = await TransitionRig.open();
  // Renewed once, so that an epoch of 1 is nobody's default.
  executor = await rig.renewed(await rig.world.executor());
  reconciler = await rig.renewed(await rig.renewed(await rig.world.reconciler()));
});
afterAll(() => rig.close());

async function recordOf(objectType: ObjectType, objectId: string): Promise<ProvenanceRecord> {
  const { record } = await rig.world
    .channel(OPERATOR)
    .service(ProvenanceService)
    .getRecord({ domainId: ACME, objectType, objectId, version: 1n });
  if (!record) throw new Error('the service answered without a record');
  return record;
}

const outputOf = ({ effectId }: Target) => recordOf(ObjectType.TOOL_OUTPUT, `effect-output:${effectId}`);

describe('the tool output of an effect', () => {
  const cases: readonly (readonly [Rpc, EffectState])[] = [
    ['acknowledge', EffectState.SUCCEEDED],
    ['acknowledge', EffectState.FAILED],
    ['acknowledge', EffectState.CANCELLED],
    ['reconcile', EffectState.SUCCEEDED],
    ['reconcile', EffectState.FAILED],
  ];

  test.each(cases.map(([rpc, to]) => [rpc, EffectState[to], to] as const))(
    'is derived from the event, by %s to %s',
    async (rpc, _to, to) => {
      const session = rpc === 'reconcile' ? reconciler : executor;
      const target = await rig.executing(executor);
      const started = rig.now;
      if (rpc === 'reconcile') await rig.done('markUnknown', executor, target);
      await rig.move(130n * SECOND);
      const observed = rig.now - SECOND;
      const content = digest(`the answer about ${target.effectId}`);
      const evidence = {
        [rpc === 'reconcile' ? 'queryResponseDigest' : 'externalReceiptDigest']: content,
        observedTime: time(observed),
      };
      const result = await rig.done(rpc, session, target, { to, evidence });

      const event = await recordOf(ObjectType.TASK, target.eventId);
      const record = await outputOf(target);
      const { registration } = session;
      expect(record).toMatchObject({
        reference: {
          domainId: ACME,
          objectType: ObjectType.TOOL_OUTPUT,
          objectId: `effect-output:${target.effectId}`,
          version: 1n,
          classification: DEMO_DATA_CLASS,
          policyRevision: event.reference?.policyRevision,
        },
        allowedSinks: [],
        tainted: true,
        recordTime: time(rig.now),
      });
      expect(record.origin).toBeUndefined();
      expect(hex(record.reference?.contentDigest)).toBe(hex(content));
      expect(record.parentDigests.map(hex)).toEqual([hex(event.reference?.provenanceDigest)]);
      expect(record.steps).toHaveLength(1);
      const [step] = record.steps;
      const operation = canonicalDigest('surety-tool-operation-v1', [
        ACME,
        target.effectId,
        target.attemptId,
      ]);
      expect(step).toMatchObject({
        kind: StepKind.TOOL,
        operation: operation.toString('hex'),
        implementation: `${rpc === 'reconcile' ? 'effect_reconciler' : 'effect_executor'}:${registration.registrationId}`,
        implementationVersion: rpc === 'reconcile' ? '3' : '2',
        executor: rpc === 'reconcile' ? `effect-system:${DEMO_AUTHORITY_SYSTEM}` : 'payments',
        startedTime: time(started),
        completedTime: time(observed),
      });
      expect(step?.inputDigests.map(hex)).toEqual([hex(event.reference?.contentDigest)]);
      expect(hex(step?.outputDigest)).toBe(hex(content));

      expect(result.outputReference).toEqual(record.reference);
      expect((await session.look(target.effectId)).outputReference).toEqual(record.reference);
      const { effect } = await rig.entry(result.auditPosition);
      expect(hex(effect?.provenanceDigest)).toBe(hex(record.reference?.provenanceDigest));
    },
  );

  test('never ends before the start, nor after the clock', async () => {
    const [early, late] = [await rig.executing(executor), await rig.executing(executor)];
    const started = rig.now;
    await rig.move(10n * SECOND);
    for (const [target, observed, completed] of [
      [early, started - 60n * SECOND, started],
      [late, rig.now + 60n * SECOND, rig.now],
    ] as const) {
      await rig.done('acknowledge', executor, target, { evidence: { observedTime: time(observed) } });
      const [step] = (await outputOf(target)).steps;
      expect(step).toMatchObject({ startedTime: time(started), completedTime: time(completed) });
    }
  });

  test('is checked again by a duplicate: another lineage or digest is a conflict, a changed row is corrupt', async () => {
    const target = await rig.executing(executor);
    const request = rig.request('acknowledge', executor, target);
    const first = await rig.send('acknowledge', request, executor.channel);
    const again = () => rig.send('acknowledge', request, executor.channel);
    // Also after a renewal: the output names the epoch under which it was made.
    executor = await rig.renewed(executor);
    const renewed = await rig.done('acknowledge', executor, target, { bytes: request.evidence });
    expect(renewed).toEqual({ ...first, duplicate: true });
    await expect(again()).rejects.toMatchObject({ reason: 'PROOF_BINDING_MISMATCH' });

    const change = (text: string) => rig.tamper(text, [ACME, `effect-output:${target.effectId}`]);
    const where = 'WHERE domain_id = $1 AND object_id = $2';
    await change(`UPDATE provenance_records SET allowed_sinks = '{payments}' ${where}`);
    expect(await rig.refused('acknowledge', executor, target, { bytes: request.evidence })).toMatchObject({
      code: 'DATA_LOSS',
      reason: 'DATA_CORRUPT',
    });
    await change(`UPDATE provenance_records SET allowed_sinks = '{}' ${where}`);
    await change(
      `DELETE FROM provenance_parents WHERE domain_id = $1 AND provenance_digest =
        (SELECT provenance_digest FROM provenance_records ${where})`,
    );
    expect(await rig.refused('acknowledge', executor, target, { bytes: request.evidence })).toMatchObject({
      reason: 'DATA_CORRUPT',
    });
    await change(`DELETE FROM provenance_records ${where}`);
    expect(await rig.refused('acknowledge', executor, target, { bytes: request.evidence })).toMatchObject({
      reason: 'DATA_CORRUPT',
    });
  });
});
