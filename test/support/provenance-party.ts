import { randomUUID } from 'node:crypto';
import { create, type DescMessage, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import type { Channel, ServiceClient } from '../../src/cli/client/service-client.js';
import { digest } from '../../src/cli/client/workload-session.js';
import { AuditService } from '../../src/gen/surety/audit/v1/audit_service_pb.js';
import { AuditEntrySchema } from '../../src/gen/surety/audit/v1/entry_pb.js';
import { ClearanceStatementSchema } from '../../src/gen/surety/provenance/v1/clearance_pb.js';
import {
  type DeriveRecordRequestSchema,
  ProvenanceService,
} from '../../src/gen/surety/provenance/v1/provenance_service_pb.js';
import {
  ClearancePurpose,
  DataClass,
  ObjectType,
  OriginKind,
  type ProvenanceRecord,
  type RecordReference,
  StepKind,
} from '../../src/gen/surety/provenance/v1/record_pb.js';
import { signBytes, type SigningKey, signClearance } from '../../src/identity/sign.js';
import { timestampToMicros } from '../../src/identity/timestamp.js';
import { stepsDigest } from '../../src/ledger/provenance/provenance-digest.js';
import type { StepKind as StepName } from '../../src/ledger/provenance/records.js';
import { ACME, AUDIENCE, AUDITOR, type E2eWorld, refusedWith } from './e2e-world.js';

type Init<Schema extends DescMessage> = Partial<Omit<MessageInitShape<Schema>, '$typeName' | '$unknown'>>;

export type Derivation = Init<typeof DeriveRecordRequestSchema>;
export type Statement = Init<typeof ClearanceStatementSchema>;

const STEP_NAMES: Readonly<Record<number, StepName>> = {
  [StepKind.MODEL]: 'model',
  [StepKind.TOOL]: 'tool',
  [StepKind.PARSER]: 'parser',
};
const HOUR_MS = 3_600_000;

/** A client of ProvenanceService, and what it and its approvers say. */
export class ProvenanceParty {
  readonly rpc: ServiceClient<typeof ProvenanceService.method>;

  /** @param now the store's clock, in milliseconds */
  constructor(
    channel: Channel,
    private readonly now: number,
  ) {
    this.rpc = channel.service(ProvenanceService);
  }

  /** An artifact from outside. */
  async origin(objectId: string, allowedSinks: string[] = ['bank', 'mail']): Promise<RecordReference> {
    const { record } = await this.rpc.registerOrigin({
      objectType: ObjectType.ARTIFACT,
      objectId,
      version: 1n,
      contentDigest: digest(objectId),
      classification: DataClass.C2_RESTRICTED,
      allowedSinks,
      origin: {
        kind: OriginKind.EXTERNAL_INPUT,
        sourceId: 'mailbox',
        sourceDigest: digest(objectId),
        observedTime: timestampFromMs(this.now),
      },
    });
    return referenceOf(record);
  }

  /** How a derivation is refused: reason, rule, field. */
  async refusal(derivation: Derivation): Promise<string> {
    const { reason, metadata } = await refusedWith(this.rpc.deriveRecord(derivation));
    return [reason, metadata['rule'], metadata['field']].filter((part) => part !== undefined).join(' ');
  }

  /** A request that derives a model output from these parents and keeps every rule. */
  derivation(objectId: string, parents: readonly RecordReference[], over: Derivation = {}): Derivation {
    return {
      objectType: ObjectType.MODEL_OUTPUT,
      objectId,
      version: 1n,
      contentDigest: digest(objectId),
      classification: DataClass.C2_RESTRICTED,
      allowedSinks: ['bank'],
      parents: [...parents],
      steps: [
        {
          kind: StepKind.MODEL,
          operation: 'summarize',
          implementation: 'llm',
          implementationVersion: '7',
          executor: 'planner',
          inputDigests: parents.map((parent) => parent.contentDigest),
          outputDigest: digest(objectId),
          startedTime: timestampFromMs(this.now),
          completedTime: timestampFromMs(this.now + 1000),
        },
      ],
      ...over,
    };
  }

  /** The statement that clears exactly this derivation, under the domain's first policy revision. */
  statement(
    derivation: Derivation,
    purpose: ClearancePurpose,
    approverSpiffeId: string,
    over: Statement = {},
  ): Statement {
    return {
      audience: AUDIENCE,
      incarnation: 1n,
      domainId: ACME,
      objectType: derivation.objectType ?? ObjectType.UNSPECIFIED,
      objectId: derivation.objectId ?? '',
      version: derivation.version ?? 0n,
      contentDigest: derivation.contentDigest ?? new Uint8Array(),
      parentDigests: (derivation.parents ?? [])
        .map((parent) => parent.provenanceDigest ?? new Uint8Array())
        .sort((a, b) => Buffer.compare(a, b)),
      stepsDigest: Uint8Array.from(digestOfSteps(derivation)),
      classification: derivation.classification ?? DataClass.UNSPECIFIED,
      allowedSinks: [...(derivation.allowedSinks ?? [])].sort(),
      policyRevision: 1n,
      purpose,
      approverSpiffeId,
      receiptId: randomUUID(),
      issuedTime: timestampFromMs(this.now),
      expireTime: timestampFromMs(this.now + HOUR_MS),
      ...over,
    };
  }
}

/** The same bytes signed as another kind of message. */
export function signedAsCommand(statement: Statement, key: SigningKey): Promise<string> {
  const bytes = toBinary(ClearanceStatementSchema, create(ClearanceStatementSchema, statement));
  return signBytes('command', bytes, key);
}

/** The reference of a record that was answered. */
export function referenceOf(record: ProvenanceRecord | undefined): RecordReference {
  if (!record?.reference) throw new Error('the service answered without a record');
  return record.reference;
}

/** Signs a statement as an approver would. */
export function signed(statement: Statement, key: SigningKey): Promise<string> {
  return signClearance(statement, key);
}

function digestOfSteps({ steps = [] }: Derivation): Uint8Array {
  return stepsDigest(
    steps.map((step, ordinal) => ({
      ordinal,
      kind: STEP_NAMES[step.kind ?? 0] ?? 'model',
      operation: step.operation ?? '',
      implementation: step.implementation ?? '',
      implementationVersion: step.implementationVersion ?? '',
      executor: step.executor ?? '',
      inputDigests: (step.inputDigests ?? []).map((input) => Buffer.from(input)),
      outputDigest: Buffer.from(step.outputDigest ?? []),
      startedAt: microsOf(step.startedTime),
      completedAt: microsOf(step.completedTime),
    })),
  );
}

function microsOf(time: { seconds?: bigint; nanos?: number } | undefined): bigint {
  return timestampToMicros({ seconds: time?.seconds ?? 0n, nanos: time?.nanos ?? 0 }) ?? 0n;
}

/** What the log says since a position. */
export async function entriesSince(world: E2eWorld, afterSeq: bigint) {
  const { entries, headSeq } = await world
    .channel(AUDITOR)
    .service(AuditService)
    .listEntries({ domainId: ACME, afterSeq, pageSize: 1000 });
  return { headSeq, entries: entries.map(({ entry }) => fromBinary(AuditEntrySchema, entry)) };
}

/** As a superuser could, with the triggers of the table off. */
export async function tamper(
  world: E2eWorld,
  table: string,
  sql: string,
  parameters: unknown[] = [],
): Promise<void> {
  await world.sql.query(`ALTER TABLE ${table} DISABLE TRIGGER USER`);
  await world.sql.query(sql, parameters);
  await world.sql.query(`ALTER TABLE ${table} ENABLE TRIGGER USER`);
}
