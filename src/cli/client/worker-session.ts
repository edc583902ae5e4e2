import { randomUUID } from 'node:crypto';
import type { MessageInitShape } from '@bufbuild/protobuf';
import { durationFromMs } from '@bufbuild/protobuf/wkt';
import type {
  Action,
  ActionLease,
  ActionScopeSchema,
  ActionState,
} from '../../gen/surety/action/v1/action_pb.js';
import {
  type AcceptActionResponse,
  ActionService,
  type AddReceiptResponse,
  type BeginDispatchRequestSchema,
  type BeginDispatchResponse,
  type BeginObservationResponse,
  type FailActionRequestSchema,
  type GetDispatchViewResponse,
  type VerifyActionResponse,
} from '../../gen/surety/action/v1/action_service_pb.js';
import type { ReceiptInputSchema } from '../../gen/surety/action/v1/receipt_pb.js';
import type { RegistrationSpec } from '../../gen/surety/identity/v1/workload_pb.js';
import { type Patience, sendExactly } from './send-exactly.js';
import type { Channel, ServiceClient } from './service-client.js';

/** How long a lease lasts where nothing else is said, in milliseconds. */
const LEASE_MS = 60_000;

/** An action under a lease of one's own. */
export interface Held {
  readonly action: Action;
  readonly lease: ActionLease;
}

/** What a worker is for, and for how long it takes it. */
export interface LeaseWish {
  readonly scope?: MessageInitShape<typeof ActionScopeSchema>;
  /** Only these of GATED, ACCEPTED and VERIFIED. */
  readonly states?: readonly ActionState[];
  readonly leaseMs?: number;
}

/** What a dispatch is bound to besides the action itself. */
export type DispatchWish = Pick<
  MessageInitShape<typeof BeginDispatchRequestSchema>,
  'gateReceiptKey' | 'approvalId' | 'decisionId' | 'executionDigest' | 'maxObservations' | 'effectId'
> & {
  readonly observationWindowMs: number;
  /** What a validator of the worker's own has judged, and until when that is good. */
  readonly authorization?: Pick<
    MessageInitShape<typeof BeginDispatchRequestSchema>,
    'viewDigest' | 'authorizationExpireTime'
  >;
};

export type ReceiptWish = Omit<MessageInitShape<typeof ReceiptInputSchema>, '$typeName'>;
export type FailureWish = Pick<
  MessageInitShape<typeof FailActionRequestSchema>,
  'detail' | 'resultDigest' | 'retryable'
>;

/**
 * A registered worker at work: leases, and moves on what it has leased. A call whose answer is lost is sent again exactly as
 * it was, with one exception: a dispatch is begun once, and after a lost answer only observing is safe.
 */
export class WorkerSession {
  readonly actions: ServiceClient<(typeof ActionService)['method']>;

  constructor(
    readonly channel: Channel,
    readonly registration: Pick<RegistrationSpec, 'registrationId' | 'domainId' | 'spiffeId'>,
    private readonly patience: Patience = {},
  ) {
    this.actions = channel.service(ActionService);
  }

  /** Leases the next action that is ready; undefined: nothing is. */
  async leaseNext({ scope, states = [], leaseMs = LEASE_MS }: LeaseWish = {}): Promise<Held | undefined> {
    const request = {
      ...this.leaseRequest(leaseMs),
      ...(scope && { scope }),
      states: [...states],
    };
    return held(await this.exactly((options) => this.actions.leaseNext(request, options)));
  }

  /**
   * Leases the next DISPATCHED action, to observe it; undefined: there is none. A call that only ended others looked at no more
   * than those, and is followed by another.
   */
  async leaseObservation({
    scope,
    leaseMs = LEASE_MS,
  }: Omit<LeaseWish, 'states'> = {}): Promise<Held | undefined> {
    for (;;) {
      const request = { ...this.leaseRequest(leaseMs), ...(scope && { scope }) };
      const answer = await this.exactly((options) => this.actions.leaseObservation(request, options));
      const lease = held(answer);
      if (lease || answer.ended === 0) return lease;
    }
  }

  /** The action with all of its receipts, for a validator of the worker's own. */
  view(lease: Held): Promise<GetDispatchViewResponse> {
    return this.exactly((options) => this.actions.getDispatchView(named(lease), options));
  }

  /**
   * Begins the one dispatch. Send the request only after this has answered; whatever it throws, never send it, and never call
   * this again for the same action unless the service has refused it with a reason.
   */
  beginDispatch(lease: Held, wish: DispatchWish): Promise<BeginDispatchResponse> {
    const { observationWindowMs, authorization, ...rest } = wish;
    const { source, sourceRef, type, payload } = lease.action;
    return this.actions.beginDispatch({
      ...named(lease),
      ...{ source, sourceRef, type, payload },
      ...rest,
      ...authorization,
      observationWindow: durationFromMs(observationWindowMs),
    });
  }

  /** Journals an observation before it is made; without one in the answer the action has ended. */
  beginObservation(lease: Held): Promise<BeginObservationResponse> {
    const { executionDigest } = lease.action;
    const request = { ...named(lease), requestId: randomUUID(), executionDigest };
    return this.exactly((options) => this.actions.beginObservation(request, options));
  }

  /** Lets a DISPATCHED action go until later. @param observationNumber of the last observation; 0: there was none */
  async deferObservation(lease: Held, observationNumber: number, delayMs: number): Promise<Action> {
    const { executionDigest } = lease.action;
    const request = { ...named(lease), executionDigest, observationNumber, delay: durationFromMs(delayMs) };
    const answer = await this.exactly((options) => this.actions.deferObservation(request, options));
    return shown(answer.action);
  }

  /** Lets a GATED, ACCEPTED or VERIFIED action go until later. */
  async defer(lease: Held, delayMs: number): Promise<Action> {
    const request = { ...named(lease), delay: durationFromMs(delayMs) };
    const answer = await this.exactly((options) => this.actions.deferLeased(request, options));
    return shown(answer.action);
  }

  /** Records a general receipt; it needs no lease, but to have had one. */
  addReceipt({ action }: Held, receipt: ReceiptWish): Promise<AddReceiptResponse> {
    const request = { actionId: action.actionId, receipt };
    return this.exactly((options) => this.actions.addReceipt(request, options));
  }

  accept(lease: Held, receipt: ReceiptWish): Promise<AcceptActionResponse> {
    const request = { ...named(lease), receipt };
    return this.exactly((options) => this.actions.acceptAction(request, options));
  }

  verify(
    lease: Held,
    witnessReceiptKeys: readonly string[],
    receipt?: ReceiptWish,
  ): Promise<VerifyActionResponse> {
    const request = {
      ...named(lease),
      witnessReceiptKeys: [...witnessReceiptKeys],
      ...(receipt && { receipt }),
    };
    return this.exactly((options) => this.actions.verifyAction(request, options));
  }

  async complete(lease: Held, resultDigest: Uint8Array<ArrayBuffer>): Promise<Action> {
    const request = { ...named(lease), resultDigest };
    const answer = await this.exactly((options) => this.actions.completeAction(request, options));
    return shown(answer.action);
  }

  async fail(lease: Held, wish: FailureWish): Promise<Action> {
    const request = { ...named(lease), ...wish };
    const answer = await this.exactly((options) => this.actions.failAction(request, options));
    return shown(answer.action);
  }

  private leaseRequest(leaseMs: number) {
    return {
      requestId: randomUUID(),
      registrationId: this.registration.registrationId,
      leaseDuration: durationFromMs(leaseMs),
    };
  }

  private exactly<Answer>(
    send: (options: { readonly timeoutMs: number }) => Promise<Answer>,
  ): Promise<Answer> {
    return sendExactly(send, undefined, this.patience);
  }
}

function named({ action, lease }: Held) {
  return { actionId: action.actionId, leaseToken: lease.leaseToken };
}

function held(answer: {
  readonly action?: Action | undefined;
  readonly lease?: ActionLease | undefined;
}): Held | undefined {
  const { action, lease } = answer;
  return action && lease && { action, lease };
}

function shown(action: Action | undefined): Action {
  if (!action) throw new Error('the service answered without an action');
  return action;
}
