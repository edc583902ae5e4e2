import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { create, type MessageInitShape, type MessageShape, toBinary } from '@bufbuild/protobuf';
import { type Timestamp, timestampFromMs } from '@bufbuild/protobuf/wkt';
import { type Effect, EffectState } from '../../gen/surety/effect/v1/effect_pb.js';
import { EffectService } from '../../gen/surety/effect/v1/effect_service_pb.js';
import {
  ExecutionEvidenceSchema,
  ReconciliationEvidenceSchema,
  TerminalEvidenceSchema,
  UncertaintyEvidenceSchema,
} from '../../gen/surety/effect/v1/evidence_pb.js';
import { TransitionStatementSchema } from '../../gen/surety/effect/v1/proof_pb.js';
import { type RegistrationSpec } from '../../gen/surety/identity/v1/workload_pb.js';
import { type SigningKey, signBytes } from '../../identity/sign.js';
import type { Channel } from './service-client.js';

/** What the service is to be named as in a statement; `WhoAmI` tells it. */
export interface ServiceName {
  readonly audience: string;
  readonly incarnation: bigint;
}

/** A request of a transition, ready to be sent, and to be sent again exactly as it is after a lost answer. */
export interface TransitionRequest {
  readonly effectId: string;
  readonly evidence: Uint8Array<ArrayBuffer>;
  readonly proof: { readonly encoding: { readonly case: 'jws'; readonly value: string } };
}

/** Parts of a statement that a test gives another value. */
export type StatementOverrides = MessageInitShape<typeof TransitionStatementSchema>;

/** A registered workload at work: keeps the exact evidence bytes, signs the statement over them, sends both. */
export class WorkloadSession {
  /** New per process (effects.md, ExecutionEvidence). */
  readonly instanceId = `instance-${randomUUID()}`;

  constructor(
    readonly channel: Channel,
    readonly registration: RegistrationSpec,
    readonly key: SigningKey,
    readonly service: ServiceName,
    /** Milliseconds since the epoch, for statements and evidence. */
    readonly clock: () => number = Date.now,
  ) {}

  /** PREPARED to EXECUTING. */
  start(effect: Effect, attemptId: string, now = this.clock()): Promise<TransitionRequest> {
    return this.request(effect, EffectState.PREPARED, EffectState.EXECUTING, ExecutionEvidenceSchema, {
      attemptId,
      executorInstanceId: this.instanceId,
      requestDigest: effect.requestDigest,
      startTime: timestampFromMs(now),
    });
  }

  /** EXECUTING to UNKNOWN. */
  markUnknown(
    effect: Effect,
    evidence: Omit<MessageInitShape<typeof UncertaintyEvidenceSchema>, '$typeName'>,
  ): Promise<TransitionRequest> {
    return this.request(
      effect,
      EffectState.EXECUTING,
      EffectState.UNKNOWN,
      UncertaintyEvidenceSchema,
      evidence,
    );
  }

  /** EXECUTING to a terminal state. */
  acknowledge(
    effect: Effect,
    to: EffectState,
    receipt: { attemptId: string; receiptId: string; receipt: string; observedTime?: Timestamp },
  ): Promise<TransitionRequest> {
    return this.request(effect, EffectState.EXECUTING, to, TerminalEvidenceSchema, {
      attemptId: receipt.attemptId,
      externalReceiptId: receipt.receiptId,
      externalReceiptDigest: digest(receipt.receipt),
      observedTime: receipt.observedTime ?? timestampFromMs(this.clock()),
    });
  }

  /** UNKNOWN to a terminal state. */
  reconcile(
    effect: Effect,
    to: EffectState,
    answer: {
      attemptId: string;
      authoritySystemId: string;
      queryId: string;
      response: string;
      observedTime?: Timestamp;
    },
  ): Promise<TransitionRequest> {
    return this.request(effect, EffectState.UNKNOWN, to, ReconciliationEvidenceSchema, {
      attemptId: answer.attemptId,
      authoritySystemId: answer.authoritySystemId,
      queryId: answer.queryId,
      queryResponseDigest: digest(answer.response),
      observedTime: answer.observedTime ?? timestampFromMs(this.clock()),
      terminalState: to,
    });
  }

  /** The effect as the service shows it to this workload. */
  async look(effectId: string): Promise<Effect> {
    const { effect } = await this.channel
      .service(EffectService)
      .getEffect({ effectId, registrationId: this.registration.registrationId });
    if (!effect) throw new Error('the service answered without an effect');
    return effect;
  }

  /** Signs a statement over exact evidence bytes. */
  async sign(
    effect: Effect,
    from: EffectState,
    to: EffectState,
    evidence: Uint8Array,
    overrides: StatementOverrides = {},
  ): Promise<string> {
    return signBytes('transition', this.statement(effect, from, to, evidence, overrides), this.key);
  }

  /** The bytes of a statement over exact evidence bytes. */
  protected statement(
    effect: Effect,
    from: EffectState,
    to: EffectState,
    evidence: Uint8Array,
    overrides: StatementOverrides,
  ): Uint8Array {
    const { registration } = this;
    const statement = create(TransitionStatementSchema, {
      audience: this.service.audience,
      incarnation: this.service.incarnation,
      domainId: registration.domainId,
      registrationId: registration.registrationId,
      workloadId: registration.workloadId,
      role: registration.role,
      processId: registration.processId,
      ...(registration.processStartTime ? { processStartTime: registration.processStartTime } : {}),
      sessionId: registration.sessionId,
      credentialEpoch: registration.credentialEpoch,
      revocationEpoch: registration.revocationEpoch,
      parentEventId: effect.eventId,
      grantId: effect.grantId,
      effectId: effect.effectId,
      fence: effect.fence,
      fromState: from,
      toState: to,
      evidenceDigest: digest(evidence),
      issuedTime: timestampFromMs(this.clock()),
      nonce: randomBytes(24).toString('base64url'),
      ...overrides,
    });
    return toBinary(TransitionStatementSchema, statement);
  }

  private async request<Schema extends EvidenceSchema>(
    effect: Effect,
    from: EffectState,
    to: EffectState,
    schema: Schema,
    fields: MessageInitShape<Schema>,
  ): Promise<TransitionRequest> {
    const message: MessageShape<Schema> = create(schema, fields);
    const evidence = toBinary(schema, message);
    const value = await this.sign(effect, from, to, evidence);
    return { effectId: effect.effectId, evidence, proof: { encoding: { case: 'jws', value } } };
  }
}

type EvidenceSchema =
  | typeof ExecutionEvidenceSchema
  | typeof UncertaintyEvidenceSchema
  | typeof TerminalEvidenceSchema
  | typeof ReconciliationEvidenceSchema;

/** SHA-256 of text or bytes. */
export function digest(content: string | Uint8Array): Uint8Array<ArrayBuffer> {
  return new Uint8Array(createHash('sha256').update(content).digest());
}
