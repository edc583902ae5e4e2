import { admitCall } from '../admission/admit-call.js';
import { accept, type CommandBase, type Decision, refuse } from '../decision.js';
import { type Refusal, refusal } from '../refusal.js';
import type { Draft } from '../working-set.js';
import { currentRegistrar, type Registrar, registrarActor, registrarReads } from './current-registrar.js';
import {
  type OriginContent,
  originDifference,
  originRecord,
  originRefusal,
  originViolations,
  sinkViolations,
} from './origin.js';
import { recordName } from './provenance-digest.js';
import { putRecord } from './put-record.js';
import type { ProvenanceRow } from './records.js';
import { storedRecord } from './stored-record.js';
import { predecessorFault, predecessorKeys, versionKey, versionViolations } from './version-form.js';

/** Records content that has no parent. */
export interface RegisterOriginCommand extends CommandBase, OriginContent, Registrar {}

/** What was stored, by this call or an earlier one. */
export interface RegisterOriginReply {
  readonly record: ProvenanceRow;
  readonly duplicate: boolean;
}

/** provenance-audit-replay.md, Provenance: an origin record. Callers: a harness, or an operator of the domain. */
export const registerOrigin: Decision<RegisterOriginCommand, RegisterOriginReply> = {
  kind: 'register_origin',
  reads: (command) => ({
    ...registrarReads(command),
    ...(command.as === 'operator' && command.origin.harnessId !== null
      ? { harnesses: [command.origin.harnessId] }
      : {}),
    provenance: [versionKey(command), ...predecessorKeys(command)],
  }),
  decide: (draft, command) => {
    const registrar = currentRegistrar(draft, command);
    if ('refused' in registrar) return refuse(registrar.refused);
    const malformed = formRefusal(command);
    if (malformed) return refuse(malformed);
    const stored = storedRecord(draft, versionKey(command));
    if (stored) return answerStored(stored.record, command);
    const refused =
      predecessorRefusal(draft, command) ??
      originRefusal(draft, command.origin, registrar.actor) ??
      admitCall(draft, registrarActor(command, registrar.actor));
    if (refused) return refuse(refused);
    const record = originRecord(draft, command);
    putRecord(draft, record);
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

/** The rules of form once more, for whoever comes by another way than the rpc layer. */
function formRefusal(command: RegisterOriginCommand): Refusal | undefined {
  const violations = [
    ...versionViolations(command),
    ...originViolations(command.origin, 'origin'),
    ...sinkViolations(command.allowedSinks, 'allowed_sinks'),
  ];
  if (violations.length === 0) return undefined;
  return refusal('FIELD_INVALID', 'The origin is malformed.', { violations });
}

function predecessorRefusal(draft: Draft, command: RegisterOriginCommand): Refusal | undefined {
  const fault = predecessorFault(draft, command);
  if (fault === undefined) return undefined;
  if (fault === 'mismatch') {
    return conflict(command, 'The version before has another digest than the predecessor named.');
  }
  const missing = recordName({ ...command, version: command.version - 1n });
  return refusal('RECORD_MISSING', 'The version before is not recorded.', {
    metadata: { record: `provenance:${missing}` },
  });
}

function conflict(command: RegisterOriginCommand, message: string): Refusal {
  return refusal('PROVENANCE_CONFLICT', message, {
    resource: { type: 'provenance', name: recordName(command) },
  });
}
