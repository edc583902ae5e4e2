import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { decodeEntryRecord } from '../../src/cli/archive/entry-record.js';
import { decodeEntry } from '../../src/lane/decode-entry.js';
import { genesisHash } from '../../src/ledger/audit/chain.js';
import { ChainVerifier } from '../../src/ledger/audit/verify-chain.js';
import { keyText } from '../../src/ledger/tables.js';
import { isTerminal } from '../../src/ledger/types.js';
import { DOMAIN, HOUR, Ids, MINUTE, register, WORKLOADS } from './cast.js';
import { type Fate, History, type Step } from './history.js';
import type { MemoryStore } from './memory-store.js';
import { type Dice, MAKERS, type MoveName, settlement } from './moves.js';

// effects.md, whole: random actors, random batches, lost batches and lost replies, over the pure ledger in memory.

/** Some twenty thousand commands; more with SURETY_TEST_HISTORIES. */
const HISTORIES = Number(process.env['SURETY_TEST_HISTORIES'] ?? 150);

/** Far more than they take on the slowest machine. */
const TIME_LIMIT_MS = 600_000 + 2_000 * HISTORIES;

/** What must have been seen, or the actors have become too tame to show anything. */
const SEEN = [
  'effect.reserve ok',
  'effect.reserve duplicate',
  'effect.reserve EFFECT_IDENTITY_CONFLICT',
  'effect.reserve EFFECT_KEY_BUSY',
  'effect.reserve EFFECT_KEY_DONE',
  'effect.reserve GRANT_EXHAUSTED',
  'effect.reserve QUOTA_EXHAUSTED domain_requests_per_minute',
  'effect.reserve QUOTA_EXHAUSTED actor_requests_per_minute',
  'effect.reserve QUOTA_EXHAUSTED pending_work',
  'effect.reserve FAIRNESS_HOLD fairness_burst',
  'effect.reserve CIRCUIT_OPEN',
  'effect.reserve UNKNOWN_CEILING unknown_ceiling',
  'effect.reserve UNKNOWN_CEILING unknown_age',
  'effect.start ok',
  'effect.start QUOTA_EXHAUSTED domain_requests_per_minute',
  'effect.start FAIRNESS_HOLD fairness_burst',
  'effect.start CIRCUIT_OPEN',
  'effect.start duplicate',
  'effect.start EFFECT_STATE_CONFLICT',
  'effect.start START_TOO_LATE',
  'effect.start GRANT_NOT_CURRENT',
  'effect.start PROOF_REPLAYED',
  'effect.mark_unknown ok',
  'effect.mark_unknown duplicate',
  'effect.mark_unknown EFFECT_EXECUTOR_MISMATCH',
  'effect.acknowledge ok',
  'effect.acknowledge duplicate',
  'effect.acknowledge EFFECT_MUST_RECONCILE',
  'effect.reconcile ok',
  'effect.reconcile duplicate',
  'effect.reconcile RECONCILE_TOO_EARLY',
  'effect.reconcile RECONCILER_NOT_INDEPENDENT',
  'effect.cancel ok',
  'effect.cancel duplicate',
  'effect.cancel EFFECT_STATE_CONFLICT',
  'effect.expire ok',
  'effect.lose_executor ok',
  'effect.archive ok',
  'effect.archive REVISION_STALE',
  'effect.start EFFECT_ARCHIVED',
  'effect.acknowledge EFFECT_ARCHIVED',
  'duplicate of an archived effect',
  'late evidence',
  'disputed',
  'a probe',
];

const dice: fc.Arbitrary<Dice> = fc.record({
  who: fc.nat(1_000),
  what: fc.nat(1_000),
  how: fc.nat(1_000),
  when: fc.nat(1_000),
});

const MOVES: readonly MoveName[] = [
  ...Array<MoveName>(6).fill('reserve'),
  ...Array<MoveName>(6).fill('start'),
  ...Array<MoveName>(3).fill('unknown'),
  ...Array<MoveName>(3).fill('acknowledge'),
  ...Array<MoveName>(4).fill('settle'),
  ...Array<MoveName>(3).fill('transitAgain'),
  'reserveAgain',
  'reserveAgain',
  'askToCancel',
  'cancel',
  'expire',
  'lose',
  'archive',
  'archive',
];

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 40,
    arbitrary: fc.record({
      kind: fc.constant('submit' as const),
      move: fc.constantFrom(...MOVES),
      dice,
      flush: fc.nat(3).map((n) => n === 0),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('wait' as const), dice }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('govern' as const), dice }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('fate' as const),
      fate: fc.constantFrom<Fate>('lost', 'unanswered'),
    }),
  },
);

/** What holds in any store, whatever happened. */
function expectSound(store: MemoryStore): void {
  const effects = store.all('effects');
  const tombstones = store.all('effect_tombstones');
  const everMade = [...effects, ...tombstones];
  const live = effects.filter(({ state }) => !isTerminal(state));
  expect(
    store
      .all('pending_work')
      .map(({ effectId }) => effectId)
      .sort(),
    'pending work',
  ).toEqual(live.map(({ effectId }) => effectId).sort());

  expectCounted(store);

  const holders = everMade
    .filter(({ holdsKey }) => holdsKey)
    .map(({ sink, keyDigest }) => keyText([sink, keyDigest]));
  expect(new Set(holders).size, 'one holder per key').toBe(holders.length);
  for (const effect of live) expect(effect.holdsKey, 'a live effect holds its key').toBe(true);

  for (const { grantId, uses, maxUses } of store.all('grants')) {
    expect(uses).toBeLessThanOrEqual(maxUses);
    expect(
      BigInt(everMade.filter((effect) => effect.grantId === grantId).length),
      'uses are reservations',
    ).toBe(uses);
  }

  const fences = everMade.sort((a, b) => (a.reserveSeq < b.reserveSeq ? -1 : 1)).map(({ fence }) => fence);
  for (const [i, fence] of fences.entries())
    if (i > 0) expect(fence).toBeGreaterThan(fences[i - 1] as bigint);
  expect(store.head.fenceCounter).toBe(BigInt(fences.length));

  const receipts = store.all('transitions');
  for (const { effectId, step: steps, state, attemptId } of effects) {
    const own = receipts.filter((receipt) => receipt.effectId === effectId && !receipt.late);
    const starts = own.filter(({ toState }) => toState === 'EXECUTING');
    expect(starts.length, 'one attempt').toBe(attemptId === null ? 0 : 1);
    for (const receipt of own) expect(receipt.attemptId).toBe(attemptId);
    const entries = store.all('audit_entries').filter((entry) => entry.effectId === effectId);
    expect(entries.map(({ effectStep }) => effectStep).sort(), state).toEqual(
      Array.from({ length: Number(steps) }, (_, i) => BigInt(i + 1)).sort(),
    );
  }
  const stepsInLog = new Map<string, bigint>();
  for (const { effectId } of store.all('audit_entries')) {
    if (effectId !== null) stepsInLog.set(effectId, (stepsInLog.get(effectId) ?? 0n) + 1n);
  }
  const withReceipts = new Set(receipts.map(({ effectId }) => effectId));
  for (const { effectId, step: steps, state } of tombstones) {
    expect(store.get('effects', effectId), 'an effect lives or has a tombstone').toBeUndefined();
    expect(isTerminal(state), 'what is archived is settled').toBe(true);
    expect(withReceipts.has(effectId), 'its receipts are gone').toBe(false);
    expect(stepsInLog.get(effectId), 'its steps stay in the log').toBe(steps);
  }
  const spent = store.all('transition_nonces').map(({ statementDigest }) => statementDigest.toString('hex'));
  const gone = store.all('audit_entries').flatMap(({ effectId, entry }) => {
    if (effectId === null || !store.get('effect_tombstones', effectId)) return [];
    const proof = decodeEntryRecord(entry)?.proofDigest ?? [];
    return proof.length > 0 ? [Buffer.from(proof).toString('hex')] : [];
  });
  const proved = [...receipts.map(({ statementDigest }) => statementDigest.toString('hex')), ...gone];
  expect(spent.sort(), 'every nonce has its receipt').toEqual(proved.sort());

  const verifier = new ChainVerifier(DOMAIN, decodeEntry, { seq: 0n, chainHash: genesisHash(DOMAIN) });
  const findings = store
    .all('audit_entries')
    .flatMap(({ effectId, effectStep, ...entry }) =>
      verifier.add({ ...entry, effect: { effectId, step: effectStep } }),
    );
  expect([...findings, ...verifier.finish(store.head)], 'the log').toEqual([]);
}

/** authority.md, Admission: every counter is what counting the rows comes to. */
function expectCounted(store: MemoryStore): void {
  const { counters } = store.head;
  expect(counters.pending, 'pending work').toBe(store.all('pending_work').length);
  for (const { sink, unknown, probeEffectId } of store.all('sink_counters')) {
    const effects = store.all('effects').filter((effect) => effect.sink === sink);
    expect(effects.filter(({ state }) => state === 'UNKNOWN').length, 'UNKNOWN').toBe(unknown);
    const probe = effects.find(({ effectId }) => effectId === probeEffectId);
    expect(probe?.state ?? 'EXECUTING', 'a probe is under way').toBe('EXECUTING');
  }
  const calls = store
    .all('actor_counters')
    .filter(({ windowStart, windowCalls }) => windowStart === counters.windowStart && windowCalls > 0)
    .map(({ windowCalls }) => windowCalls);
  const served = counters.served.flatMap((entry) => Array<number>(entry.actors).fill(entry.calls));
  expect(served, 'the histogram of the window').toEqual(calls.sort((a, b) => a - b));
}

/** Every state that is not terminal has its way out, whatever happened before. */
function bringToAnEnd(history: History): void {
  const store = history.batched;
  const ids = Object.assign(new Ids(), { made: 1_000_000 });
  history.wait(25n * HOUR);
  for (const copy of [store, history.serial]) {
    copy.domain = { ...copy.domain, frozen: false };
    register(copy, Object.assign(new Ids(), { made: 2_000_000 }), WORKLOADS[2]);
  }
  const nobody = { who: 4, what: 0, how: 0, when: 1 };
  const memory = { reservations: [], transitions: [], decisions: new Map() };
  for (const [move, state] of [
    ['expire', 'PREPARED'],
    ['lose', 'EXECUTING'],
  ] as const) {
    while (store.all('effects').some((effect) => effect.state === state)) {
      const outcome = history.submitNow(MAKERS[move](store, ids, nobody, memory));
      expect(outcome, move).toMatchObject({ ok: true, reply: { changed: true } });
    }
  }
  history.wait(10n * MINUTE);
  const reconciler = store.get('registrations', WORKLOADS[2].id);
  for (const effect of store.all('effects').filter(({ state }) => state === 'UNKNOWN')) {
    const outcome = reconciler && history.submitNow(settlement(store, ids, effect, reconciler, nobody));
    expect(outcome, 'settle').toMatchObject({ ok: true, reply: { duplicate: false } });
  }
  expect(store.all('effects').filter(({ state }) => !isTerminal(state))).toEqual([]);
}

describe('random histories of random actors', () => {
  test(
    'keep every promise, and come to an end',
    () => {
      const seen = new Set<string>();
      let commands = 0;
      let batches = 0;
      fc.assert(
        fc.property(fc.array(step, { minLength: 1, maxLength: 500, size: 'max' }), (steps) => {
          const history = new History();
          history.run(steps);
          expectSound(history.batched);
          bringToAnEnd(history);
          expectSound(history.batched);
          commands += history.submitted;
          batches += history.batches;
          for (const word of history.outcomes.keys()) seen.add(word);
          if (history.probes > 0) seen.add('a probe');
          for (const { lateEvidenceCount, disputed } of history.batched.all('effects')) {
            if (lateEvidenceCount > 0) seen.add('late evidence');
            if (disputed) seen.add('disputed');
          }
        }),
        // A failure is not made smaller for longer than this.
        { numRuns: HISTORIES, interruptAfterTimeLimit: TIME_LIMIT_MS },
      );
      expect(SEEN.filter((word) => !seen.has(word))).toEqual([]);
      expect(commands).toBeGreaterThan(HISTORIES * 100);
      expect(batches).toBeLessThan(commands);
    },
    2 * TIME_LIMIT_MS,
  );
});
