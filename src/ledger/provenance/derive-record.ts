import { accept, type CommandBase, type Decision, refuse } from '../decision.js';
import { type Refusal, refusal } from '../refusal.js';
import type { Draft } from '../working-set.js';
import { currentRegistrar, type Registrar, registrarReads } from './current-registrar.js';
import {
  derivationDifference,
  derivationViolations,
  type DerivedContent,
  type DerivedRecord,
  derivedRecord,
} from './derivation.js';
import { judgeDerivation } from './derivation-rules.js';
import { recordName } from './provenance-digest.js';
import { putRecord } from './put-record.js';
import { type StoredRecord, storedRecord } from './stored-record.js';
import { predecessorKeys, versionKey } from './version-form.js';

/** Records content that was made from other content. */
export interface DeriveRecordCommand extends CommandBase, DerivedContent, Registrar {}

/** What was stored, by this call or an earlier one. */
export interface DeriveRecordReply extends StoredRecord {
  readonly duplicate: boolean;
}

/** provenance-audit-replay.md, Provenance: a derived record. Callers: a harness, or an operator of the domain. */
export const deriveRecord: Decision<DeriveRecordCommand, DeriveRecordReply> = {
  kind: 'derive_record',
  reads: (command) => ({
    ...registrarReads(command),
    provenance: [
      versionKey(command),
      ...predecessorKeys(command),
      ...command.parents.map(({ objectType, objectId, version }) => ({ objectType, objectId, version })),
    ],
  }),
  decide: (draft, command) => {
    const registrar = currentRegistrar(draft, command);
    if ('refused' in registrar) return refuse(registrar.refused);
    const malformed = formRefusal(command);
    if (malformed) return refuse(malformed);
    const stored = storedRecord(draft, versionKey(command));
    if (stored) return answerStored(stored, command);
    const judged = judgeDerivation(draft, command);
    if ('refused' in judged) return refuse(judged.refused);
    const derived = derivedRecord(draft.domainId, command, {
      policyRevision: judged.policyRevision,
      recordedAt: draft.now,
      cleared: false,
    });
    store(draft, command, derived);
    return accept({ ...derived, duplicate: false });
  },
};

function answerStored(stored: StoredRecord, command: DeriveRecordCommand) {
  const field = derivationDifference(stored, command);
  if (field === undefined) return accept({ ...stored, duplicate: true });
  return refuse(
    refusal('PROVENANCE_CONFLICT', `The version is recorded with other ${field}.`, {
      resource: { type: 'provenance', name: recordName(command) },
    }),
  );
}

/** The rules of form once more, for whoever comes by another way than the rpc layer. */
function formRefusal(command: DeriveRecordCommand): Refusal | undefined {
  const violations = derivationViolations(command);
  if (violations.length === 0) return undefined;
  return refusal('FIELD_INVALID', 'The derivation is malformed.', { violations });
}

/** The record, its edges, its steps and their entry in the log. */
function store(draft: Draft, command: DeriveRecordCommand, { record, steps }: DerivedRecord): void {
  putRecord(draft, record, steps);
  draft.append({
    kind: 'provenance',
    actorSpiffeId: command.caller.spiffeId,
    commandId: command.commandId,
    record: {
      type: 'provenance',
      id: `${record.objectType}/${record.objectId}`,
      revision: record.version,
      operation: 'derive_record',
      digest: record.provenanceDigest,
    },
  });
}
