import fc from 'fast-check';
import { expect, test } from 'vitest';
import { acceptAction } from '../../src/ledger/action/accept-action.js';
import { addReceipt } from '../../src/ledger/action/add-receipt.js';
import { beginDispatch } from '../../src/ledger/action/begin-dispatch.js';
import { beginObservation } from '../../src/ledger/action/begin-observation.js';
import { completeAction } from '../../src/ledger/action/complete-action.js';
import { deferLeased } from '../../src/ledger/action/defer-leased.js';
import { deferObservation } from '../../src/ledger/action/defer-observation.js';
import { expireProposal } from '../../src/ledger/action/expire-proposal.js';
import { failAction } from '../../src/ledger/action/fail-action.js';
import { gateAction } from '../../src/ledger/action/gate-action.js';
import { leaseNext } from '../../src/ledger/action/lease-next.js';
import { leaseObservation } from '../../src/ledger/action/lease-observation.js';
import { proposeAction } from '../../src/ledger/action/propose-action.js';
import { reapLease } from '../../src/ledger/action/reap-lease.js';
import type { ActionEventRow, ActionRow } from '../../src/ledger/action/records.js';
import { isEnded, NEXT_STATE } from '../../src/ledger/action/states.js';
import { verifyAction } from '../../src/ledger/action/verify-action.js';
import type { CommandBase, Decision, Outcome } from '../../src/ledger/decision.js';
import { sha256 } from '../../src/ledger/encoding.js';
import { runDecision } from '../../src/ledger/run-decision.js';
import { HOUR, MINUTE, SECOND } from '../../src/ledger/types.js';
import {
  ActionWorld,
  EXECUTION_DIGEST,
  HARNESS,
  OTHER_WORKER,
  WORKER,
} from '../ledger/action/action-world.js';

// actions.md, whole: random parties, random batches, lost batches and lost answers, over the pure ledger in memory.

/** Some ten thousand commands, the same each time, so that all of {@link SEEN} is; more and others with SURETY_TEST_HISTORIES. */
const ASKED = process.env['SURETY_TEST_HISTORIES'];
const HISTORIES = Number(ASKED ?? 100);
const SEED = ASKED === undefined ? { seed: 1 } : {};
/** Far more than they take on the slowest machine. */
const TIME_LIMIT_MS = 600_000 + 3_000 * HISTORIES;

/** A command with its decision; the types belong together. */
interface Call {
  readonly decision: Decision<CommandBase, unknown>;
  readonly command: CommandBase;
}

function call<Command extends CommandBase, Reply>(
  decision: Decision<Command, Reply>,
  command: Command,
): Call {
  return { decision: decision as unknown as Call['decision'], command };
}

interface Dice {
  readonly who: number;
  readonly what: number;
  readonly how: number;
}

class History {
  readonly world = new ActionWorld();
  readonly seen = new Map<string, number>();
  /** What anybody ever knew of an action: a stale holder acts on an old row. */
  readonly known: ActionRow[] = [];
  readonly made: Call[] = [];
  private readonly dispatches = new Map<string, number>();

  private pick<T>(from: readonly T[], n: number): T | undefined {
    return from.length === 0 ? undefined : from[n % from.length];
  }

  /** The command of a move, if there is anything to make it of. */
  make(move: Move, dice: Dice): Call | undefined {
    const { world } = this;
    if (move === 'propose') {
      return call(proposeAction, world.propose({ proposalTtl: dice.how % 3 === 0 ? 20n * MINUTE : null }));
    }
    const caller = dice.how % 4 === 0 ? OTHER_WORKER : WORKER;
    const duration = BigInt(1 + (dice.what % 400)) * SECOND;
    if (move === 'lease') return call(leaseNext, world.lease({ caller, duration }));
    if (move === 'lease to observe') return call(leaseObservation, { ...world.lease({ caller }), duration });
    if (move === 'repeat') return this.pick(this.made.slice(-6), dice.who);
    if (move === 'go on') {
      const held = world.store.all('actions').filter(({ leaseToken }) => leaseToken !== null);
      const next = this.pick(held, dice.who);
      const onward = next && (dice.what % 23 === 0 ? 'fail' : ONWARD[next.state]);
      const away = next?.state === 'DISPATCHED' ? OBSERVED[dice.what % OBSERVED.length] : onward;
      const turn = dice.what % 7 === 0 && next?.state !== 'DISPATCHED' ? 'defer' : away;
      return next && turn && this.about(turn, next, dice);
    }
    // Mostly what somebody holds, or held.
    const action = this.pick(this.known.slice(-12), dice.who);
    return action && this.about(move, action, dice);
  }

  private about(move: About, action: ActionRow, dice: Dice): Call {
    const { world } = this;
    const { actionId } = action;
    const held = world.held(action);
    const executionDigest = EXECUTION_DIGEST;
    switch (move) {
      case 'gate':
        return call(gateAction, world.gate(world.action(actionId), {}, this.evidence(dice)));
      case 'dispatch':
        return call(beginDispatch, {
          ...world.dispatch(action),
          observationWindow: BigInt(1 + (dice.how % 5)) * MINUTE,
          maxObservations: 1 + (dice.what % 3),
        });
      case 'observe':
        return call(beginObservation, { ...held, executionDigest, requestId: world.newId('observation') });
      case 'defer':
        return call(deferLeased, { ...held, delay: BigInt(1 + dice.how) * SECOND });
      case 'defer to observe': {
        const observationNumber = world.action(actionId).observationCount;
        const delay = BigInt(1 + dice.how) * SECOND;
        return call(deferObservation, { ...held, executionDigest, observationNumber, delay });
      }
      case 'accept':
        return call(acceptAction, { ...held, receipt: world.receipt() });
      case 'verify': {
        const { acceptanceReceiptKey } = world.action(actionId);
        const witnessReceiptKeys = [dice.how % 4 === 0 ? 'none' : (acceptanceReceiptKey ?? 'none')];
        return call(verifyAction, { ...held, witnessReceiptKeys, receipt: null });
      }
      case 'complete':
        return call(completeAction, { ...held, resultDigest: sha256('result') });
      case 'fail':
        return call(failAction, { ...held, detail: 'no', resultDigest: null, retryable: true });
      case 'receipt': {
        const command = { ...world.base(), caller: HARNESS, kind: 'harness' as const, actionId };
        return call(addReceipt, { ...command, receipt: world.receipt() });
      }
      case 'reap':
        return call(reapLease, { ...world.base(), actionId });
      case 'expire':
        return call(expireProposal, { ...world.base(), actionId });
    }
  }

  private evidence(dice: Dice): object {
    if (dice.how % 7 === 0) return { action_id: 'act_another' };
    return dice.how % 5 === 0 ? { expires_at: Number(this.world.now + 30n * SECOND) } : {};
  }

  /** One batch of the lane. `lost`: its transaction was rolled back, and nobody was answered. */
  batch(calls: readonly Call[], fate: 'kept' | 'lost'): void {
    const { store } = this.world;
    const keys = new Set<string>();
    const taken = calls.filter(({ decision, command }) => {
      const key = decision.serializeBy?.(command);
      if (key !== undefined && keys.has(key)) return false;
      if (key !== undefined) keys.add(key);
      return true;
    });
    const set = store.gather(taken.map(({ decision, command }) => decision.reads(command)));
    const outcomes = taken.map(({ decision, command }) => runDecision(set, decision, command));
    if (fate === 'lost') return;
    store.commit(set.changes());
    taken.forEach((one, i) => this.answered(one, outcomes[i] as Outcome<unknown>));
    this.made.push(...taken);
    this.check();
  }

  private answered({ decision }: Call, outcome: Outcome<unknown>): void {
    const reply = (outcome.ok ? outcome.reply : {}) as {
      readonly action?: ActionRow;
      readonly leased?: { readonly action: ActionRow };
      readonly duplicate?: boolean;
    };
    const end = !outcome.ok ? outcome.refusal.reason : reply.duplicate === true ? 'duplicate' : 'ok';
    this.see(`${decision.kind} ${end}`);
    const action = reply.action ?? reply.leased?.action;
    if (action) this.known.push(action);
    if (decision.kind === beginDispatch.kind && outcome.ok && action) {
      const times = (this.dispatches.get(action.actionId) ?? 0) + 1;
      this.dispatches.set(action.actionId, times);
      // I6: it never answers success twice.
      expect(times).toBe(1);
    }
  }

  private see(what: string): void {
    this.seen.set(what, (this.seen.get(what) ?? 0) + 1);
  }

  /** The promises, of every action. What a batch may not do at all is refused by the store in memory (`action-rules.ts`). */
  private check(): void {
    const { store } = this.world;
    const events = new Map<string, ActionEventRow[]>();
    for (const event of store.all('action_events')) {
      events.set(event.actionId, [...(events.get(event.actionId) ?? []), event]);
    }
    for (const action of store.all('actions')) {
      const own = (events.get(action.actionId) ?? []).sort((a, b) => Number(a.eventNumber - b.eventNumber));
      expect(own.map(({ eventNumber }) => eventNumber)).toEqual(own.map((_, i) => BigInt(i + 1)));
      expect(action.eventCount).toBe(BigInt(own.length));
      expect(own.at(-1)).toMatchObject({ toState: action.state, auditSeq: action.lastSeq });
      own.forEach(({ fromState, toState }, i) => {
        expect(fromState).toBe(own[i - 1]?.toState ?? null);
        const edge = fromState === null || fromState === toState || NEXT_STATE[fromState] === toState;
        if (!edge) expect(toState).toBe('FAILED');
      });
      expect(own.filter(({ kind }) => kind === 'dispatched')).toHaveLength(action.attemptCount);
      const observed = own.filter(({ kind }) => kind === 'observation_started');
      expect(observed.map(({ observationNumber }) => observationNumber)).toEqual(
        observed.map((_, i) => i + 1),
      );
      expect(action.observationCount).toBe(observed.length);
      const letter = store.get('dead_letters', action.actionId);
      expect(letter !== undefined).toBe(action.state === 'FAILED');
      if (letter) expect(letter.failureReason).toBe(action.failureReason);
    }
    const tokens = store.all('action_leases').map(({ leaseToken }) => leaseToken);
    expect(new Set(tokens).size).toBe(tokens.length);
  }

  /** Time alone: everything that was dispatched comes to an end, whoever does nothing any more. */
  settle(): void {
    const { world } = this;
    world.advance(2n * HOUR);
    for (const { actionId } of world.store.all('actions')) {
      this.batch([call(reapLease, { ...world.base(), actionId })], 'kept');
      this.batch([call(expireProposal, { ...world.base(), actionId })], 'kept');
    }
    for (const action of world.store.all('actions')) {
      expect(action.leaseToken).toBeNull();
      expect(action.state).not.toBe('DISPATCHED');
      if (action.proposalExpiresAt !== null) expect(action.state).not.toBe('PROPOSED');
      if (isEnded(action.state)) expect(action.endedAt).not.toBeNull();
    }
  }
}

const MOVES = [
  ...['propose', 'propose', 'propose', 'gate', 'gate', 'gate', 'lease', 'lease', 'lease', 'lease'],
  ...['lease to observe', 'lease to observe', 'dispatch', 'dispatch', 'dispatch', 'dispatch', 'observe'],
  ...['observe', 'defer', 'defer to observe', 'accept', 'accept', 'accept', 'verify', 'verify', 'complete'],
  ...['complete', 'fail', 'receipt', 'reap', 'expire', 'repeat', 'repeat', 'repeat'],
  ...['go on', 'go on', 'go on', 'go on', 'go on', 'go on', 'go on', 'go on'],
] as const;
type Move = (typeof MOVES)[number];
/** Moves of one action. */
type About = Exclude<Move, 'propose' | 'lease' | 'lease to observe' | 'repeat' | 'go on'>;

/** What is done with a dispatch whose answer is in doubt. */
const OBSERVED: readonly About[] = ['accept', 'observe', 'accept', 'observe', 'defer to observe'];

/** What moves a held action on. */
const ONWARD: { readonly [S in ActionRow['state']]?: About } = {
  GATED: 'dispatch',
  DISPATCHED: 'accept',
  ACCEPTED: 'verify',
  VERIFIED: 'complete',
};

const dice = fc.record({ who: fc.nat(1_000), what: fc.nat(1_000), how: fc.nat(60) });
const step = fc.record({
  moves: fc.array(fc.tuple(fc.constantFrom(...MOVES), dice), { minLength: 1, maxLength: 5 }),
  fate: fc.constantFrom('kept', 'kept', 'lost', 'asked twice', 'asked twice'),
  pause: fc.constantFrom(0n, 0n, SECOND, 10n * SECOND, MINUTE),
});

/** What must have been seen, or the parties have become too tame to show anything. */
const SEEN = [
  ...['propose ok', 'propose duplicate', 'gate ok', 'gate duplicate', 'gate ACTION_STATE_CONFLICT'],
  ...['lease_next ok', 'lease_next duplicate', 'lease_observation ok', 'begin_dispatch ok'],
  ...[
    'begin_dispatch ACTION_STATE_CONFLICT',
    'begin_dispatch GATE_INVALID',
    'begin_dispatch APPROVAL_EXPIRED',
  ],
  ...['begin_dispatch LEASE_LOST', 'begin_observation ok', 'begin_observation duplicate', 'defer_leased ok'],
  ...['defer_leased duplicate', 'defer_observation ok', 'accept ok', 'accept duplicate', 'accept LEASE_LOST'],
  ...[
    'verify ok',
    'verify WITNESS_INVALID',
    'complete ok',
    'complete duplicate',
    'fail ok',
    'fail duplicate',
  ],
  ...['add_receipt ok', 'reap_lease ok', 'expire_proposal ok'],
];

test('histories of actions keep every promise, and come to an end', { timeout: TIME_LIMIT_MS }, () => {
  const seen = new Set<string>();
  const reasons = new Set<string | null>();
  fc.assert(
    fc.property(fc.array(step, { minLength: 20, maxLength: 60 }), (steps) => {
      const history = new History();
      for (const { moves, fate, pause } of steps) {
        history.world.advance(pause);
        const calls = moves.flatMap(([move, thrown]) => history.make(move, thrown) ?? []);
        history.batch(calls, fate === 'lost' ? 'lost' : 'kept');
        // The answers were lost, and everybody asks again.
        if (fate === 'asked twice') history.batch(calls, 'kept');
      }
      history.settle();
      for (const what of history.seen.keys()) seen.add(what);
      for (const { failureReason } of history.world.store.all('actions')) reasons.add(failureReason);
    }),
    { numRuns: HISTORIES, ...SEED, interruptAfterTimeLimit: TIME_LIMIT_MS - 5_000 },
  );
  expect(SEEN.filter((what) => !seen.has(`action.${what}`))).toEqual([]);
  expect([...reasons]).toEqual(
    expect.arrayContaining(['worker', 'proposal_expired', 'observation_deadline', 'observations_exhausted']),
  );
});
