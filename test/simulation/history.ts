import { isDeepStrictEqual } from 'node:util';
import type { Outcome } from '../../src/ledger/decision.js';
import type { EffectRow } from '../../src/ledger/effect/records.js';
import type { ReserveEffectCommand } from '../../src/ledger/effect/reserve-effect.js';
import type { TransitionCommand } from '../../src/ledger/effect/transition-command.js';
import type { Reason } from '../../src/ledger/refusal.js';
import { runDecision } from '../../src/ledger/run-decision.js';
import { NotGatheredError } from '../../src/ledger/working-set.js';
import {
  DOMAIN,
  GRANT_SHAPES,
  giveCredential,
  giveGrant,
  HARNESSES,
  HOUR,
  Ids,
  MINUTE,
  NARROW,
  register,
  SECOND,
  seedCast,
  someLimits,
  WORKLOADS,
} from './cast.js';
import { judgeHold, quotaOf } from './holds.js';
import { MemoryStore } from './memory-store.js';
import { type Dice, MAKERS, type Memory, type Move, type MoveName } from './moves.js';

/** What becomes of a batch: its replies arrive, it is lost before COMMIT and decided anew, or its replies are lost. */
export type Fate = 'answered' | 'lost' | 'unanswered';

/** One thing that happens in a history. */
export type Step =
  | { readonly kind: 'submit'; readonly move: MoveName; readonly dice: Dice; readonly flush: boolean }
  | { readonly kind: 'wait'; readonly dice: Dice }
  | { readonly kind: 'govern'; readonly dice: Dice }
  | { readonly kind: 'fate'; readonly fate: Fate };

type Reply = { readonly effect: EffectRow; readonly duplicate: boolean };

const WAITS = [
  SECOND,
  SECOND,
  40n * SECOND,
  70n * SECOND,
  3n * MINUTE,
  6n * MINUTE,
  20n * MINUTE,
  2n * HOUR,
] as const;
const MAX_BATCH = 64;
/** Reasons that nothing that anybody can submit may lead to. */
const NEVER: ReadonlySet<Reason> = new Set([
  'DATA_CORRUPT',
  'INTERNAL',
  'PENDING_WORK_CONFLICT',
  'FIELD_INVALID',
]);

/** A promise that did not hold. */
export class PromiseBroken extends Error {}

/**
 * Runs a history on two stores: on one in batches as a lane takes them, with batches that are lost and replies that are
 * lost; on the other every command alone. Both must come to the same log, and to the same answers.
 */
export class History {
  readonly batched = new MemoryStore(DOMAIN);
  readonly serial = new MemoryStore(DOMAIN);
  readonly outcomes = new Map<string, number>();
  submitted = 0;
  /** Executions that tried whether a sink works again. */
  probes = 0;
  batches = 0;
  splits = 0;
  private readonly ids = new Ids();
  private readonly memory: Memory = { reservations: [], transitions: [], decisions: new Map() };
  private queue: Move[] = [];
  private fate: Fate = 'answered';
  /** What an effect's first reply said, by identity. */
  private readonly firstReplies = new Map<string, EffectRow>();
  /** Which process was told to send, by effect. */
  private readonly senders = new Map<string, string>();

  constructor() {
    for (const store of [this.batched, this.serial]) {
      seedCast(store, new Ids());
      store.domain = { ...store.domain, limits: NARROW };
    }
    // Ids that the cast took are not given again.
    for (let i = 0; i < 100; i += 1) this.ids.next('seeded');
  }

  run(steps: readonly Step[]): void {
    for (const step of steps) this.take(step);
    this.flush();
  }

  /** Submits one move and has it served. */
  submitNow(move: Move | undefined): Outcome<unknown> | undefined {
    if (!move) return undefined;
    this.queue.push(move);
    return this.flush().at(-1);
  }

  wait(time: bigint): void {
    this.flush();
    this.batched.now += time;
    this.serial.now += time;
  }

  /** What an administrator's command does to the rows, on both stores. */
  govern(dice: Dice): void {
    this.flush();
    const before = this.ids;
    for (const store of [this.batched, this.serial]) {
      // The same ids on both.
      const ids = Object.assign(new Ids(), before);
      govern(store, ids, dice);
      if (store === this.serial) Object.assign(before, ids);
    }
  }

  private take(step: Step): void {
    if (step.kind === 'wait') return this.wait(WAITS[step.dice.when % WAITS.length] as bigint);
    if (step.kind === 'govern') return this.govern(step.dice);
    if (step.kind === 'fate') {
      this.fate = step.fate;
      return;
    }
    const move = MAKERS[step.move](this.batched, this.ids, step.dice, this.memory);
    if (move) this.queue.push(move);
    if (step.flush) this.flush();
  }

  private flush(): Outcome<unknown>[] {
    const outcomes: Outcome<unknown>[] = [];
    while (this.queue.length > 0) outcomes.push(...this.serve(this.takeBatch()));
    return outcomes;
  }

  /** As a lane takes a batch: in order, bounded, no serialization key twice. */
  private takeBatch(): Move[] {
    const batch: Move[] = [];
    const keys = new Set<string>();
    while (this.queue.length > 0 && batch.length < MAX_BATCH) {
      const { decision, command } = this.queue[0] as Move;
      const key = decision.serializeBy?.(command);
      if (key !== undefined && keys.has(key)) break;
      if (decision.exclusive === true && batch.length > 0) break;
      if (key !== undefined) keys.add(key);
      batch.push(this.queue.shift() as Move);
      if (decision.exclusive === true) break;
    }
    return batch;
  }

  private serve(batch: readonly Move[]): Outcome<unknown>[] {
    const { fate } = this;
    this.fate = 'answered';
    if (fate === 'lost') this.decide(batch);
    const verdicts = this.decideAndCommit(batch);
    const alone = batch.flatMap((move) => this.commitOn(this.serial, [move]));
    for (const [i, move] of batch.entries()) {
      must(isDeepStrictEqual(verdicts[i], alone[i]), `${move.kind} is answered alike in a batch and alone`);
      this.judge(move, verdicts[i] as Outcome<unknown>);
    }
    must(
      this.batched.head.chainHash.equals(this.serial.head.chainHash),
      'the log of a batch is the log of its commands one by one',
    );
    if (fate === 'unanswered') this.repeat(batch, verdicts);
    return verdicts;
  }

  private decideAndCommit(batch: readonly Move[]): Outcome<unknown>[] {
    try {
      this.batches += 1;
      return this.commitOn(this.batched, batch);
    } catch (error) {
      if (!(error instanceof NotGatheredError) || batch.length === 1) throw error;
      this.splits += 1;
      return batch.flatMap((move) => this.commitOn(this.batched, [move]));
    }
  }

  /** A batch that never comes to COMMIT leaves no trace, in the store or in the commands. */
  private decide(batch: readonly Move[]): void {
    const set = this.batched.gather(batch.map(({ decision, command }) => decision.reads(command)));
    for (const { decision, command } of batch) {
      try {
        runDecision(set, decision, command);
      } catch (error) {
        if (!(error instanceof NotGatheredError)) throw error;
        return;
      }
    }
  }

  private commitOn(store: MemoryStore, batch: readonly Move[]): Outcome<unknown>[] {
    const set = store.gather(batch.map(({ decision, command }) => decision.reads(command)));
    const outcomes = batch.map(({ decision, command }) => runDecision(set, decision, command));
    store.commit(set.changes());
    return outcomes;
  }

  /** Whoever got no reply repeats the exact call, and gets the first answer; nothing is done twice. */
  private repeat(batch: readonly Move[], first: readonly Outcome<unknown>[]): void {
    for (const [i, move] of batch.entries()) {
      if (!REPEATABLE.has(move.kind)) continue;
      const before = this.batched.head;
      const repeated = { ...move, command: again(move, this.ids) };
      const [answer] = this.commitOn(this.batched, [repeated]);
      this.commitOn(this.serial, [repeated]);
      // What was refused at first may be done now: another command of the batch has made room.
      this.judge(repeated, answer as Outcome<unknown>);
      const outcome = first[i] as Outcome<Reply>;
      if (!outcome.ok || movedOn(this.batched, outcome.reply)) continue;
      const reply = answer?.ok ? (answer.reply as Reply) : undefined;
      must(
        reply?.duplicate === true,
        `a repeat of ${move.kind} is a duplicate: ${JSON.stringify(answer, plain)}`,
      );
      must(
        isDeepStrictEqual(reply?.effect, outcome.reply.effect),
        `a repeat of ${move.kind} gets the first answer`,
      );
      must(this.batched.head === before, `a repeat of ${move.kind} writes nothing`);
    }
  }

  /** What holds for every answer. */
  private judge({ kind, command }: Move, outcome: Outcome<unknown>): void {
    this.submitted += 1;
    const word = outcome.ok
      ? (outcome.reply as Partial<Reply>).duplicate
        ? 'duplicate'
        : 'ok'
      : [outcome.refusal.reason, quotaOf(outcome.refusal)].join(' ').trim();
    this.outcomes.set(`${kind} ${word}`, (this.outcomes.get(`${kind} ${word}`) ?? 0) + 1);
    if (!outcome.ok) {
      must(!NEVER.has(outcome.refusal.reason), `${kind} is never refused with ${outcome.refusal.reason}`);
      judgeHold(kind, outcome.refusal);
      return;
    }
    const reply = outcome.reply as Reply;
    if (kind === 'effect.reserve') this.judgeReservation(command as ReserveEffectCommand, reply);
    if (kind === 'effect.start') this.judgeStart(command as TransitionCommand, reply);
  }

  private judgeReservation(command: ReserveEffectCommand, { effect, duplicate }: Reply): void {
    const identity = `${command.eventId} ${command.outputSink} ${command.requestDigest.toString('hex')}`;
    const first = this.firstReplies.get(identity);
    must(duplicate === (first !== undefined), 'an identity is reserved once');
    if (this.batched.get('effect_tombstones', effect.effectId)) {
      this.outcomes.set('duplicate of an archived effect', 1);
    }
    if (!first) {
      const grant = this.batched.get('grants', command.grantId);
      const done = this.batched
        .find('keySucceeded', effect.sink, effect.keyDigest)
        .concat(
          this.batched
            .find('keyHolder', effect.sink, effect.keyDigest)
            .filter(({ state }) => state === 'SUCCEEDED'),
        )
        .filter(({ effectId }) => effectId !== effect.effectId && effectId < effect.effectId)
        .map(({ effectId }) => effectId)
        .concat(
          this.batched
            .find('keyArchived', effect.sink, effect.keyDigest)
            .map(({ effectId }) => effectId)
            .filter((effectId) => effectId !== effect.effectId && effectId < effect.effectId),
        );
      must(
        done.length === 0 || (command.repeatable && grant?.repeatable === true),
        'what was done is not done again',
      );
      this.firstReplies.set(identity, effect);
      return;
    }
    for (const field of [
      'effectId',
      'fence',
      'reserveSeq',
      'reservedAt',
      'decisionId',
      'startBefore',
    ] as const) {
      // A tombstone has what the reply is made of, and no more.
      if (effect[field] === undefined && field === 'reservedAt') continue;
      must(first[field] === effect[field], `a duplicate has the first ${field}`);
    }
  }

  /** One process, ever, is told to send. */
  private judgeStart(command: TransitionCommand, { effect }: Reply): void {
    const { registrationId, processId, processStart, sessionId } = command.proof.statement;
    const sender = [
      registrationId,
      processId,
      processStart,
      sessionId,
      command.evidence.fields.attemptId,
    ].join(' ');
    const known = this.senders.get(effect.effectId);
    must(known === undefined || known === sender, 'one process is told to send');
    this.senders.set(effect.effectId, sender);
    if (this.batched.get('sink_counters', effect.sink)?.probeEffectId === effect.effectId) this.probes += 1;
  }
}

/** Kinds whose repeat is answered by what is stored. */
const REPEATABLE: ReadonlySet<string> = new Set([
  'effect.reserve',
  'effect.start',
  'effect.mark_unknown',
  'effect.acknowledge',
  'effect.reconcile',
  'effect.cancel',
]);

/** The exact call again: the rpc layer mints ids of its own for it. */
function again({ kind, command }: Move, ids: Ids): Move['command'] {
  const commandId = ids.next('cmd');
  return kind === 'effect.reserve'
    ? ({ ...command, commandId, effectId: ids.next('eff'), decisionId: ids.next('dec') } as Move['command'])
    : { ...command, commandId };
}

/** Another command of the batch has changed it since. */
function movedOn(store: MemoryStore, { effect }: Reply): boolean {
  return store.get('effects', effect.effectId)?.step !== effect.step;
}

function govern(store: MemoryStore, ids: Ids, { who, what, how }: Dice): void {
  const grants = store.all('grants');
  switch (what % 11) {
    case 0: {
      const grant = grants[how % grants.length];
      if (grant?.revokedAt === null) store.put('grants', { ...grant, revokedAt: store.now });
      return;
    }
    case 1:
    case 2: {
      giveGrant(store, ids, GRANT_SHAPES[how % GRANT_SHAPES.length] as (typeof GRANT_SHAPES)[number]);
      return;
    }
    case 3: {
      const { harnessId } = HARNESSES[who % 2] as (typeof HARNESSES)[number];
      const harness = store.get('harnesses', harnessId);
      if (!harness) return;
      store.put('harnesses', { ...harness, credentialEpoch: harness.credentialEpoch + 1n });
      giveCredential(store, ids, harnessId);
      for (const shape of GRANT_SHAPES) giveGrant(store, ids, shape);
      return;
    }
    case 4:
    case 5:
      register(store, ids, WORKLOADS[who % WORKLOADS.length] as (typeof WORKLOADS)[number]);
      return;
    case 6: {
      store.domain = { ...store.domain, frozen: how % 4 === 0, freezeReason: how % 4 === 0 ? 'test' : null };
      return;
    }
    case 7: {
      const principal = store.get('principals', 'paula');
      if (principal)
        store.put('principals', { ...principal, status: how % 4 === 0 ? 'suspended' : 'active' });
      return;
    }
    case 8: {
      const registration = store.get('registrations', (WORKLOADS[who % 2] as (typeof WORKLOADS)[number]).id);
      if (registration)
        store.put('registrations', { ...registration, status: how % 4 === 0 ? 'revoked' : 'active' });
      return;
    }
    case 9: {
      if (how % 4 !== 0) return;
      store.domain = {
        ...store.domain,
        policyRevision: store.domain.policyRevision + 1n,
        revocationEpoch: store.domain.revocationEpoch + 1n,
      };
      for (const entitlement of store.all('entitlements')) {
        store.put('entitlements', { ...entitlement, policyRevision: store.domain.policyRevision });
      }
      for (const workload of WORKLOADS) register(store, ids, workload);
      for (const shape of GRANT_SHAPES) giveGrant(store, ids, shape);
      return;
    }
    case 10:
      store.domain = { ...store.domain, limits: someLimits(how, who) };
  }
}

/** `JSON.stringify` with bigints as text. */
export function plain(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? `${value}n` : value;
}

function must(holds: boolean, promise: string): void {
  if (!holds) throw new PromiseBroken(promise);
}
