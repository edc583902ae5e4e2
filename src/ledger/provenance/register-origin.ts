import { currentReader, type ReaderKind } from '../audit/current-reader.js';
import { type Actor, currentActor } from '../authority/current-actor.js';
import { accept, type CommandBase, type Decision, refuse } from '../decision.js';
import { sameDigest } from '../encoding.js';
import type { ProvenanceKey } from '../reads.js';
import { type Refusal, refusal } from '../refusal.js';
import type { Caller } from '../types.js';
import type { Draft } from '../working-set.js';
import { EFFECT_OUTPUT_PREFIX } from './derive-tool-output.js';
import {
  type OriginContent,
  originDifference,
  originRecord,
  originRefusal,
  originViolations,
  sinkViolations,
} from './origin.js';
import { recordName } from './provenance-digest.js';
import type { ProvenanceRow } from './records.js';
import { storedRecord } from './stored-record.js';

/** Records content that has no parent. */
export interface RegisterOriginCommand extends CommandBase, OriginContent {
  readonly caller: Caller;
  /** What the method table took the caller for; its rows are read and decide. */
  readonly as: 'harness' | 'operator';
}

/** What was stored, by this call or an earlier one. */
export interface RegisterOriginReply {
  readonly record: ProvenanceRow;
  readonly duplicate: boolean;
}

const REGISTRARS: readonly ReaderKind[] = ['operator'];

/** provenance-audit-replay.md, Provenance: an origin record. Callers: a harness, or an operator of the domain. */
export const registerOrigin: Decision<RegisterOriginCommand, RegisterOriginReply> = {
  kind: 'register_origin',
  reads: (command) => ({
    ...(command.as === 'harness'
      ? { callerHarness: [command.caller.spiffeId] }
      : { operators: [command.caller.spiffeId], platformOperators: [command.caller.spiffeId] }),
    ...(command.as === 'operator' && command.origin.harnessId !== null
      ? { harnesses: [command.origin.harnessId] }
      : {}),
    provenance: [keyOf(command, command.version), ...predecessorKeys(command)],
  }),
  decide: (draft, command) => {
    const registrar = currentRegistrar(draft, command);
    if ('refused' in registrar) return refuse(registrar.refused);
    const malformed = formRefusal(command);
    if (malformed) return refuse(malformed);
    const stored = storedRecord(draft, keyOf(command, command.version));
    if (stored) return answerStored(stored.record, command);
    const refused =
      predecessorRefusal(draft, command) ?? originRefusal(draft, command.origin, registrar.actor);
    if (refused) return refuse(refused);
    const record = originRecord(draft, command);
    draft.put('provenance_records', record);
    draft.append({
      kind: 'provenance',
      actorSpiffeId: command.caller.spiffeId,
      commandId: command.commandId,
      record: {
        type: 'provenance',
        id: `${record.objectType}/${record.objectId}`,
        revision: record.version,
        operation: 'register_origin',
        digest: record.provenanceDigest,
      },
    });
    return accept({ record, duplicate: false });
  },
};

function answerStored(record: ProvenanceRow, command: RegisterOriginCommand) {
  const field = originDifference(record, command);
  if (field === undefined) return accept({ record, duplicate: true });
  return refuse(conflict(command, `The version is recorded with another ${field}.`));
}

/** A harness is current in every respect; an operator is one of this domain, which is active. */
function currentRegistrar(
  draft: Draft,
  command: RegisterOriginCommand,
): { actor: Actor | undefined } | { refused: Refusal } {
  if (command.as === 'harness') return currentActor(draft, command.caller);
  const reader = currentReader(draft, command.caller, REGISTRARS);
  if ('refused' in reader) return reader;
  if (draft.domain.status !== 'active') {
    return { refused: refusal('DOMAIN_INACTIVE', 'The domain is not active.') };
  }
  return { actor: undefined };
}

/** The rules of form once more, for whoever comes by another way than the rpc layer. */
function formRefusal(command: RegisterOriginCommand): Refusal | undefined {
  const violations = [
    ...registerOriginViolations(command),
    ...originViolations(command.origin, 'origin'),
    ...sinkViolations(command.allowedSinks, 'allowed_sinks'),
  ];
  if (violations.length === 0) return undefined;
  return refusal('FIELD_INVALID', 'The origin is malformed.', { violations });
}

/** What is wrong with the name and the predecessor of an origin record, all at once. */
export function registerOriginViolations(
  content: Pick<OriginContent, 'objectId' | 'version' | 'predecessorDigest'>,
): { field: string; rule: string }[] {
  const violations: { field: string; rule: string }[] = [];
  if (content.objectId.startsWith(EFFECT_OUTPUT_PREFIX)) {
    violations.push({ field: 'object_id', rule: `must not begin with \`${EFFECT_OUTPUT_PREFIX}\`` });
  }
  if (content.version < 1n) violations.push({ field: 'version', rule: 'must be at least 1' });
  if (content.version === 1n && content.predecessorDigest !== null) {
    violations.push({ field: 'predecessor_digest', rule: 'must be empty at version 1' });
  }
  if (content.version > 1n && content.predecessorDigest === null) {
    violations.push({ field: 'predecessor_digest', rule: 'is required from version 2 on' });
  }
  return violations;
}

/** The next version of an object names its exact predecessor. Versions have no gaps, so the one before is the newest. */
function predecessorRefusal(draft: Draft, command: RegisterOriginCommand): Refusal | undefined {
  const [key] = predecessorKeys(command);
  if (!key) return undefined;
  const predecessor = storedRecord(draft, key);
  if (!predecessor) {
    return refusal('RECORD_MISSING', 'The version before is not recorded.', {
      metadata: { record: `provenance:${key.objectType}/${key.objectId}/${key.version}` },
    });
  }
  if (sameDigest(predecessor.record.provenanceDigest, command.predecessorDigest ?? undefined))
    return undefined;
  return conflict(command, 'The version before has another digest than the predecessor named.');
}

function keyOf(command: RegisterOriginCommand, version: bigint): ProvenanceKey {
  return { objectType: command.objectType, objectId: command.objectId, version };
}

function predecessorKeys(command: RegisterOriginCommand): ProvenanceKey[] {
  return command.version > 1n ? [keyOf(command, command.version - 1n)] : [];
}

function conflict(command: RegisterOriginCommand, message: string): Refusal {
  return refusal('PROVENANCE_CONFLICT', message, {
    resource: { type: 'provenance', name: recordName(command) },
  });
}
