import { randomUUID } from 'node:crypto';
import { toBinary } from '@bufbuild/protobuf';
import { durationFromMs } from '@bufbuild/protobuf/wkt';
import type { CertificateLayout } from '../certs/layout.js';
import { approvalEvidence, boundedGrantFields } from '../src/cli/client/approval-evidence.js';
import type { GateRequest, RejectRequest } from '../src/cli/client/owner-session.js';
import { type Held, WorkerSession } from '../src/cli/client/worker-session.js';
import { digest } from '../src/cli/client/workload-session.js';
import { type Action, ActionSchema } from '../src/gen/surety/action/v1/action_pb.js';
import { ActionService, type BeginDispatchResponse } from '../src/gen/surety/action/v1/action_service_pb.js';
import type { ActionEvent, DeadLetter } from '../src/gen/surety/action/v1/event_pb.js';
import type { Receipt } from '../src/gen/surety/action/v1/receipt_pb.js';
import { RecordStatus, WorkloadRole } from '../src/gen/surety/identity/v1/workload_pb.js';
import { type SigningKey, signEvidence } from '../src/identity/sign.js';
import {
  type ApprovalWish,
  bytes,
  DELIVERY,
  type DispatchRequest,
  EXECUTION,
  type Gated,
  type GateOfAction,
  gateOf,
  type Leased,
  LONG_MS,
  MARKED_TOOL,
  type NamedCalls,
  type Proposal,
  receipt,
  TOOL,
  TYPE,
} from './action-samples.js';
import { grantRequest } from './bounded-grant-samples.js';
import type { CaseWorld } from './case.js';
import { DomainWorld, type PartyName } from './domain-world.js';
import { expectRefused, expectSame, expectThere } from './expect.js';

/** Registrations last an hour; the cases between two renewals move the clock by less than the rest. */
const RENEW_AFTER_MS = 1_200_000;

/** What of the second owner is otherwise for a while. */
export interface OwnerChange {
  readonly signingKeyJwk?: string;
  readonly status?: RecordStatus;
  readonly sourceScopes?: string[];
  readonly typeScopes?: string[];
}

/**
 * Who takes part in governed actions: a harness that proposes, two workers that lease and dispatch, two owners who approve, an
 * operator and an auditor.
 */
export class ActionWorld extends DomainWorld implements CaseWorld {
  private registeredAtMs = Number.NEGATIVE_INFINITY;
  private mailer: WorkerSession | undefined;
  private other: WorkerSession | undefined;

  /**
   * Connects everybody and sets the domain up.
   *
   * @throws {SuretyError} where the service has no test clock, or its operator is another one
   */
  static async open(target: string, layout: CertificateLayout, domainId: string): Promise<ActionWorld> {
    const world = new ActionWorld(target, layout, domainId);
    try {
      await world.setUp();
      return world;
    } catch (error) {
      world.close();
      throw error;
    }
  }

  get worker(): WorkerSession {
    return expectThere('the worker', this.mailer);
  }

  /** Another worker, with a certificate and a key of its own. */
  get courier(): WorkerSession {
    return expectThere('the second worker', this.other);
  }

  /** The action service as somebody calls it. */
  actions(who: PartyName) {
    return this.channelOf(who).service(ActionService);
  }

  async prepare(): Promise<void> {
    if (this.now() - this.registeredAtMs < RENEW_AFTER_MS) return;
    this.registeredAtMs = this.now();
    this.mailer = await this.registerWorker('worker');
    this.other = await this.registerWorker('courier');
  }

  /** A further registration of a worker. @param key its proof key; a new one unless given */
  async registerWorker(who: 'worker' | 'courier', key?: SigningKey): Promise<WorkerSession> {
    const { channel, registration } = await this.register(who, WorkloadRole.ACTION_WORKER, key);
    return new WorkerSession(channel, registration);
  }

  /** Runs while the second worker has no registration, and gives it one again. */
  async withoutCourier(run: () => Promise<void>): Promise<void> {
    await this.revokeAll('courier');
    try {
      await run();
    } finally {
      this.other = await this.registerWorker('courier');
    }
  }

  /** The second owner as it is, or otherwise for a while. */
  putSecondOwner(change: OwnerChange = {}): Promise<void> {
    const owner = {
      spiffeId: this.names.secondOwner,
      signingKeyJwk: this.signingKey('secondOwner').publicKey.jwk,
      sourceScopes: ['*'],
      typeScopes: ['*'],
      status: RecordStatus.ACTIVE,
      ...change,
    };
    return this.command({ case: 'putOwner', value: { owner } });
  }

  /** What a harness proposes: an action of its own unless told otherwise. */
  proposal(over: Proposal = {}): Proposal {
    const name = randomUUID();
    const toolName = over.toolName ?? TOOL;
    return {
      idempotencyKey: `key-${name}`,
      source: `desk-${name}`,
      sourceRef: `ticket-${name}`,
      type: TYPE,
      toolName,
      payload: bytes(JSON.stringify({ tool_name: toolName, text: `to ${name}` })),
      ...over,
    };
  }

  async propose(over: Proposal = {}): Promise<Action> {
    const { action } = await this.actions('harness').proposeAction(this.proposal(over));
    return expectThere('the proposed action', action);
  }

  /** An approval of the owner: good, but for what is wished otherwise. */
  async approval(
    action: Action,
    wish: ApprovalWish = {},
    as: 'owner' | 'secondOwner' = 'owner',
  ): Promise<GateRequest> {
    const approvalId = wish.approvalId ?? `approval-${randomUUID()}`;
    const decisionId = wish.decisionId ?? `decision-${randomUUID()}`;
    const good = approvalEvidence(action, this.service, {
      approvalId,
      decisionId,
      decidedAtMs: this.now(),
      validForMs: wish.validForMs ?? LONG_MS,
      fields: wish.fields ?? DELIVERY,
    });
    const evidence = withMembers(good, wish.members);
    const key = wish.key === undefined ? this.signingKey(as) : wish.key;
    return {
      actionId: action.actionId,
      domainId: this.domainId,
      receiptKey: wish.receiptKey ?? `gate-${approvalId}`,
      approvalId,
      decisionId,
      evidence,
      signatureJws: key === null ? '' : await signEvidence(evidence, key),
    };
  }

  /** A refusal by the owner. */
  async rejection(action: Action, wish: ApprovalWish = {}): Promise<RejectRequest> {
    const members = { decision: 'rejected', ...wish.members };
    const { approvalId: _, ...request } = await this.approval(action, { fields: {}, ...wish, members });
    return request;
  }

  /** Proposed and approved. */
  async gated(
    over: Proposal = {},
    wish: ApprovalWish = {},
    as: 'owner' | 'secondOwner' = 'owner',
  ): Promise<Gated> {
    const request = await this.approval(await this.propose(over), wish, as);
    const { action } = await this.actions(as).gateAction(request);
    return { action: expectThere('the gated action', action), gate: gateOf(request), request };
  }

  /** A grant of the owner for this action, without an end, and the fields of an approval under it. */
  async boundedGrant(action: Action) {
    const boundedGrantId = `grant-${randomUUID()}`;
    await this.actions('owner').addBoundedGrant(
      await grantRequest(this, action, { grantId: boundedGrantId }),
    );
    const under = { boundedGrantId, expiresAtMicros: undefined, sourceRequest: 'ask-7' };
    return { boundedGrantId, fields: boundedGrantFields(under) };
  }

  async lease({ actionId }: Action, leaseMs = LONG_MS, worker = this.worker): Promise<Held> {
    return expectThere('a lease', await worker.leaseNext({ scope: { actionIds: [actionId] }, leaseMs }));
  }

  /** Approved, and under a lease of the worker. */
  async leased(over: Proposal = {}, wish: ApprovalWish = {}, leaseMs = LONG_MS): Promise<Leased> {
    const gated = await this.gated(over, wish);
    return { ...gated, held: await this.lease(gated.action, leaseMs) };
  }

  /** What a worker that believes the right things begins a dispatch with. */
  dispatchRequest({ action, lease }: Held, gate: GateOfAction, over: DispatchRequest = {}): DispatchRequest {
    const { actionId, source, sourceRef, type, payload } = action;
    return {
      actionId,
      leaseToken: lease.leaseToken,
      ...{ source, sourceRef, type, payload },
      ...gate,
      executionDigest: EXECUTION,
      observationWindow: durationFromMs(LONG_MS),
      maxObservations: 2,
      ...over,
    };
  }

  dispatch(
    held: Held,
    gate: GateOfAction,
    over: DispatchRequest = {},
    worker = this.worker,
  ): Promise<BeginDispatchResponse> {
    return worker.actions.beginDispatch(this.dispatchRequest(held, gate, over));
  }

  /** Dispatched, under a lease of the worker. */
  async dispatched(over: DispatchRequest = {}, leaseMs = LONG_MS): Promise<Leased> {
    const { held, ...gated } = await this.leased({}, {}, leaseMs);
    const { action } = await this.dispatch(held, gated.gate, over);
    const dispatched = expectThere('the dispatched action', action);
    return { ...gated, action: dispatched, held: { action: dispatched, lease: held.lease } };
  }

  /** Accepted with the receipt `accepted`, under a lease of the worker. */
  async accepted(leaseMs = LONG_MS): Promise<Leased> {
    const leased = await this.dispatched({}, leaseMs);
    const { action } = await this.worker.accept(leased.held, receipt('accepted'));
    return withAction(leased, expectThere('the accepted action', action));
  }

  /** Verified, under a lease of the worker. */
  async verified(): Promise<Leased> {
    const leased = await this.accepted();
    const { action } = await this.worker.verify(leased.held, ['accepted']);
    return withAction(leased, expectThere('the verified action', action));
  }

  /** The action as the auditor sees it. */
  async look({ actionId }: Pick<Action, 'actionId'>): Promise<Action> {
    const { action } = await this.actions('auditor').getAction({ actionId, domainId: this.domainId });
    return expectThere('the action', action);
  }

  async receipts({ actionId }: Pick<Action, 'actionId'>): Promise<readonly Receipt[]> {
    const { domainId } = this;
    const page = { actionId, domainId, pageSize: 100 };
    return (await this.actions('auditor').listReceipts(page)).receipts;
  }

  async events({ actionId }: Pick<Action, 'actionId'>): Promise<readonly ActionEvent[]> {
    const { domainId } = this;
    const page = { actionId, domainId, pageSize: 1000 };
    return (await this.actions('auditor').listEvents(page)).events;
  }

  /** The dead letter of an action that failed; undefined: there is none. */
  async deadLetter({ actionId, failureReason }: Action): Promise<DeadLetter | undefined> {
    for (let pageToken = ''; ; ) {
      const page = { domainId: this.domainId, failureReason, pageSize: 1000, pageToken };
      const { deadLetters, nextPageToken } = await this.actions('auditor').listDeadLetters(page);
      const found = deadLetters.find((letter) => letter.actionId === actionId);
      if (found || nextPageToken === '') return found;
      pageToken = nextPageToken;
    }
  }

  /** A call that is refused with one of these reasons, and leaves no trace on the action. */
  refusedWithoutTrace(
    what: string,
    action: Action,
    call: () => Promise<unknown>,
    ...reasons: readonly string[]
  ): Promise<void> {
    return this.allRefused(action, [[what, call]], ...reasons);
  }

  /** Calls, made one by one, that are all refused with one of these reasons and leave no trace on the action. */
  async allRefused(action: Action, calls: NamedCalls, ...reasons: readonly string[]): Promise<void> {
    const before = await this.traces(action);
    for (const [what, call] of calls) await expectRefused(what, call(), ...reasons);
    const what = calls.map(([name]) => name).join(', ');
    expectSame(`${what}: what is stored behind the refusal`, await this.traces(action), before);
  }

  protected override async setUp(): Promise<void> {
    await super.setUp();
    // A run that was stopped may have left them otherwise.
    await this.putSecondOwner();
    for (const toolName of [TOOL, MARKED_TOOL]) {
      const tool = { toolName, nonGrantable: toolName === MARKED_TOOL, status: RecordStatus.ACTIVE };
      await this.command({ case: 'putTool', value: { tool } });
    }
  }

  private async traces(action: Action): Promise<string> {
    const [now, receipts] = await Promise.all([this.look(action), this.receipts(action)]);
    const keys = receipts.map(({ receiptClass, receiptKey }) => `${receiptClass}/${receiptKey}`);
    return `${Buffer.from(digest(toBinary(ActionSchema, now))).toString('hex')} ${keys.join(' ')}`;
  }
}

function withAction(leased: Leased, action: Action): Leased {
  return { ...leased, action, held: { action, lease: leased.held.lease } };
}

function withMembers(
  evidence: Uint8Array<ArrayBuffer>,
  members: ApprovalWish['members'],
): Uint8Array<ArrayBuffer> {
  if (!members) return evidence;
  const good = JSON.parse(Buffer.from(evidence).toString('utf8')) as Record<string, unknown>;
  return bytes(JSON.stringify({ ...good, ...members }));
}
