import { decide } from '../../src/ledger/authority/decide.js';
import type { CommandBase, Decision } from '../../src/ledger/decision.js';
import { acknowledgeTerminal } from '../../src/ledger/effect/acknowledge-terminal.js';
import { archiveEffects, MIN_RETENTION } from '../../src/ledger/effect/archive-effects.js';
import { cancelEffect } from '../../src/ledger/effect/cancel-effect.js';
import type { Evidence, EvidenceFields, EvidenceKind } from '../../src/ledger/effect/evidence.js';
import { expireEffect } from '../../src/ledger/effect/expire-effect.js';
import { loseExecutor } from '../../src/ledger/effect/lose-executor.js';
import { markUnknown } from '../../src/ledger/effect/mark-unknown.js';
import { reconcile } from '../../src/ledger/effect/reconcile.js';
import type { EffectRow } from '../../src/ledger/effect/records.js';
import { type ReserveEffectCommand, reserveEffect } from '../../src/ledger/effect/reserve-effect.js';
import { startExecution } from '../../src/ledger/effect/start-execution.js';
import { effectRecordDigest } from '../../src/ledger/effect/tombstone.js';
import type { TransitionCommand } from '../../src/ledger/effect/transition-command.js';
import { sha256 } from '../../src/ledger/encoding.js';
import type { RegistrationRow } from '../../src/ledger/identity/records.js';
import { type EffectState, isTerminal, type TerminalState } from '../../src/ledger/types.js';
import { DOMAIN, EVENTS, HARNESSES, type Ids, MINUTE, RESOURCES, SECOND, SINKS, WORKLOADS } from './cast.js';
import { FACTS, type MemoryStore } from './memory-store.js';

/** What somebody submits. */
export interface Move {
  readonly kind: string;
  readonly decision: Decision<CommandBase, unknown>;
  readonly command: CommandBase;
}

/** Numbers that a move is made of; each is taken modulo what there is to choose from. */
export interface Dice {
  readonly who: number;
  readonly what: number;
  readonly how: number;
  readonly when: number;
}

/** What the actors remember: earlier moves to repeat, decisions to cancel with. */
export interface Memory {
  readonly reservations: Move[];
  readonly transitions: { readonly move: Move; readonly registrationId: string }[];
  readonly decisions: Map<string, string>;
}

type Maker = (store: MemoryStore, ids: Ids, dice: Dice, memory: Memory) => Move | undefined;

const TERMINAL: readonly TerminalState[] = ['SUCCEEDED', 'FAILED', 'CANCELLED'];
/** How far an actor's clock is off: mostly not, at times within what is forgiven, rarely beyond. */
const SKEWS = [0n, 0n, 0n, -30n * SECOND, 45n * SECOND, -50n * SECOND, 90n * SECOND, -10n * MINUTE] as const;

function pick<T>(items: readonly T[], n: number): T {
  return items[n % items.length] as T;
}

/** An effect, three times out of four one in this state. */
function effectIn(store: MemoryStore, state: EffectState, { what, when }: Dice): EffectRow | undefined {
  const all = store.all('effects');
  const fitting = when % 4 === 0 ? all : all.filter((effect) => effect.state === state);
  return fitting.length === 0 ? undefined : pick(fitting, what);
}

function move<Command extends CommandBase>(
  decision: Decision<Command, never> | object,
  command: Command,
): Move {
  const made = decision as Decision<CommandBase, unknown>;
  return { kind: made.kind, decision: made, command };
}

const reserve: Maker = (store, ids, { who, what, how, when }, memory) => {
  const grant = pick(store.all('grants').slice(-6), who);
  // Mostly the grant's own harness asks.
  const own = HARNESSES.find(({ harnessId }) => harnessId === grant.harnessId) ?? HARNESSES[0];
  const { caller } = when % 8 === 0 ? pick(HARNESSES, who) : own;
  const made = move<ReserveEffectCommand>(reserveEffect, {
    domainId: DOMAIN,
    commandId: ids.next('cmd'),
    caller,
    eventId: `event-${what % EVENTS}`,
    grantId: grant.grantId,
    action: 'refund',
    resource: pick(RESOURCES, how),
    inputSource: 'crm',
    outputSink: pick(SINKS, when),
    dataClass: 2,
    requestDigest: sha256(`request ${how % 5}`),
    effectKey: pick(['', '', 'key-1', 'key-2'], what >> 3),
    repeatable: how % 3 === 0,
    reservationTtl: pick([null, null, 30n * SECOND, 3_600n * SECOND], when >> 2),
    executionDeadline: pick([null, 2n * MINUTE], when >> 4),
    effectId: ids.next('eff'),
    decisionId: ids.next('dec'),
  });
  memory.reservations.push(made);
  return made;
};

const reserveAgain: Maker = (_store, ids, { what }, memory) => {
  if (memory.reservations.length === 0) return undefined;
  const earlier = pick(memory.reservations, what);
  return {
    ...earlier,
    command: {
      ...earlier.command,
      commandId: ids.next('cmd'),
      effectId: ids.next('eff'),
      decisionId: ids.next('dec'),
    } as CommandBase,
  };
};

/** Evidence whose bytes are its JSON: the ledger takes bytes as they are. */
export function evidence<K extends EvidenceKind>(fields: EvidenceFields[K]): Evidence<K> {
  const bytes = Buffer.from(
    JSON.stringify(fields, (_, value) => (typeof value === 'bigint' ? `${value}` : value)),
  );
  return { bytes, digest: sha256(bytes), fields };
}

const FRESH_NONCE = 'nonce-of-at-least-24-characters';

/** Mostly a fresh nonce, at times one that the registration has spent. */
function nonceFor(
  { registrationId }: RegistrationRow,
  ids: Ids,
  { who, when }: Dice,
  memory: Memory,
): string {
  const spent = memory.transitions.filter((earlier) => earlier.registrationId === registrationId);
  if (who % 10 !== 3 || spent.length === 0) return ids.next(FRESH_NONCE);
  return (pick(spent, when).move.command as TransitionCommand).proof.statement.nonce;
}

/** A statement about an effect as the workload knows it. */
export function signed<K extends EvidenceKind>(
  ids: Ids,
  store: MemoryStore,
  registration: RegistrationRow,
  effect: Pick<EffectRow, 'effectId' | 'eventId' | 'grantId' | 'fence'>,
  edge: readonly [EffectState, EffectState],
  proofOf: Evidence<K>,
  nonce = ids.next(FRESH_NONCE),
): TransitionCommand<K> {
  const statement = {
    audience: FACTS.audience,
    incarnation: FACTS.incarnation,
    domainId: DOMAIN,
    registrationId: registration.registrationId,
    workloadId: registration.workloadId,
    role: registration.role,
    processId: registration.processId,
    processStart: registration.processStartTime,
    sessionId: registration.sessionId,
    credentialEpoch: registration.credentialEpoch,
    revocationEpoch: registration.revocationEpoch,
    parentEventId: effect.eventId,
    grantId: effect.grantId,
    effectId: effect.effectId,
    fence: effect.fence,
    fromState: edge[0],
    toState: edge[1],
    evidenceDigest: proofOf.digest,
    issuedAt: store.now,
    nonce,
  };
  const bytes = Buffer.from(
    JSON.stringify(statement, (_, value) => (typeof value === 'bigint' ? `${value}` : value)),
  );
  const workload = WORKLOADS.find(({ id }) => id === registration.registrationId) ?? WORKLOADS[0];
  return {
    domainId: DOMAIN,
    commandId: ids.next('cmd'),
    caller: workload.caller,
    effectId: effect.effectId,
    evidence: proofOf,
    proof: {
      statement,
      keyThumbprint: registration.proofKeyThumbprint,
      statementDigest: sha256(bytes),
      proofBytes: bytes,
      encoding: 'jws',
    },
  };
}

function registrationOf(store: MemoryStore, workloads: readonly number[], n: number): RegistrationRow {
  const row = store.get('registrations', WORKLOADS[pick(workloads, n) as 0 | 1 | 2 | 3].id);
  if (!row) throw new Error('no registration');
  return row;
}

const start: Maker = (store, ids, dice, memory) => {
  const effect = effectIn(store, 'PREPARED', dice);
  if (!effect) return undefined;
  const registration = registrationOf(store, [0, 0, 1], dice.who);
  const execution = evidence<'execution'>({
    attemptId: ids.next('attempt-of-at-least-16'),
    executorInstanceId: ids.next('instance-of-at-least-16'),
    requestDigest: dice.how % 16 === 0 ? sha256('another request') : effect.requestDigest,
    startedAt: store.now + pick(SKEWS, dice.how),
  });
  const nonce = nonceFor(registration, ids, dice, memory);
  const command = signed(ids, store, registration, effect, ['PREPARED', 'EXECUTING'], execution, nonce);
  return remember(memory, move(startExecution, command), registration);
};

const unknown: Maker = (store, ids, dice, memory) => {
  const effect = effectIn(store, 'EXECUTING', dice);
  if (!effect) return undefined;
  const registration = executorOf(store, effect, dice);
  const uncertainty = evidence<'uncertainty'>({
    attemptId: attemptOf(effect, dice),
    reason: 'TIMEOUT',
    observationDigest: sha256(ids.next('observation')),
    observedAt: store.now + pick(SKEWS, dice.how),
  });
  const nonce = nonceFor(registration, ids, dice, memory);
  const command = signed(ids, store, registration, effect, ['EXECUTING', 'UNKNOWN'], uncertainty, nonce);
  return remember(memory, move(markUnknown, command), registration);
};

const acknowledge: Maker = (store, ids, dice, memory) => {
  const effect = effectIn(store, 'EXECUTING', dice);
  if (!effect) return undefined;
  const registration = executorOf(store, effect, dice);
  const terminal = evidence<'terminal'>({
    attemptId: attemptOf(effect, dice),
    externalReceiptId: ids.next('receipt'),
    externalReceiptDigest: sha256(ids.next('receipt')),
    observedAt: store.now + pick(SKEWS, dice.how),
  });
  const to = pick(TERMINAL, dice.how >> 3);
  const nonce = nonceFor(registration, ids, dice, memory);
  const command = signed(ids, store, registration, effect, ['EXECUTING', to], terminal, nonce);
  return remember(memory, move(acknowledgeTerminal, command), registration);
};

const settle: Maker = (store, ids, dice, memory) => {
  const effect = effectIn(store, 'UNKNOWN', dice);
  if (!effect) return undefined;
  const registration = registrationOf(store, [2, 2, 2, 3], dice.who);
  return remember(memory, settlement(store, ids, effect, registration, dice), registration);
};

/** A reconciliation; what was observed lies ahead of the step that it follows. */
export function settlement(
  store: MemoryStore,
  ids: Ids,
  effect: EffectRow,
  registration: RegistrationRow,
  dice: Dice,
): Move {
  const terminalState = pick(TERMINAL, dice.how);
  const answer = evidence<'reconciliation'>({
    attemptId: attemptOf(effect, dice),
    authoritySystemId: 'ledger',
    queryId: ids.next('query-of-8'),
    queryResponseDigest: sha256(ids.next('answer')),
    observedAt: store.now + pick(SKEWS, dice.how >> 2),
    terminalState,
  });
  return move(reconcile, signed(ids, store, registration, effect, ['UNKNOWN', terminalState], answer));
}

/** The one that started, or rarely another. */
function executorOf(store: MemoryStore, effect: EffectRow, { who }: Dice): RegistrationRow {
  const own = WORKLOADS.findIndex(({ id }) => id === effect.executorRegistrationId);
  return registrationOf(store, who % 6 === 0 || own < 0 ? [0, 1] : [own], who);
}

function attemptOf(effect: EffectRow, { who }: Dice): string {
  return who % 12 === 1 ? 'another attempt' : (effect.attemptId ?? 'no attempt as yet');
}

function remember(memory: Memory, made: Move, { registrationId }: RegistrationRow): Move {
  memory.transitions.push({ move: made, registrationId });
  return made;
}

/** The exact call again, or the same evidence signed anew, or its nonce in another statement. */
const transitAgain: Maker = (store, ids, { what, how }, memory) => {
  if (memory.transitions.length === 0) return undefined;
  const { move: earlier, registrationId } = pick(memory.transitions, what);
  const command = earlier.command as TransitionCommand;
  const commandId = ids.next('cmd');
  if (how % 3 === 0) return { ...earlier, command: { ...command, commandId } };
  const registration = store.get('registrations', registrationId);
  const effect = store.get('effects', command.effectId) ?? store.get('effect_tombstones', command.effectId);
  if (!registration || !effect) return undefined;
  const { fromState, toState, nonce } = command.proof.statement;
  const again = signed(
    ids,
    store,
    registration,
    effect,
    [fromState, toState],
    command.evidence,
    how % 3 === 1 ? undefined : nonce,
  );
  return { ...earlier, command: again };
};

const askToCancel: Maker = (store, ids, dice, memory) => {
  const effect = effectIn(store, 'PREPARED', dice);
  if (!effect) return undefined;
  const decisionId = ids.next('dec');
  memory.decisions.set(effect.effectId, decisionId);
  const owner = HARNESSES.find(({ harnessId }) => harnessId === effect.harnessId) ?? HARNESSES[0];
  return move(decide, {
    domainId: DOMAIN,
    commandId: ids.next('cmd'),
    decisionId,
    question: {
      caller: owner.caller,
      action: 'effect.cancel',
      resource: effect.effectId,
      inputSource: '',
      outputSink: '',
      dataClass: 0,
      requestDigest: sha256(''),
      protectedOperation: false,
    },
  });
};

const cancel: Maker = (store, ids, dice, memory) => {
  const effect = effectIn(store, 'PREPARED', dice);
  if (!effect) return undefined;
  const owner = HARNESSES.find(({ harnessId }) => harnessId === effect.harnessId) ?? HARNESSES[0];
  return move(cancelEffect, {
    domainId: DOMAIN,
    commandId: ids.next('cmd'),
    caller: (dice.who % 8 === 0 ? pick(HARNESSES, dice.how) : owner).caller,
    effectId: effect.effectId,
    decisionId: memory.decisions.get(effect.effectId) ?? '',
  });
};

/** One settled effect, or all of them, as they stand when the export is made. */
const archive: Maker = (store, ids, { what, how }) => {
  const settled = store.all('effects').filter(({ state }) => isTerminal(state));
  if (settled.length === 0) return undefined;
  const chosen = how % 3 === 0 ? settled : [pick(settled, what)];
  const last = store.all('archives').at(-1);
  return move(archiveEffects, {
    domainId: DOMAIN,
    commandId: ids.next('cmd'),
    retention: MIN_RETENTION,
    archive: {
      archiveNumber: (last?.archiveNumber ?? 0n) + 1n,
      archiveId: ids.next('archive'),
      exportDigest: sha256('an export'),
      logAfterSeq: last?.logLastSeq ?? 0n,
      logLastSeq: store.head.seq,
      logChainHash: store.head.chainHash,
    },
    effects: chosen.map((effect) => ({
      effectId: effect.effectId,
      recordDigest: effectRecordDigest(effect, store.find('transitionsOfEffect', effect.effectId)),
    })),
  });
};

function sweep(decision: object, state: EffectState): Maker {
  return (store, ids, dice) => {
    const effect = effectIn(store, state, dice);
    return (
      effect && move(decision, { domainId: DOMAIN, commandId: ids.next('sweep'), effectId: effect.effectId })
    );
  };
}

/** Everything that somebody can submit. */
export const MAKERS = {
  reserve,
  reserveAgain,
  start,
  unknown,
  acknowledge,
  settle,
  transitAgain,
  askToCancel,
  cancel,
  expire: sweep(expireEffect, 'PREPARED'),
  lose: sweep(loseExecutor, 'EXECUTING'),
  archive,
} as const satisfies Record<string, Maker>;

export type MoveName = keyof typeof MAKERS;
