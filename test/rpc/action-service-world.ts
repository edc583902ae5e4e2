import {
  create,
  type DescMessage,
  fromBinary,
  type Message,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf';
import { type ApprovalWish, approvalEvidence } from '../../src/cli/client/approval-evidence.js';
import type { Action } from '../../src/gen/surety/action/v1/action_pb.js';
import {
  ActionService,
  WatchActionsRequestSchema,
  type WatchActionsResponse,
  WatchActionsResponseSchema,
} from '../../src/gen/surety/action/v1/action_service_pb.js';
import { createSigningKey, signEvidence } from '../../src/identity/sign.js';
import { actionService } from '../../src/rpc/action-service.js';
import type { CallContext, HandlerTools } from '../../src/rpc/handler.js';
import { PositionPoller } from '../../src/rpc/watch/position-poller.js';
import {
  AUDIENCE,
  callerOf,
  DOMAIN,
  type EffectWorld,
  freshId,
  HARNESS,
  openWorld,
  type Replica,
  seedRegistration,
} from '../support/effect-world.js';
import { contextOf, handlersOf, toolsOf } from '../support/handlers.js';
import type { Peer } from './effect-service-world.js';

const methods = ActionService.method;
type Unary = Exclude<keyof typeof methods, 'watchActions'>;
type Request<M extends Unary> = MessageInitShape<(typeof methods)[M]['input']>;
type Response<M extends Unary> = MessageShape<(typeof methods)[M]['output']>;

export const PLANNER: Peer = { caller: HARNESS, kind: 'harness' };
export const MAILER: Peer = { caller: callerOf('spiffe://acme.test/worker/mailer'), kind: 'worker' };
export const OTHER_WORKER: Peer = { caller: callerOf('spiffe://acme.test/worker/other'), kind: 'worker' };
export const OLGA: Peer = { caller: callerOf('spiffe://acme.test/owner/olga'), kind: 'owner' };
/** An owner of nothing but the source `sales`. */
export const SALES: Peer = { caller: callerOf('spiffe://acme.test/owner/sally'), kind: 'owner' };
export const OPERATOR: Peer = { caller: callerOf('spiffe://acme.test/operator/olaf'), kind: 'operator' };
export const AUDITOR: Peer = { caller: callerOf('spiffe://acme.test/auditor/ann'), kind: 'auditor' };

export const PAYLOAD = { tool_name: 'mail.send', amount: 100 };
const DELIVERY = {
  ...{ channel: 'mail', thread: 't', event: 'e', event_key: 'k', delivery: 'd', delivery_message: 'm' },
  binding_method: 'reply',
};

/** Governed actions over the handlers of ActionService, on a database of its own. */
export class ActionServiceWorld {
  readonly key = createSigningKey();

  private constructor(
    readonly world: EffectWorld,
    readonly replica: Replica,
    readonly tools: HandlerTools,
    readonly positions: PositionPoller,
  ) {}

  static async open(): Promise<ActionServiceWorld> {
    const world = await openWorld();
    const replica = world.replica();
    const positions = new PositionPoller(replica.reader, 10);
    const self = new ActionServiceWorld(world, replica, toolsOf(replica), positions);
    await self.seed();
    return self;
  }

  async close(): Promise<void> {
    this.positions.close();
    await this.world.close();
  }

  /** Calls a method; request and answer go through their encodings. */
  async call<M extends Unary>(
    method: M,
    peer: Peer,
    request: Request<M>,
    over: Partial<CallContext> = {},
  ): Promise<Response<M>> {
    const { input, output } = methods[method];
    const handlers = handlersOf(ActionService, actionService(this.tools, this.positions));
    const handler = handlers[method] as (request: unknown, context: CallContext) => Promise<object>;
    const answer = await handler(sent(input, request), contextOf(peer.caller, peer.kind, over));
    return sent(output, answer) as Response<M>;
  }

  /** Watches; ends when the signal aborts. */
  async *watch(
    peer: Peer,
    request: MessageInitShape<typeof WatchActionsRequestSchema>,
    signal: AbortSignal,
  ): AsyncGenerator<WatchActionsResponse> {
    const handlers = handlersOf(ActionService, actionService(this.tools, this.positions));
    const context = contextOf(peer.caller, peer.kind, { signal });
    const stream = handlers.watchActions(create(WatchActionsRequestSchema, request), context);
    for await (const message of stream) {
      yield sent(WatchActionsResponseSchema, message) as WatchActionsResponse;
    }
  }

  async propose(over: Partial<Request<'proposeAction'>> = {}, peer = PLANNER): Promise<Action> {
    const { action } = await this.call('proposeAction', peer, {
      idempotencyKey: freshId('key'),
      source: 'support',
      sourceRef: 'ticket-7',
      type: 'mail.reply',
      toolName: 'mail.send',
      payload: Uint8Array.from(Buffer.from(JSON.stringify(PAYLOAD))),
      ...over,
    } as Request<'proposeAction'>);
    return action as Action;
  }

  /** A signed approval by the owner of everything. */
  async approval(action: Action, wish: Partial<ApprovalWish> = {}): Promise<Gate> {
    const approvalId = freshId('approval');
    const decisionId = freshId('decision');
    const evidence = approvalEvidence(
      action,
      { audience: AUDIENCE, incarnation: 1n },
      { approvalId, decisionId, decidedAtMs: Date.now(), fields: DELIVERY, ...wish },
    );
    const signatureJws = await signEvidence(evidence, this.key);
    const { actionId } = action;
    return { actionId, receiptKey: freshId('gate'), approvalId, decisionId, evidence, signatureJws };
  }

  async gated(over: Partial<Request<'proposeAction'>> = {}): Promise<{ action: Action; gate: Gate }> {
    const proposed = await this.propose(over);
    const gate = await this.approval(proposed);
    const { action } = await this.call('gateAction', OLGA, gate);
    return { action: action as Action, gate };
  }

  async lease(actionId: string, peer = MAILER): Promise<bigint> {
    const { lease } = await this.call('leaseNext', peer, {
      requestId: freshId('lease-request'),
      scope: { actionIds: [actionId] },
      leaseDuration: { seconds: 60n, nanos: 0 },
    });
    return lease?.leaseToken ?? 0n;
  }

  /** A dispatch that is allowed, unless the test changes something. */
  dispatch(action: Action, gate: Gate, leaseToken: bigint): Request<'beginDispatch'> {
    const { actionId, source, sourceRef, type, payload } = action;
    const { receiptKey: gateReceiptKey, approvalId, decisionId } = gate;
    return {
      ...{ actionId, leaseToken, source, sourceRef, type, payload },
      ...{ gateReceiptKey, approvalId, decisionId },
      executionDigest: new Uint8Array(32).fill(7),
      observationWindow: { seconds: 600n, nanos: 0 },
      maxObservations: 2,
    };
  }

  /** Changes rows behind the service's back: the triggers stand aside, as for a superuser who means it. */
  async tamper(sql: string, parameters: readonly unknown[] = []): Promise<void> {
    const { admin } = this.world;
    await admin.query('SET session_replication_role = replica');
    await admin.query(sql, [...parameters]);
    await admin.query('SET session_replication_role = origin');
  }

  async condition(expression: string, status: 'active' | 'suspended' = 'active'): Promise<void> {
    await this.world.admin.query(
      `INSERT INTO action_conditions (domain_id, action_type, expression, status, revision)
       VALUES ($1, 'mail.reply', $2, $3, 1)
       ON CONFLICT (domain_id, action_type) DO UPDATE SET expression = $2, status = $3`,
      [DOMAIN, expression, status],
    );
  }

  private async seed(): Promise<void> {
    const { world, key } = this;
    const { spiffeId: olga } = OLGA.caller;
    const { spiffeId: sally } = SALES.caller;
    const active = { status: 'active', revision: 1n } as const;
    const signer = (one: typeof key) => ({
      signingKeyJwk: one.publicKey.jwk,
      signingKeyThumbprint: one.publicKey.thumbprint,
    });
    await world.seed('callers', [
      ...[MAILER, OTHER_WORKER].map(({ caller: { spiffeId } }) => ({
        ...{ spiffeId, kind: 'worker' as const, refId: spiffeId },
      })),
      ...[olga, sally].map((spiffeId) => ({ spiffeId, kind: 'owner' as const, refId: spiffeId })),
    ]);
    await world.seed('owners', [
      { spiffeId: olga, ...signer(key), sourceScopes: ['*'], typeScopes: ['*'], ...active },
      {
        spiffeId: sally,
        ...signer(createSigningKey()),
        sourceScopes: ['sales'],
        typeScopes: ['*'],
        ...active,
      },
    ]);
    await world.seed('tools', [{ toolName: 'mail.send', nonGrantable: false, ...active }]);
    for (const { caller } of [MAILER, OTHER_WORKER]) {
      await seedRegistration(world, caller, { role: 'action_worker', sinks: [], workloadId: 'mailer' });
    }
    for (const { caller, kind } of [OPERATOR, AUDITOR]) {
      await world.admin.query(
        `INSERT INTO operators (domain_id, spiffe_id, roles, status, revision) VALUES ($1, $2, $3, 'active', 1)`,
        [DOMAIN, caller.spiffeId, [kind === 'auditor' ? 'AUDITOR' : 'ADMIN']],
      );
    }
  }
}

export interface Gate {
  readonly actionId: string;
  readonly receiptKey: string;
  readonly approvalId: string;
  readonly decisionId: string;
  readonly evidence: Uint8Array<ArrayBuffer>;
  readonly signatureJws: string;
}

function sent(schema: DescMessage, init: object): Message {
  return fromBinary(schema, toBinary(schema, create(schema, init as never)));
}
