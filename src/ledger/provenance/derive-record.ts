import { admitCall } from '../admission/admit-call.js';
import { accept, type CommandBase, type Decision, refuse } from '../decision.js';
import { sameDigest } from '../encoding.js';
import { mergeReads } from '../reads.js';
import { type Refusal, refusal } from '../refusal.js';
import type { Draft } from '../working-set.js';
import { type Clearance, clearanceReads, clearanceRefusal, receiptRow } from './clearance.js';
import { currentRegistrar, type Registrar, registrarActor, registrarReads } from './current-registrar.js';
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
export interface DeriveRecordCommand extends CommandBase, DerivedContent, Registrar {
  /** None: the record is tainted. Else a review and a scan that clear it. */
  readonly clearances: readonly Clearance[];
}

/** What was stored, by this call or an earlier one. */
export interface DeriveRecordReply extends StoredRecord {
  readonly duplicate: boolean;
}

/** provenance-audit-replay.md, Provenance: a derived record. Callers: a harness, or an operator of the domain. */
export const deriveRecord: Decision<DeriveRecordCommand, DeriveRecordReply> = {
  kind: 'derive_record',
  reads: (command) => ({
    ...mergeReads([registrarReads(command), clearanceReads(command.clearances)]),
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
    const { policyRevision } = judged;
    const { caller, clearances } = command;
    const refused =
      clearanceRefusal(draft, command, clearances, caller.spiffeId, policyRevision) ??
      admitCall(draft, registrarActor(command, registrar.actor));
    if (refused) return refuse(refused);
    const cleared = clearances.length > 0;
    const derived = derivedRecord(draft.domainId, command, {
      policyRevision,
      recordedAt: draft.now,
      cleared,
    });
    return accept({ ...store(draft, command, derived), duplicate: false });
  },
};

function answerStored(stored: StoredRecord, command: DeriveRecordCommand) {
  const field =
    derivationDifference(stored, command) ?? (sameReceipts(stored, command) ? undefined : 'clearance_jws');
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

/** A stored record rests on exactly the receipts that the command brings. */
function sameReceipts({ clearances: stored }: StoredRecord, { clearances }: DeriveRecordCommand): boolean {
  return (
    stored.length === clearances.length &&
    clearances.every(({ statementDigest }) =>
      stored.some((receipt) => sameDigest(receipt.statementDigest, statementDigest)),
    )
  );
}

/** The record, its edges, steps and receipts, and the entries of the record and of each receipt in the log. */
function store(draft: Draft, command: DeriveRecordCommand, { record, steps }: DerivedRecord): StoredRecord {
  const clearances = command.clearances
    .map((clearance) => receiptRow(clearance, record.provenanceDigest, draft.now))
    .sort((a, b) => (a.purpose < b.purpose ? -1 : 1));
  putRecord(draft, record, steps, clearances);
  const base = {
    kind: 'provenance',
    actorSpiffeId: command.caller.spiffeId,
    commandId: command.commandId,
  } as const;
  draft.append({
    ...base,
    record: {
      type: 'provenance',
      id: `${record.objectType}/${record.objectId}`,
      revision: record.version,
      operation: clearances.length > 0 ? 'derive_cleared_record' : 'derive_record',
      digest: record.provenanceDigest,
    },
  });
  for (const receipt of clearances) {
    draft.append({
      ...base,
      record: {
        type: 'clearance_receipt',
        id: `${receipt.approverSpiffeId}/${receipt.receiptId}`,
        revision: 1n,
        operation: receipt.purpose,
        digest: receipt.statementDigest,
      },
    });
  }
  return { record, steps, clearances };
}
