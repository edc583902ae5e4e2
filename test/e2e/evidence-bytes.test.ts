import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { WorkloadSession } from '../../src/cli/client/workload-session.js';
import { refusedWith } from '../support/e2e-world.js';
import { type Rpc, type Target, time, TransitionRig, type Wish } from '../support/transition-rig.js';

interface Vector {
  readonly name: string;
  readonly kind: 'execution' | 'uncertainty' | 'terminal' | 'reconciliation';
  readonly accept: boolean;
  readonly fields?: readonly string[];
  readonly bytes_hex: string;
}

const VECTORS: readonly Vector[] = JSON.parse(
  readFileSync(new URL('../../testvectors/evidence.json', import.meta.url), 'utf8'),
);
const RPC_OF = {
  execution: 'start',
  uncertainty: 'markUnknown',
  terminal: 'acknowledge',
  reconciliation: 'reconcile',
} as const;

let rig: TransitionRig;
let executor: WorkloadSession;
let reconciler: WorkloadSession;
let targets: Readonly<Record<Rpc, Target>>;

beforeAll(async () => {
  rig = await TransitionRig.open();
  executor = await rig.world.executor();
  reconciler = await rig.world.reconciler();
  const executing = await rig.executing(executor);
  targets = {
    start: await rig.prepared(),
    markUnknown: executing,
    acknowledge: executing,
    reconcile: await rig.unknown(executor),
  };
});
afterAll(() => rig.close());

const by = (rpc: Rpc): WorkloadSession => (rpc === 'reconcile' ? reconciler : executor);
const refused = (rpc: Rpc, wish: Wish) => rig.refused(rpc, by(rpc), targets[rpc], wish);
const fieldsOf = async (rpc: Rpc, wish: Wish): Promise<string[]> => {
  const { code, reason, violations } = await refused(rpc, wish);
  expect({ code, reason }).toEqual({ code: 'INVALID_ARGUMENT', reason: 'FIELD_INVALID' });
  return violations.map(({ field }) => field);
};

describe('evidence is the one encoding of its message', () => {
  test('every vector, told by the path of its field', async () => {
    const traces = await rig.traces();
    for (const { name, kind, accept, fields, bytes_hex } of VECTORS) {
      const bytes = Uint8Array.from(Buffer.from(bytes_hex, 'hex'));
      const rpc = RPC_OF[kind];
      if (accept) {
        // Good in itself, and of another attempt or request than the effect's.
        const { reason } = await refused(rpc, { bytes });
        expect(`${name}: ${reason}`).toMatch(/: EFFECT_(REQUEST|ATTEMPT)_MISMATCH$/);
        continue;
      }
      expect({ name, fields: await fieldsOf(rpc, { bytes }) }).toEqual({ name, fields });
    }
    expect(await rig.traces()).toEqual(traces);
  });

  test('the evidence of another RPC', async () => {
    // Execution and terminal evidence have fields of the same kinds: there the states that are signed tell them apart.
    const pairs = [
      ['start', 'markUnknown'],
      ['start', 'reconcile'],
      ['markUnknown', 'start'],
      ['acknowledge', 'reconcile'],
      ['reconcile', 'acknowledge'],
    ] as const;
    for (const [rpc, other] of pairs) {
      const bytes = rig.request(other, by(other), targets[rpc]).evidence;
      const fields = await fieldsOf(rpc, { bytes });
      expect(fields.every((field) => field.startsWith('evidence'))).toBe(true);
    }
    const bytes = rig.request('acknowledge', executor, targets.acknowledge).evidence;
    const traces = await rig.traces();
    expect((await refused('start', { bytes })).reason).toBe('EFFECT_REQUEST_MISMATCH');
    expect(await rig.traces()).toEqual(traces);
  });

  test('what is wrong with the rest of the request is told with it', async () => {
    const { proof: _, ...request } = rig.request('start', executor, targets.start, {
      evidence: { attemptId: 'short' },
    });
    const channel = executor.channel;
    const error = await refusedWith(rig.send('start', { ...request, effectId: '', proof: {} }, channel));
    expect(error.violations.map(({ field }) => field)).toEqual(['effect_id', 'proof', 'evidence.attempt_id']);
  });
});

describe('limits', () => {
  const LENGTHS: readonly (readonly [Rpc, string, string, number, number])[] = [
    ['start', 'executorInstanceId', 'executor_instance_id', 16, 256],
    ['markUnknown', 'attemptId', 'attempt_id', 16, 256],
    ['acknowledge', 'externalReceiptId', 'external_receipt_id', 8, 512],
    ['reconcile', 'authoritySystemId', 'authority_system_id', 3, 256],
    ['reconcile', 'queryId', 'query_id', 8, 512],
  ];

  test.each(LENGTHS)('%s: %s, in octets', async (rpc, name, field, min, max) => {
    // Two octets each, so that characters are not what is counted.
    const text = (octets: number): string => 'é'.repeat(Math.floor(octets / 2)) + 'x'.repeat(octets % 2);
    for (const octets of [min - 1, max + 1]) {
      expect(await fieldsOf(rpc, { evidence: { [name]: text(octets) } })).toEqual([`evidence.${field}`]);
    }
    for (const octets of [min, max]) {
      // Behind the form: the time is what is wrong with it now.
      const late = { [rpc === 'start' ? 'startTime' : 'observedTime']: time(rig.now + 61_000_000n) };
      const { reason } = await refused(rpc, { evidence: { [name]: text(octets), ...late } });
      expect(reason).toBe(name === 'attemptId' ? 'EFFECT_ATTEMPT_MISMATCH' : 'EVIDENCE_TIME_OUTSIDE_WINDOW');
    }
  });

  test('digests of 32 bytes, states that are terminal, times from 1970 to 9999', async () => {
    for (const length of [0, 31, 33]) {
      const digest = new Uint8Array(length);
      expect(await fieldsOf('start', { evidence: { requestDigest: digest } })).toEqual([
        'evidence.request_digest',
      ]);
      expect(await fieldsOf('reconcile', { evidence: { queryResponseDigest: digest } })).toEqual([
        'evidence.query_response_digest',
      ]);
    }
    for (const terminalState of [0, 1, 2, 6]) {
      expect(await fieldsOf('reconcile', { evidence: { terminalState } })).toEqual([
        'evidence.terminal_state',
      ]);
    }
    for (const observedTime of [
      { seconds: -1n, nanos: 0 },
      { seconds: 253_402_300_800n, nanos: 0 },
      { seconds: 1n, nanos: 1_000_000_000 },
    ]) {
      expect(await fieldsOf('acknowledge', { evidence: { observedTime } })).toEqual([
        'evidence.observed_time',
      ]);
    }
  });

  test.each([
    ['a NUL', '\u0000'],
    ['a line feed', '\n'],
    ['DEL', '\u007f'],
    ['a C1 control', '\u0085'],
    ['a line separator', '\u2028'],
    ['a paragraph separator', '\u2029'],
  ])('ids hold no %s', async (_name, character) => {
    const attemptId = `attempt-${character}-of-somebody`;
    expect(await fieldsOf('acknowledge', { evidence: { attemptId } })).toEqual(['evidence.attempt_id']);
  });

  test('NFC and NFD are two attempts', async () => {
    const attemptId = `attempt-caf\u00e9-${targets.start.effectId}`;
    const target = { ...(await rig.prepared()), attemptId };
    await rig.done('start', executor, target);
    const other = { evidence: { attemptId: attemptId.normalize('NFD') } };
    expect(await rig.refused('markUnknown', executor, target, other)).toMatchObject({
      reason: 'EFFECT_ATTEMPT_MISMATCH',
    });
    expect(await rig.done('markUnknown', executor, target)).toMatchObject({ attemptId });
  });
});
