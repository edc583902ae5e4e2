import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { DEMO_AUTHORITY_SYSTEM } from '../../src/cli/demo/set-up-domain.js';
import { EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { EffectService } from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import type { WorkloadSession } from '../../src/cli/client/workload-session.js';
import { AuditService } from '../../src/gen/surety/audit/v1/audit_service_pb.js';
import { ACME, AUDITOR, type E2eWorld, openE2eWorld, refusedWith } from '../support/e2e-world.js';

const TERMINAL = [EffectState.SUCCEEDED, EffectState.FAILED, EffectState.CANCELLED] as const;

describe('a whole life over mTLS', () => {
  let world: E2eWorld;
  let executor: WorkloadSession;
  let reconciler: WorkloadSession;

  beforeAll(async () => {
    world = await openE2eWorld();
    executor = await world.executor();
    reconciler = await world.reconciler();
  });
  afterAll(() => world.close());

  test.each(TERMINAL)('the executor acknowledges %s', async (state) => {
    const { effect } = await world.effectIn(state, executor);
    expect(effect.state).toBe(state);
    expect(effect.outputReference?.objectId).toBe(`effect-output:${effect.effectId}`);
  });

  test.each(TERMINAL)('a reconciler settles UNKNOWN as %s', async (state) => {
    const { effect, attemptId } = await world.effectIn(EffectState.UNKNOWN, executor);
    if (state !== EffectState.SUCCEEDED) await world.advance(121_000);
    const request = await reconciler.reconcile(effect, state, {
      attemptId,
      authoritySystemId: DEMO_AUTHORITY_SYSTEM,
      queryId: `query-${effect.effectId}`,
      response: 'what the ledger says',
      observedTime: timestampFromMs(await world.now()),
    });
    const { result } = await reconciler.channel.service(EffectService).reconcile(request);
    expect(result).toMatchObject({ state, duplicate: false, step: 4n });
  });

  test('a blind acknowledgement of UNKNOWN must reconcile, and is kept', async () => {
    const { effect, attemptId } = await world.effectIn(EffectState.UNKNOWN, executor);
    const request = await executor.acknowledge(effect, EffectState.SUCCEEDED, {
      attemptId,
      receiptId: 'receipt-guessed',
      receipt: 'probably',
      observedTime: timestampFromMs(await world.now()),
    });
    const error = await refusedWith(executor.channel.service(EffectService).acknowledgeTerminal(request));
    expect(error).toMatchObject({
      code: 'FAILED_PRECONDITION',
      reason: 'EFFECT_MUST_RECONCILE',
      metadata: { late_evidence: 'kept' },
    });
  });

  test('the log of all this verifies', async () => {
    const reply = await world.channel(AUDITOR).service(AuditService).verifyChain({ domainId: ACME });
    expect(reply).toMatchObject({ verified: true, complete: true, findings: [] });
    expect(reply.entries).toBeGreaterThan(20n);
  });
});
