import { randomUUID } from 'node:crypto';
import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import type { Action } from '../../gen/surety/action/v1/action_pb.js';
import type {
  AddBoundedGrantRequestSchema,
  GateActionRequestSchema,
  RejectActionRequestSchema,
} from '../../gen/surety/action/v1/action_service_pb.js';
import type { BoundedGrantStatementSchema } from '../../gen/surety/action/v1/bounded_grant_pb.js';
import { ActionService } from '../../gen/surety/action/v1/action_service_pb.js';
import { type SigningKey, signBoundedGrant, signEvidence } from '../../identity/sign.js';
import { type ApprovalWish, approvalEvidence, rejectionEvidence } from './approval-evidence.js';
import type { Channel } from './service-client.js';
import type { ServiceName } from './workload-session.js';

export type GateRequest = Omit<MessageInitShape<typeof GateActionRequestSchema>, '$typeName'>;
export type RejectRequest = Omit<MessageInitShape<typeof RejectActionRequestSchema>, '$typeName'>;
export type GrantRequest = Omit<MessageInitShape<typeof AddBoundedGrantRequestSchema>, '$typeName'>;
/** What an owner allows in advance; the rest of the statement is filled in. */
export type GrantWish = Omit<
  MessageInitShape<typeof BoundedGrantStatementSchema>,
  '$typeName' | 'audience' | 'incarnation' | 'domainId' | 'ownerSpiffeId' | 'issuedTime'
>;

/**
 * An owner at work: looks at what is proposed, and signs the exact evidence of its decision. Its requests can be sent again
 * exactly as they are after a lost answer.
 */
export class OwnerSession {
  constructor(
    readonly channel: Channel,
    readonly domainId: string,
    readonly spiffeId: string,
    readonly key: SigningKey,
    readonly service: ServiceName,
    /** Milliseconds since the epoch. */
    readonly clock: () => number = Date.now,
  ) {}

  /** The action as it is stored, payload included: what is approved. */
  async look(actionId: string): Promise<Action> {
    const { domainId } = this;
    const { action } = await this.channel.service(ActionService).getAction({ actionId, domainId });
    if (!action) throw new Error('the service answered without an action');
    return action;
  }

  /** A signed approval, with ids of its own unless the wish names some. */
  async approval(action: Action, wish: Partial<ApprovalWish> = {}): Promise<GateRequest> {
    const { approvalId, decisionId, decidedAtMs } = this.filled(wish);
    const evidence = approvalEvidence(action, this.service, { ...wish, approvalId, decisionId, decidedAtMs });
    return {
      actionId: action.actionId,
      domainId: this.domainId,
      receiptKey: `gate-${approvalId}`,
      approvalId,
      decisionId,
      evidence,
      signatureJws: await signEvidence(evidence, this.key),
    };
  }

  /** A signed refusal. */
  async rejection(action: Action, wish: Partial<ApprovalWish> = {}): Promise<RejectRequest> {
    const { approvalId, decisionId, decidedAtMs } = this.filled(wish);
    const evidence = rejectionEvidence(action, this.service, {
      ...wish,
      approvalId,
      decisionId,
      decidedAtMs,
    });
    return {
      actionId: action.actionId,
      domainId: this.domainId,
      receiptKey: `gate-${decisionId}`,
      decisionId,
      evidence,
      signatureJws: await signEvidence(evidence, this.key),
    };
  }

  /** A signed bounded grant. */
  async boundedGrant(wish: GrantWish): Promise<GrantRequest> {
    const { domainId, spiffeId, service, key } = this;
    const issuedTime = timestampFromMs(this.clock());
    const statement = { ...wish, ...service, domainId, ownerSpiffeId: spiffeId, issuedTime };
    return { domainId, grantJws: await signBoundedGrant(statement, key) };
  }

  private filled(wish: Partial<ApprovalWish>) {
    return {
      approvalId: wish.approvalId ?? `approval-${randomUUID()}`,
      decisionId: wish.decisionId ?? `decision-${randomUUID()}`,
      decidedAtMs: wish.decidedAtMs ?? this.clock(),
    };
  }
}
