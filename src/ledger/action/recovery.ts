import { sameDigest, sha256 } from '../encoding.js';
import type { Reads } from '../reads.js';
import type { Digest, Micros } from '../types.js';
import type { Draft } from '../working-set.js';
import type { AmbiguousReason } from './end-action.js';
import { isJsonObject, type JsonObject, parseIJson } from './i-json.js';
import { MAX_OBSERVATION_WINDOW, MAX_OBSERVATIONS, MIN_OBSERVATION_WINDOW } from './limits.js';
import { OBSERVATION_KIND, PLAIN_RECEIPT, putReceipt, RECOVERY_KIND } from './receipts.js';
import type { ActionReceiptRow, ActionRow } from './records.js';

/** The one key of a recovery contract: a second one would have it too (actions.md, I5). */
export const CONTRACT_KEY = 'contract';
export const CONTRACT_STATUS = 'observation_only';
export const OBSERVATION_STATUS = 'started';

/** The key of the journal's Nth observation. */
export function observationKey(attempt: number): string {
  return `observation-${attempt}`;
}

/** What a contract binds (actions.md, Contract and journal). */
export interface RecoveryContract {
  readonly executionDigest: Digest;
  readonly issuedAt: Micros;
  readonly deadline: Micros;
  readonly budget: number;
  readonly effectId: string | null;
}

/** A contract with its journal, both valid. */
export interface Recovery {
  readonly contract: RecoveryContract;
  /** In order; as many as observations were begun. */
  readonly observations: readonly ActionReceiptRow[];
}

/** A contract and journal, or why they are not valid. */
export type RecoveryResult = Recovery | { readonly invalid: 'contract_invalid' | 'journal_invalid' };

const CONTRACT_MEMBERS = [
  'version',
  'action_id',
  'payload_digest',
  'execution_digest',
  'issued_at',
  'deadline',
  'budget',
];
/** From version 2 a contract binds the effect that the dispatch carries. */
const CONTRACT_MEMBERS_2 = [...CONTRACT_MEMBERS, 'effect_id'];
const OBSERVATION_MEMBERS = ['version', 'action_id', 'execution_digest', 'attempt', 'started_at'];

/** The reads that {@link readRecovery} needs. */
export function recoveryReads(actionId: string): Reads {
  return {
    receiptsOf: [
      { actionId, receiptClass: 'recovery' },
      { actionId, receiptClass: 'observation' },
    ],
  };
}

/** Stores the contract of a dispatch, which happens now. `action` is as the dispatch finds it. */
export function putContract(
  draft: Draft,
  action: ActionRow,
  contract: RecoveryContract,
  spiffeId: string,
): ActionReceiptRow {
  const { effectId } = contract;
  return putReceipt(draft, action, {
    ...PLAIN_RECEIPT,
    receiptClass: 'recovery',
    receiptKey: CONTRACT_KEY,
    kind: RECOVERY_KIND,
    status: CONTRACT_STATUS,
    externalId: contract.executionDigest.toString('hex'),
    evidence: json({
      version: effectId === null ? 1 : 2,
      action_id: action.actionId,
      payload_digest: action.payloadDigest.toString('hex'),
      execution_digest: contract.executionDigest.toString('hex'),
      issued_at: Number(contract.issuedAt),
      deadline: Number(contract.deadline),
      budget: contract.budget,
      ...(effectId === null ? {} : { effect_id: effectId }),
    }),
    actorSpiffeId: spiffeId,
  });
}

/** Journals an observation that is about to be made, now. */
export function putObservation(
  draft: Draft,
  action: ActionRow,
  { contract, observations }: Recovery,
  by: { readonly spiffeId: string; readonly requestId: string },
): ActionReceiptRow {
  const attempt = observations.length + 1;
  const executionDigest = contract.executionDigest.toString('hex');
  return putReceipt(draft, action, {
    ...PLAIN_RECEIPT,
    receiptClass: 'observation',
    receiptKey: observationKey(attempt),
    kind: OBSERVATION_KIND,
    status: OBSERVATION_STATUS,
    externalId: executionDigest,
    evidence: json({
      version: 1,
      action_id: action.actionId,
      execution_digest: executionDigest,
      attempt,
      started_at: Number(draft.now),
    }),
    actorSpiffeId: by.spiffeId,
    requestId: by.requestId,
  });
}

function json(members: Readonly<Record<string, string | number>>): Buffer {
  return Buffer.from(JSON.stringify(members), 'utf8');
}

/**
 * The contract and journal of a DISPATCHED action, checked whole (actions.md, Contract and journal): anything off is invalid.
 *
 * Needs {@link recoveryReads}.
 */
export function readRecovery(draft: Draft, action: ActionRow): RecoveryResult {
  const contracts = draft.find('receiptsOf', action.actionId, 'recovery');
  const contract =
    contracts.length === 1 ? readContract(action, contracts[0] as ActionReceiptRow) : undefined;
  if (!contract) return { invalid: 'contract_invalid' };
  const observations = draft
    .find('receiptsOf', action.actionId, 'observation')
    .sort((a, b) => (a.eventNumber < b.eventNumber ? -1 : 1));
  const valid =
    observations.length === action.observationCount &&
    observations.length <= contract.budget &&
    observations.every((row, i) => isObservation(action, contract, row, i + 1));
  return valid ? { contract, observations } : { invalid: 'journal_invalid' };
}

/** Why nothing may be observed any more; undefined: there are time and observations left. */
export function exhaustion(
  { contract, observations }: Recovery,
  now: Micros,
): Extract<AmbiguousReason, 'observations_exhausted' | 'observation_deadline'> | undefined {
  if (now >= contract.deadline) return 'observation_deadline';
  return observations.length >= contract.budget ? 'observations_exhausted' : undefined;
}

/** Why a DISPATCHED action can only end as ambiguous; undefined: it can still be observed. */
export function ambiguity(draft: Draft, action: ActionRow): AmbiguousReason | undefined {
  const recovery = readRecovery(draft, action);
  return 'invalid' in recovery ? recovery.invalid : exhaustion(recovery, draft.now);
}

function readContract(action: ActionRow, row: ActionReceiptRow): RecoveryContract | undefined {
  const version = membersOf(row)?.get('version');
  const members = membersOf(row, version === 2 ? CONTRACT_MEMBERS_2 : CONTRACT_MEMBERS);
  if (!members || (version !== 1 && version !== 2) || !action.executionDigest) return undefined;
  const executionDigest = action.executionDigest.toString('hex');
  const [issuedAt, deadline] = [micros(members, 'issued_at'), micros(members, 'deadline')];
  const budget = members.get('budget');
  const effectId = members.get('effect_id') ?? null;
  const valid =
    row.receiptKey === CONTRACT_KEY &&
    row.kind === RECOVERY_KIND &&
    row.status === CONTRACT_STATUS &&
    row.externalId === executionDigest &&
    members.get('action_id') === action.actionId &&
    members.get('payload_digest') === action.payloadDigest.toString('hex') &&
    members.get('execution_digest') === executionDigest &&
    issuedAt !== undefined &&
    issuedAt === row.createdAt &&
    issuedAt === action.dispatchedAt &&
    deadline !== undefined &&
    deadline - issuedAt >= MIN_OBSERVATION_WINDOW &&
    deadline - issuedAt <= MAX_OBSERVATION_WINDOW &&
    deadline === action.observationDeadline &&
    typeof budget === 'number' &&
    Number.isInteger(budget) &&
    budget >= 1 &&
    budget <= MAX_OBSERVATIONS &&
    budget === action.maxObservations &&
    effectId === action.effectId;
  return valid
    ? { executionDigest: action.executionDigest, issuedAt, deadline, budget, effectId: action.effectId }
    : undefined;
}

function isObservation(
  action: ActionRow,
  contract: RecoveryContract,
  row: ActionReceiptRow,
  attempt: number,
): boolean {
  const members = membersOf(row, OBSERVATION_MEMBERS);
  const executionDigest = contract.executionDigest.toString('hex');
  const startedAt = members && micros(members, 'started_at');
  return (
    members !== undefined &&
    row.receiptKey === observationKey(attempt) &&
    row.kind === OBSERVATION_KIND &&
    row.status === OBSERVATION_STATUS &&
    row.externalId === executionDigest &&
    members.get('version') === 1 &&
    members.get('action_id') === action.actionId &&
    members.get('execution_digest') === executionDigest &&
    members.get('attempt') === attempt &&
    startedAt !== undefined &&
    startedAt === row.createdAt &&
    startedAt >= contract.issuedAt &&
    startedAt < contract.deadline
  );
}

/** The members of a receipt's evidence, where its digest is right and they are exactly those named. */
function membersOf(row: ActionReceiptRow, names?: readonly string[]): JsonObject | undefined {
  if (!sameDigest(sha256(row.evidence), row.evidenceDigest)) return undefined;
  const result = parseIJson(row.evidence);
  if ('fault' in result || !isJsonObject(result.value)) return undefined;
  const members = result.value;
  const exact = !names || (members.size === names.length && names.every((name) => members.has(name)));
  return exact ? members : undefined;
}

function micros(members: JsonObject, name: string): Micros | undefined {
  const value = members.get(name);
  return typeof value === 'number' && Number.isSafeInteger(value) ? BigInt(value) : undefined;
}
