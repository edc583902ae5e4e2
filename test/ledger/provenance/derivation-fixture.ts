import { sha256 } from '../../../src/ledger/encoding.js';
import type { StepFields } from '../../../src/ledger/provenance/derivation.js';
import {
  deriveRecord,
  type DeriveRecordCommand,
  type DeriveRecordReply,
} from '../../../src/ledger/provenance/derive-record.js';
import type { ProvenanceRow } from '../../../src/ledger/provenance/records.js';
import { referenceOf } from '../../../src/ledger/provenance/verify-reference.js';
import { runDecision } from '../../../src/ledger/run-decision.js';
import type { KeyPart } from '../../../src/ledger/tables.js';
import { MINUTE } from '../../../src/ledger/types.js';
import type { WorkingSet } from '../../../src/ledger/working-set.js';
import { caller } from '../../support/authority-fixture.js';
import { FIXTURE_DOMAIN, FIXTURE_NOW, type WorkingSetInput } from '../../support/ledger-fixture.js';
import { eventRecord, setWithHarness } from './provenance-fixture.js';

/** The records that derivations of these tests start from. */
export const MAIL = eventRecord({ objectType: 'artifact', objectId: 'mail', contentDigest: sha256('mail') });
export const PAGE = eventRecord({
  objectType: 'artifact',
  objectId: 'page',
  contentDigest: sha256('page'),
  classification: 1,
  allowedSinks: ['*'],
});

const VERSIONS = [1n, 2n, 3n].map((version): readonly KeyPart[] => ['model_output', 'answer', version]);

/** A working set with the fixture's harness and these records, whole; versions of the answer are absent. */
export function setWithRecords(
  records: readonly ProvenanceRow[] = [MAIL, PAGE],
  over: WorkingSetInput = {},
): WorkingSet {
  const digests = records.map((record): readonly KeyPart[] => [record.provenanceDigest]);
  return setWithHarness({
    ...over,
    rows: { ...over.rows, provenance_records: records },
    absent: { ...over.absent, provenance_records: [...VERSIONS, ...(over.absent?.provenance_records ?? [])] },
    indexes: { ...over.indexes, stepsOfRecord: digests, parentsOfRecord: digests },
  });
}

/** A step from some contents to another, a second long, `at` seconds before now. */
export function step(inputs: readonly string[], output: string, over: Partial<StepFields> = {}): StepFields {
  return {
    kind: 'model',
    operation: 'summarize',
    implementation: 'llm',
    implementationVersion: '7',
    executor: 'planner',
    inputDigests: inputs.map((text) => sha256(text)),
    outputDigest: sha256(output),
    startedAt: FIXTURE_NOW - MINUTE,
    completedAt: FIXTURE_NOW - MINUTE / 2n,
    ...over,
  };
}

/** The same origin with some fields changed, under the digest that it then has. */
export function remade(record: ProvenanceRow, over: Partial<ProvenanceRow>): ProvenanceRow {
  const { provenanceDigest: _, ...rest } = record;
  return eventRecord({ ...rest, ...over });
}

export function reference(record: ProvenanceRow) {
  return referenceOf(FIXTURE_DOMAIN, record);
}

/** A derivation from mail and page that keeps every rule. */
export function derivation(over: Partial<DeriveRecordCommand> = {}): DeriveRecordCommand {
  return {
    domainId: FIXTURE_DOMAIN,
    commandId: 'cmd-1',
    caller: caller(),
    as: 'harness',
    objectType: 'model_output',
    objectId: 'answer',
    version: 1n,
    predecessorDigest: null,
    contentDigest: sha256('answer'),
    classification: 2,
    allowedSinks: ['bank'],
    policyRevision: null,
    parents: [reference(MAIL), reference(PAGE)],
    steps: [step(['page', 'mail'], 'answer')],
    clearances: [],
    ...over,
  };
}

/** Runs a derivation that must be accepted. */
export function derived(set: WorkingSet, over: Partial<DeriveRecordCommand> = {}): DeriveRecordReply {
  const outcome = runDecision(set, deriveRecord, derivation(over));
  if (!outcome.ok) throw new Error(`${outcome.refusal.reason} ${JSON.stringify(outcome.refusal.metadata)}`);
  return outcome.reply;
}

/** Why a derivation is refused: the reason, and with rules their name and field. */
export function refused(set: WorkingSet, over: Partial<DeriveRecordCommand>): string {
  const outcome = runDecision(set, deriveRecord, derivation(over));
  if (outcome.ok) return 'accepted';
  const { reason, metadata } = outcome.refusal;
  if (set.changes().rows.some(({ table }) => table.startsWith('provenance'))) return 'refused, but written';
  return [reason, metadata?.['rule'], metadata?.['field']].filter((part) => part !== undefined).join(' ');
}
