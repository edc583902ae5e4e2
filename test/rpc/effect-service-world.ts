import { randomBytes } from 'node:crypto';
import {
  create,
  type DescMessage,
  fromBinary,
  type Message,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf';
import type { Effect } from '../../src/gen/surety/effect/v1/effect_pb.js';
import {
  AcknowledgeTerminalRequestSchema,
  AcknowledgeTerminalResponseSchema,
  CancelEffectRequestSchema,
  CancelEffectResponseSchema,
  CheckRetryRequestSchema,
  CheckRetryResponseSchema,
  EffectService,
  GetEffectHistoryRequestSchema,
  GetEffectHistoryResponseSchema,
  GetEffectRequestSchema,
  GetEffectResponseSchema,
  ListEffectsRequestSchema,
  ListEffectsResponseSchema,
  MarkUnknownRequestSchema,
  MarkUnknownResponseSchema,
  ReconcileRequestSchema,
  ReconcileResponseSchema,
  ReserveEffectRequestSchema,
  ReserveEffectResponseSchema,
  StartExecutionRequestSchema,
  StartExecutionResponseSchema,
  WatchEffectsRequestSchema,
  type WatchEffectsResponse,
  WatchEffectsResponseSchema,
} from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import {
  ExecutionEvidenceSchema,
  ReconciliationEvidenceSchema,
  TerminalEvidenceSchema,
  UncertaintyEvidenceSchema,
  UncertaintyReason,
} from '../../src/gen/surety/effect/v1/evidence_pb.js';
import type { TransitionProof } from '../../src/gen/surety/effect/v1/proof_pb.js';
import { createSigningKey, type SigningKey, signDsse, signTransition } from '../../src/identity/sign.js';
import { microsToTimestamp } from '../../src/identity/timestamp.js';
import type { StatementFields } from '../../src/ledger/effect/statement.js';
import { sha256 } from '../../src/ledger/encoding.js';
import type { RegistrationRow } from '../../src/ledger/identity/records.js';
import type { Refusal } from '../../src/ledger/refusal.js';
import { Refused } from '../../src/ledger/run-decision.js';
import type { Caller, CallerKind } from '../../src/ledger/types.js';
import { effectService } from '../../src/rpc/effect-service.js';
import type { CallContext, HandlerTools } from '../../src/rpc/handler.js';
import { PositionPoller } from '../../src/rpc/watch/position-poller.js';
import {
  AUDIENCE,
  DOMAIN,
  type EffectWorld,
  freshId,
  HARNESS,
  nowMicros,
  openWorld,
  publish,
  RECONCILER,
  type Replica,
  seedGrant,
  seedRegistration,
  SINK,
} from '../support/effect-world.js';
import { contextOf, handlersOf, toolsOf } from '../support/handlers.js';

/** The methods of EffectService by name, with what they take and answer on the wire. */
const METHODS = {
  reserveEffect: [ReserveEffectRequestSchema, ReserveEffectResponseSchema],
  startExecution: [StartExecutionRequestSchema, StartExecutionResponseSchema],
  markUnknown: [MarkUnknownRequestSchema, MarkUnknownResponseSchema],
  acknowledgeTerminal: [AcknowledgeTerminalRequestSchema, AcknowledgeTerminalResponseSchema],
  reconcile: [ReconcileRequestSchema, ReconcileResponseSchema],
  cancelEffect: [CancelEffectRequestSchema, CancelEffectResponseSchema],
  checkRetry: [CheckRetryRequestSchema, CheckRetryResponseSchema],
  getEffect: [GetEffectRequestSchema, GetEffectResponseSchema],
  listEffects: [ListEffectsRequestSchema, ListEffectsResponseSchema],
  getEffectHistory: [GetEffectHistoryRequestSchema, GetEffectHistoryResponseSchema],
} as const satisfies Partial<Record<keyof typeof EffectService.method, readonly [DescMessage, DescMessage]>>;
type Methods = typeof METHODS;
type Request<M extends keyof Methods> = MessageInitShape<Methods[M][0]>;
type Response<M extends keyof Methods> = MessageShape<Methods[M][1]>;

/** Somebody who calls, as what. */
export interface Peer {
  readonly caller: Caller;
  readonly kind: CallerKind;
}

/** A workload with a registration and the key to it. */
export interface Workload extends Peer {
  readonly registration: RegistrationRow;
  readonly key: SigningKey;
}

export const PLANNER: Peer = { caller: HARNESS, kind: 'harness' };

/** Effects over the handlers of EffectService, on a database of its own. */
export class ServiceWorld {
  private constructor(
    readonly world: EffectWorld,
    readonly replica: Replica,
    readonly tools: HandlerTools,
    readonly positions: PositionPoller,
  ) {}

  static async open(): Promise<ServiceWorld> {
    const world = await openWorld();
    const replica = world.replica();
    return new ServiceWorld(world, replica, toolsOf(replica), new PositionPoller(replica.reader, 10));
  }

  async close(): Promise<void> {
    this.positions.close();
    await this.world.close();
  }

  /** Calls a method; request and answer go through their encodings. */
  async call<M extends keyof Methods>(
    method: M,
    peer: Peer,
    request: Request<M>,
    over: Partial<CallContext> = {},
  ): Promise<Response<M>> {
    const [input, output] = METHODS[method];
    const handlers = handlersOf(EffectService, effectService(this.tools, this.positions));
    const handler = handlers[method] as (request: unknown, context: CallContext) => Promise<object>;
    const answer = await handler(overTheWire(input, request), contextOf(peer.caller, peer.kind, over));
    return overTheWire(output, answer) as Response<M>;
  }

  /** Watches; ends when the signal aborts. */
  async *watch(
    peer: Peer,
    request: MessageInitShape<typeof WatchEffectsRequestSchema>,
    signal: AbortSignal,
    positions = this.positions,
  ): AsyncGenerator<WatchEffectsResponse> {
    const handlers = handlersOf(EffectService, effectService(this.tools, positions));
    const context = contextOf(peer.caller, peer.kind, { signal });
    const stream = handlers.watchEffects(create(WatchEffectsRequestSchema, request), context);
    for await (const message of stream) {
      yield overTheWire(WatchEffectsResponseSchema, message) as WatchEffectsResponse;
    }
  }

  /** An operator, or an auditor, whose row lives in a domain. */
  async operator({ caller }: Peer, roles: readonly string[] = ['ADMIN'], domainId = DOMAIN): Promise<void> {
    await this.world.admin.query(
      `INSERT INTO operators (domain_id, spiffe_id, roles, status, revision) VALUES ($1, $2, $3, 'active', 1)`,
      [domainId, caller.spiffeId, roles],
    );
  }

  /** A registration with a real key, standing for the sink unless said otherwise. */
  async workload(caller: Caller, overrides: Partial<RegistrationRow> = {}): Promise<Workload> {
    const key = createSigningKey();
    const proofKeyThumbprint = key.publicKey.thumbprint;
    const registration = await seedRegistration(this.world, caller, { proofKeyThumbprint, ...overrides });
    await this.world.seed('proof_keys', [
      { thumbprint: proofKeyThumbprint, publicJwk: key.publicKey.jwk, firstSeenAt: nowMicros() },
    ]);
    return { caller, kind: caller === RECONCILER ? 'reconciler' : 'executor', registration, key };
  }

  /** A request to reserve a refund for a fresh event under a fresh grant. */
  async reservation(overrides: Request<'reserveEffect'> = {}): Promise<Request<'reserveEffect'>> {
    const grant = await seedGrant(this.world, { resources: ['order-1184', 'order-2'] });
    return {
      eventId: await publish(this.replica),
      grantId: grant.grantId,
      action: 'refund',
      resource: 'order-1184',
      inputSource: 'crm',
      outputSink: SINK,
      dataClass: 2,
      request: { case: 'requestBody', value: randomBytes(16) },
      ...overrides,
    };
  }

  /** Reserves one, and shows it as the harness sees it. */
  async reserve(overrides: Request<'reserveEffect'> = {}): Promise<Effect> {
    const { effectId } = await this.call('reserveEffect', PLANNER, await this.reservation(overrides));
    return this.show(effectId);
  }

  /** An effect as the harness sees it. */
  async show(effectId: string): Promise<Effect> {
    const { effect } = await this.call('getEffect', PLANNER, { effectId });
    if (!effect) throw new Error('no effect in the answer');
    return effect;
  }

  /** Starts an effect, and shows it. */
  async start(executor: Workload, effect: Effect): Promise<Effect> {
    await this.call('startExecution', executor, await startRequest(executor, effect));
    return this.show(effect.effectId);
  }

  /** Reserves, starts and loses the answer. */
  async lose(executor: Workload, overrides: Request<'reserveEffect'> = {}): Promise<Effect> {
    const started = await this.start(executor, await this.reserve(overrides));
    await this.call('markUnknown', executor, await unknownRequest(executor, started));
    return this.show(started.effectId);
  }

  /** Changes rows behind the service's back: the triggers stand aside, as for a superuser who means it. */
  async tamper(sql: string, parameters: readonly unknown[] = []): Promise<void> {
    const { admin } = this.world;
    await admin.query('SET session_replication_role = replica');
    await admin.query(sql, [...parameters]);
    await admin.query('SET session_replication_role = origin');
  }
}

function overTheWire(schema: DescMessage, init: object): Message {
  return fromBinary(schema, toBinary(schema, create(schema, init as never)));
}

/** How a test changes a transition. */
export interface TransitionOverrides {
  readonly statement?: Partial<StatementFields>;
  readonly encoding?: 'jws' | 'dsse';
  /** Instead of what the evidence says by itself. */
  readonly evidence?: Readonly<Record<string, unknown>>;
  /** The key that signs, where it is not the workload's. */
  readonly key?: SigningKey;
}

interface SentTransition {
  readonly effectId: string;
  readonly evidence: Uint8Array<ArrayBuffer>;
  readonly proof: TransitionProof;
}

export function startRequest(executor: Workload, effect: Effect, over: TransitionOverrides = {}) {
  const evidence = toBinary(
    ExecutionEvidenceSchema,
    create(ExecutionEvidenceSchema, {
      attemptId: `attempt-of-${effect.effectId}`,
      executorInstanceId: freshId('instance'),
      requestDigest: effect.requestDigest,
      startTime: now(),
      ...over.evidence,
    }),
  );
  return transition(executor, effect, evidence, 'EXECUTING', over);
}

export function unknownRequest(executor: Workload, effect: Effect, over: TransitionOverrides = {}) {
  const evidence = toBinary(
    UncertaintyEvidenceSchema,
    create(UncertaintyEvidenceSchema, {
      attemptId: `attempt-of-${effect.effectId}`,
      reason: UncertaintyReason.TIMEOUT,
      observationDigest: sha256('nothing'),
      observedTime: now(),
      ...over.evidence,
    }),
  );
  return transition(executor, effect, evidence, 'UNKNOWN', over);
}

export function acknowledgeRequest(
  executor: Workload,
  effect: Effect,
  to: 'SUCCEEDED' | 'FAILED' | 'CANCELLED',
  over: TransitionOverrides = {},
) {
  const evidence = toBinary(
    TerminalEvidenceSchema,
    create(TerminalEvidenceSchema, {
      attemptId: `attempt-of-${effect.effectId}`,
      externalReceiptId: 'receipt-4711',
      externalReceiptDigest: sha256('receipt'),
      observedTime: now(),
      ...over.evidence,
    }),
  );
  return transition(executor, effect, evidence, to, over);
}

export function reconcileRequest(
  reconciler: Workload,
  effect: Effect,
  to: 'SUCCEEDED' | 'FAILED' | 'CANCELLED',
  over: TransitionOverrides = {},
) {
  const evidence = toBinary(
    ReconciliationEvidenceSchema,
    create(ReconciliationEvidenceSchema, {
      attemptId: `attempt-of-${effect.effectId}`,
      authoritySystemId: 'bank-ledger',
      queryId: 'query-17',
      queryResponseDigest: sha256('answer'),
      observedTime: microsToTimestamp(nowMicros() + 1_000_000n) as never,
      terminalState: EffectState[to],
      ...over.evidence,
    }),
  );
  return transition(reconciler, effect, evidence, to, over);
}

async function transition(
  workload: Workload,
  effect: Effect,
  evidence: Uint8Array<ArrayBuffer>,
  to: StatementFields['toState'],
  over: TransitionOverrides,
): Promise<SentTransition> {
  const { registration } = workload;
  const statement: StatementFields = {
    audience: AUDIENCE,
    incarnation: 1n,
    domainId: DOMAIN,
    registrationId: registration.registrationId,
    workloadId: registration.workloadId,
    role: registration.role,
    processId: registration.processId,
    processStart: registration.processStartTime,
    sessionId: registration.sessionId,
    credentialEpoch: registration.credentialEpoch,
    revocationEpoch: registration.revocationEpoch,
    parentEventId: effect.eventId,
    grantId: effect.grantId,
    effectId: effect.effectId,
    fence: effect.fence,
    fromState: EffectState[effect.state] as StatementFields['fromState'],
    toState: to,
    evidenceDigest: sha256(evidence),
    issuedAt: nowMicros(),
    nonce: randomBytes(24).toString('base64url'),
    ...over.statement,
  };
  const key = over.key ?? workload.key;
  const encoding =
    over.encoding === 'dsse'
      ? { case: 'dsse', value: signDsse(statement, key) }
      : { case: 'jws', value: await signTransition(statement, key) };
  return { effectId: effect.effectId, evidence, proof: { encoding } as unknown as TransitionProof };
}

/** The clock of this machine, as a message. */
export function now() {
  return microsToTimestamp(nowMicros()) as never;
}

/** Why a call was refused. */
export async function refusalOf(call: Promise<unknown>): Promise<Refusal> {
  const outcome = await call.then(
    () => undefined,
    (error: unknown) => error,
  );
  if (outcome instanceof Refused) return outcome.refusal;
  throw new Error('not refused', { cause: outcome });
}

/** The paths of the fields that break rules. */
export async function violationsOf(call: Promise<unknown>): Promise<string[]> {
  const { reason, violations } = await refusalOf(call);
  if (reason !== 'FIELD_INVALID') throw new Error(`refused for ${reason}`);
  return (violations ?? []).map(({ field }) => field).sort();
}
