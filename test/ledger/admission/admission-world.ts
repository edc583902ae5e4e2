import { harnessActor } from '../../../src/ledger/admission/admit-call.js';
import { DEFAULT_LIMITS } from '../../../src/ledger/admission/limits.js';
import type { ActorCounterRow, DomainLimits, SinkCounterRow } from '../../../src/ledger/admission/records.js';
import { NO_COUNTS, newActor, newSink } from '../../../src/ledger/admission/records.js';
import { type Decide, decide } from '../../../src/ledger/authority/decide.js';
import { type ExecuteCommand, executeCommand } from '../../../src/ledger/authority/execute-command.js';
import type { Mutation } from '../../../src/ledger/authority/mutations.js';
import type { GrantRow, SinkRow } from '../../../src/ledger/authority/records.js';
import type { CommandBase, Decision, Outcome } from '../../../src/ledger/decision.js';
import { acknowledgeTerminal } from '../../../src/ledger/effect/acknowledge-terminal.js';
import { cancelEffect } from '../../../src/ledger/effect/cancel-effect.js';
import type { Evidence, EvidenceKind } from '../../../src/ledger/effect/evidence.js';
import { loseExecutor } from '../../../src/ledger/effect/lose-executor.js';
import { markUnknown } from '../../../src/ledger/effect/mark-unknown.js';
import { reconcile } from '../../../src/ledger/effect/reconcile.js';
import type { EffectRow } from '../../../src/ledger/effect/records.js';
import { type ReserveEffectCommand, reserveEffect } from '../../../src/ledger/effect/reserve-effect.js';
import { startExecution } from '../../../src/ledger/effect/start-execution.js';
import type { TransitionCommand } from '../../../src/ledger/effect/transition-command.js';
import { sha256 } from '../../../src/ledger/encoding.js';
import { type PublishEventCommand, publishEvent } from '../../../src/ledger/event/publish-event.js';
import type { Refusal } from '../../../src/ledger/refusal.js';
import { runDecision } from '../../../src/ledger/run-decision.js';
import type { EffectState, TerminalState } from '../../../src/ledger/types.js';
import { TABLES } from '../../../src/store/tables.js';
import {
  DOMAIN,
  GRANT_SHAPES,
  giveGrant,
  HARNESSES,
  Ids,
  seedCast,
  WORKLOADS,
} from '../../simulation/cast.js';
import { FACTS, MemoryStore } from '../../simulation/memory-store.js';
import { evidence, type Move, signed } from '../../simulation/moves.js';
import { ADMITS_ALL } from '../../support/admits-all.js';

/** Whose call: the planner is a principal's harness, the helper a guest's. */
export const PLANNER = 0;
export const HELPER = 1;
export type Who = typeof PLANNER | typeof HELPER;

export const SINK = 'bank';
const OPERATOR = `spiffe://${DOMAIN}/operator/anna`;

/** A call that somebody could make; `run` makes it, `batch` makes several together. */
export type Call = Move;

/** The simulation's cast over the pure ledger, calling on purpose, with limits of the test's own and nothing counted yet. */
export class AdmissionWorld {
  readonly store = new MemoryStore(DOMAIN);
  private readonly ids = new Ids();
  private readonly grants: readonly [GrantRow, GrantRow];

  constructor(limits: Partial<DomainLimits> = {}, sink: Partial<SinkRow> = {}) {
    seedCast(this.store, this.ids);
    this.grants = [
      giveGrant(this.store, this.ids, { ...GRANT_SHAPES[1], maxUses: 1_000_000n } as never),
      giveGrant(this.store, this.ids, { ...GRANT_SHAPES[3], maxUses: 1_000_000n } as never),
    ];
    this.store.put('operators', {
      spiffeId: OPERATOR,
      signingKeyJwk: '{}',
      signingKeyThumbprint: 'anna-key',
      roles: ['ADMIN'],
      scopeDomainId: null,
      status: 'active',
      revision: 1n,
    });
    this.limit(limits);
    for (const { sink: name } of this.store.all('sinks')) this.changeSink(ADMITS_ALL, name);
    this.changeSink(sink);
    this.forgetCalls();
  }

  /** Ends what allows its principal an action, as an operator would. */
  revokeEntitlement(action: string): void {
    const row = this.store.all('entitlements').find((one) => one.action === action);
    if (row) this.store.put('entitlements', { ...row, revokedAt: this.now });
  }

  /** As if nobody had called so far; what is pending or UNKNOWN stays. */
  forgetCalls(): void {
    const { pending } = this.store.head.counters;
    this.store.head = { ...this.store.head, counters: { ...NO_COUNTS, pending } };
    for (const { actor } of this.store.all('actor_counters'))
      this.store.put('actor_counters', newActor(actor));
  }

  limit(limits: Partial<DomainLimits>): void {
    const { domain } = this.store;
    this.store.domain = { ...domain, limits: { ...DEFAULT_LIMITS, ...domain.limits, ...limits } };
  }

  changeSink(fields: Partial<SinkRow>, name = SINK): void {
    const row = this.store.get('sinks', name);
    if (row) this.store.put('sinks', { ...row, ...fields });
  }

  get now(): bigint {
    return this.store.now;
  }

  wait(micros: bigint): void {
    this.store.now += micros;
  }

  /** Runs a call in a batch of its own. */
  run(call: Call): Outcome<unknown> {
    return this.batch([call])[0] as Outcome<unknown>;
  }

  /** Runs calls as one batch of the lane. */
  batch(calls: readonly Call[]): Outcome<unknown>[] {
    const set = this.store.gather(calls.map(({ decision, command }) => decision.reads(command)));
    const outcomes = calls.map(({ decision, command }) => runDecision(set, decision, command));
    this.store.commit(set.changes());
    return outcomes;
  }

  /** The same call once more: ids are minted anew for it. */
  again({ kind, decision, command }: Call): Call {
    const ids = { decisionId: this.ids.next('dec'), effectId: this.ids.next('eff') };
    const minted = Object.entries(ids).filter(([name]) => kind !== 'effect.cancel' && name in command);
    const settled = kind.startsWith('effect.') && kind !== 'effect.reserve' ? [] : minted;
    return { kind, decision, command: { ...command, ...Object.fromEntries(settled), ...this.base() } };
  }

  /** `done`, or the reason of the refusal. */
  word(call: Call): string {
    return wordOf(this.run(call));
  }

  reserving(who: Who = PLANNER, over: Partial<ReserveEffectCommand> = {}): Call {
    const what = this.ids.next('change');
    return call(reserveEffect, {
      ...this.base(),
      caller: HARNESSES[who].caller,
      // Published by the planner, and received by the helper.
      eventId: 'event-1',
      grantId: this.grants[who].grantId,
      action: 'refund',
      resource: 'order-1',
      inputSource: 'crm',
      outputSink: SINK,
      dataClass: 2,
      requestDigest: sha256(what),
      effectKey: what,
      repeatable: false,
      reservationTtl: null,
      executionDeadline: null,
      effectId: this.ids.next('eff'),
      decisionId: this.ids.next('dec'),
      ...over,
    });
  }

  /** Reserves; must be let through. */
  reserved(who: Who = PLANNER, over: Partial<ReserveEffectCommand> = {}): string {
    return (this.reply(this.reserving(who, over)) as { effect: EffectRow }).effect.effectId;
  }

  /** Reserves and starts; must be let through. */
  started(who: Who = PLANNER, over: Partial<ReserveEffectCommand> = {}): string {
    const effectId = this.reserved(who, over);
    this.reply(this.starting(effectId));
    return effectId;
  }

  starting(effectId: string): Call {
    const effect = this.effect(effectId);
    const start = evidence<'execution'>({
      attemptId: `attempt-of-${effectId}-is-long`,
      executorInstanceId: this.ids.next('instance-of-at-least-16'),
      requestDigest: effect.requestDigest,
      startedAt: this.now,
    });
    return call(startExecution, this.sign(0, effect, ['PREPARED', 'EXECUTING'], start));
  }

  ending(effectId: string, state: TerminalState | 'UNKNOWN'): Call {
    const effect = this.effect(effectId);
    const { attemptId } = effect;
    if (attemptId === null) throw new Error(`${effectId} was not started`);
    if (state === 'UNKNOWN') {
      const digest = sha256(this.ids.next('observation'));
      const doubt = {
        attemptId,
        reason: 'TIMEOUT',
        observationDigest: digest,
        observedAt: this.now,
      } as const;
      const command = this.sign(0, effect, ['EXECUTING', 'UNKNOWN'], evidence<'uncertainty'>(doubt));
      return call(markUnknown, command);
    }
    const receipt = this.ids.next('receipt');
    const terminal = evidence<'terminal'>({
      attemptId,
      externalReceiptId: receipt,
      externalReceiptDigest: sha256(receipt),
      observedAt: this.now,
    });
    return call(acknowledgeTerminal, this.sign(0, effect, ['EXECUTING', state], terminal));
  }

  /** Settles as SUCCEEDED, which nobody has to wait for. */
  settling(effectId: string): Call {
    const effect = this.effect(effectId);
    const answer = evidence<'reconciliation'>({
      attemptId: effect.attemptId ?? '',
      authoritySystemId: 'ledger',
      queryId: this.ids.next('query-of-8'),
      queryResponseDigest: sha256(this.ids.next('answer')),
      observedAt: this.now,
      terminalState: 'SUCCEEDED',
    });
    return call(reconcile, this.sign(2, effect, ['UNKNOWN', 'SUCCEEDED'], answer));
  }

  /** An executor that is past its deadline, found by the sweep. */
  losing(effectId: string): Call {
    return call(loseExecutor, { ...this.base(), effectId });
  }

  deciding(who: Who = PLANNER, question: Partial<Decide['question']> = {}): Call {
    return call(decide, {
      ...this.base(),
      decisionId: this.ids.next('dec'),
      question: {
        caller: HARNESSES[who].caller,
        action: 'refund',
        resource: 'order-1',
        inputSource: '',
        outputSink: '',
        dataClass: 0,
        requestDigest: sha256(this.ids.next('question')),
        protectedOperation: false,
        ...question,
      },
    });
  }

  /** The question whether an effect may be cancelled. */
  askingToCancel(effectId: string, who: Who = PLANNER): Call {
    return this.deciding(who, { action: 'effect.cancel', resource: effectId, requestDigest: sha256('') });
  }

  cancelling(effectId: string, decisionId: string, who: Who = PLANNER): Call {
    return call(cancelEffect, { ...this.base(), caller: HARNESSES[who].caller, effectId, decisionId });
  }

  publishing(over: Partial<PublishEventCommand> = {}): Call {
    const eventId = this.ids.next('published');
    return call(publishEvent, {
      ...this.base(),
      caller: HARNESSES[PLANNER].caller,
      eventId,
      type: 'task.assigned',
      recipientHarnessIds: [],
      classification: 2,
      payloadDigest: sha256(eventId),
      effectDeadline: null,
      parentEventId: null,
      origin: {
        kind: 'human_input',
        sourceId: eventId,
        sourceDigest: sha256(eventId),
        observedAt: this.now,
        principalId: HARNESSES[PLANNER].ownerId,
        harnessId: HARNESSES[PLANNER].harnessId,
      },
      allowedSinks: ['*'],
      ...over,
    });
  }

  /** An origin that names nobody. */
  nobodysWord(): PublishEventCommand['origin'] {
    const [sourceId, sourceDigest] = ['agent', sha256('agent')];
    const nobody = { principalId: null, harnessId: null };
    return { kind: 'internal_event', sourceId, sourceDigest, observedAt: this.now, ...nobody };
  }

  /** A command that the domain's operator signed just now, on the record as it stands. */
  commanding(mutation: Mutation, expectedEntityRevision = this.store.domain.revision): Call {
    const base = this.base();
    return call<ExecuteCommand>(executeCommand, {
      ...base,
      caller: { ...HARNESSES[PLANNER].caller, spiffeId: OPERATOR },
      keyThumbprint: 'anna-key',
      payloadDigest: sha256(base.commandId),
      jws: Buffer.from(base.commandId),
      header: {
        audience: FACTS.audience,
        incarnation: FACTS.incarnation,
        domainId: DOMAIN,
        adminCommandId: `admin-${base.commandId}`,
        expectedPolicyRevision: this.store.domain.policyRevision,
        expectedEntityRevision,
        reason: 'because',
        issuedAt: this.now,
        expiresAt: this.now + 60_000_000n,
      },
      mutation,
    });
  }

  effect(effectId: string): EffectRow {
    const effect = this.store.get('effects', effectId);
    if (!effect) throw new Error(`no effect ${effectId}`);
    return effect;
  }

  get domainCounters() {
    return this.store.head.counters;
  }

  actor(who: Who = PLANNER): ActorCounterRow {
    const actor = harnessActor(HARNESSES[who].harnessId);
    return this.store.get('actor_counters', actor) ?? newActor(actor);
  }

  sink(name = SINK): SinkCounterRow {
    return this.store.get('sink_counters', name) ?? newSink(name);
  }

  /** Every row there is: equal before and after means that nothing was written. */
  whole(): unknown {
    const { head, domain } = this.store;
    const tables = Object.keys(TABLES) as (keyof typeof TABLES)[];
    return { head, domain, rows: tables.map((table) => [table, this.store.all(table)]) };
  }

  private reply(made: Call): unknown {
    const outcome = this.run(made);
    if (!outcome.ok) throw new Error(`${made.kind}: ${outcome.refusal.reason} ${outcome.refusal.message}`);
    return outcome.reply;
  }

  private base(): CommandBase {
    return { domainId: DOMAIN, commandId: this.ids.next('cmd') };
  }

  private sign<K extends EvidenceKind>(
    workload: 0 | 2,
    effect: EffectRow,
    edge: readonly [EffectState, EffectState],
    proofOf: Evidence<K>,
  ): TransitionCommand<K> {
    const registration = this.store.get('registrations', WORKLOADS[workload].id);
    if (!registration) throw new Error('no registration');
    return signed(this.ids, this.store, registration, effect, edge, proofOf);
  }
}

function call<Command extends CommandBase>(
  decision: Decision<Command, never> | object,
  command: Command,
): Call {
  const made = decision as Decision<CommandBase, unknown>;
  return { kind: made.kind, decision: made, command };
}

/** `done`, or the reason of the refusal. */
export function wordOf(outcome: Outcome<unknown>): string {
  return outcome.ok ? 'done' : outcome.refusal.reason;
}

/** The refusal of a call that must be refused. */
export function refusalOf(outcome: Outcome<unknown>): Refusal {
  if (outcome.ok) throw new Error('the call was not refused');
  return outcome.refusal;
}
