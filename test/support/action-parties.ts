import { randomUUID } from 'node:crypto';
import type { MessageInitShape } from '@bufbuild/protobuf';
import type { ApprovalWish } from '../../src/cli/client/approval-evidence.js';
import { OwnerSession } from '../../src/cli/client/owner-session.js';
import { registerWorkload } from '../../src/cli/client/register-workload.js';
import type { Channel } from '../../src/cli/client/service-client.js';
import { type Held, WorkerSession } from '../../src/cli/client/worker-session.js';
import { digest } from '../../src/cli/client/workload-session.js';
import type { Action } from '../../src/gen/surety/action/v1/action_pb.js';
import {
  ActionService,
  type BeginDispatchResponse,
  type ProposeActionRequestSchema,
} from '../../src/gen/surety/action/v1/action_service_pb.js';
import { RecordStatus, WorkloadRole } from '../../src/gen/surety/identity/v1/workload_pb.js';
import { WorkloadService } from '../../src/gen/surety/identity/v1/workload_service_pb.js';
import { ACME, type E2eWorld, HARNESS, OPERATOR } from './e2e-world.js';
import type { ServiceProcess } from './service-process.js';

export const WORKER = 'spiffe://acme.test/worker/mailer';
export const OWNER = 'spiffe://acme.test/owner/olga';
export const TOOL = 'mail.send';
export const TYPE = 'mail.reply';
/** SHA-256 of the exact request that a worker is about to send. */
export const EXECUTION = digest('POST /messages');

/** The fields of an approval of a message's delivery. */
export const DELIVERY = {
  channel: 'mail',
  thread: 'thread-7',
  event: 'event-7',
  event_key: 'event-key-7',
  delivery: 'delivery-1',
  delivery_message: 'message-1',
  binding_method: 'reply',
};

export type Proposal = Omit<MessageInitShape<typeof ProposeActionRequestSchema>, '$typeName'>;

/** Who takes part in governed actions: a harness that proposes, an owner who approves, a worker that dispatches. */
export class ActionParties {
  private constructor(
    readonly world: E2eWorld,
    readonly owner: OwnerSession,
    readonly worker: WorkerSession,
  ) {}

  static async join(world: E2eWorld): Promise<ActionParties> {
    const tool = { toolName: TOOL, nonGrantable: false, status: RecordStatus.ACTIVE };
    await world.admin.execute(ACME, { case: 'putTool', value: { tool } });
    const channel = world.channel(OWNER);
    const me = await channel.service(WorkloadService).whoAmI({ domainId: ACME });
    // Whole seconds: the test clock says how far the store is.
    const offset = Number(me.nowTime?.seconds ?? 0n) * 1000 - Date.now();
    const clock = (): number => Date.now() + offset;
    const owner = new OwnerSession(channel, ACME, OWNER, world.signingKey(OWNER), me, clock);
    return new ActionParties(world, owner, await registerWorker(world));
  }

  get proposer() {
    return this.world.channel(HARNESS).service(ActionService);
  }

  /** What a harness proposes: an action of its own unless told otherwise. */
  proposal(over: Proposal = {}): Proposal {
    const name = randomUUID();
    return {
      idempotencyKey: `key-${name}`,
      source: `support-${name}`,
      sourceRef: `ticket-${name}`,
      type: TYPE,
      toolName: TOOL,
      payload: Uint8Array.from(Buffer.from(JSON.stringify({ tool_name: TOOL, text: `to ${name}` }))),
      ...over,
    };
  }

  async propose(over: Proposal = {}): Promise<Action> {
    const { action } = await this.proposer.proposeAction(this.proposal(over));
    return action as Action;
  }

  /** Proposed, and approved by its owner. */
  async gated(over: Proposal = {}, wish: Partial<ApprovalWish> = {}): Promise<GatedAction> {
    const { actionId } = await this.propose(over);
    const seen = await this.owner.look(actionId);
    const request = await this.owner.approval(seen, { fields: DELIVERY, ...wish });
    const { action } = await this.owner.channel.service(ActionService).gateAction(request);
    const { receiptKey = '', approvalId = '', decisionId = '' } = request;
    return { action: action as Action, gate: { gateReceiptKey: receiptKey, approvalId, decisionId } };
  }

  /** Approved, and under a lease of the worker. */
  async leased(over: Proposal = {}, leaseMs = 60_000): Promise<GatedAction & { readonly held: Held }> {
    const { gate, action } = await this.gated(over);
    const scope = { actionIds: [action.actionId] };
    const held = await this.worker.leaseNext({ scope, leaseMs });
    if (!held) throw new Error('the action is not ready');
    return { action, gate, held };
  }

  dispatch(held: Held, gate: GateOfAction, worker = this.worker): Promise<BeginDispatchResponse> {
    return worker.beginDispatch(held, dispatchWish(gate));
  }

  /** Dispatched, under a lease of the worker. */
  async dispatched(over: Proposal = {}, leaseMs?: number): Promise<GatedAction & { readonly held: Held }> {
    const { gate, held } = await this.leased(over, leaseMs);
    const { action } = await this.dispatch(held, gate);
    return { action: action as Action, gate, held: { action: action as Action, lease: held.lease } };
  }
}

export type GateOfAction = Record<'gateReceiptKey' | 'approvalId' | 'decisionId', string>;

export interface GatedAction {
  readonly action: Action;
  readonly gate: GateOfAction;
}

/** What a dispatch is bound to: two observations within ten minutes. */
export function dispatchWish(gate: GateOfAction) {
  return { ...gate, executionDigest: EXECUTION, maxObservations: 2, observationWindowMs: 600_000 };
}

/** A receipt with evidence of its own. */
export function receipt(receiptKey: string, kind = 'provider', status = 'accepted') {
  const evidence = Uint8Array.from(Buffer.from(JSON.stringify({ seen: receiptKey })));
  return { receiptKey, kind, status, externalId: `message-of-${receiptKey}`, evidence };
}

/** A registered worker, on the service or on a replica. */
export async function registerWorker(world: E2eWorld, service?: ServiceProcess): Promise<WorkerSession> {
  const channel: Channel = world.channel(WORKER, service);
  const { registration } = await registerWorkload(world.admin, channel, world.channel(OPERATOR), {
    domainId: ACME,
    spiffeId: WORKER,
    role: WorkloadRole.ACTION_WORKER,
    workloadId: 'mailer',
  });
  return new WorkerSession(channel, registration);
}
