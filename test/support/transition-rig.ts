import { randomBytes, randomUUID } from 'node:crypto';
import {
  create,
  type DescMessage,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf';
import { type Timestamp, TimestampSchema } from '@bufbuild/protobuf/wkt';
import { possession } from '../../src/cli/client/register-workload.js';
import type { Channel } from '../../src/cli/client/service-client.js';
import type { SuretyError } from '../../src/cli/client/surety-error.js';
import { digest, WorkloadSession } from '../../src/cli/client/workload-session.js';
import { DEMO_AUTHORITY_SYSTEM } from '../../src/cli/demo/set-up-domain.js';
import { type AuditEntry, AuditEntrySchema } from '../../src/gen/surety/audit/v1/entry_pb.js';
import { EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { EffectService, type TransitionResult } from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import {
  ExecutionEvidenceSchema,
  ReconciliationEvidenceSchema,
  TerminalEvidenceSchema,
  UncertaintyEvidenceSchema,
  UncertaintyReason,
} from '../../src/gen/surety/effect/v1/evidence_pb.js';
import { TransitionStatementSchema } from '../../src/gen/surety/effect/v1/proof_pb.js';
import { RegistrationSpecSchema } from '../../src/gen/surety/identity/v1/workload_pb.js';
import type { SigningKey } from '../../src/identity/sign.js';
import { microsToTimestamp } from '../../src/identity/timestamp.js';
import { ACME, type E2eWorld, openE2eWorld, refusedWith, type Reservation } from './e2e-world.js';
import { type ProofInit, signedAs } from './signed-as.js';
import { StillClock } from './still-clock.js';

/** The four transitions by workloads. */
export type Rpc = 'start' | 'markUnknown' | 'acknowledge' | 'reconcile';

/** An effect, as much of it as a statement and its evidence name. */
export interface Target {
  readonly effectId: string;
  readonly eventId: string;
  readonly grantId: string;
  readonly fence: bigint;
  readonly requestDigest: Uint8Array<ArrayBuffer>;
  readonly attemptId: string;
}

type Init<Schema extends DescMessage> = Omit<MessageInitShape<Schema>, '$typeName' | '$unknown'>;
export type StatementInit = Partial<Init<typeof TransitionStatementSchema>>;
export type SpecInit = Partial<Init<typeof RegistrationSpecSchema>>;

/** What of a request is to be another than a good client would send. */
export interface Wish {
  /** Of AcknowledgeTerminal and Reconcile; SUCCEEDED unless given. */
  readonly to?: EffectState;
  /** Fields of the evidence. */
  readonly evidence?: Readonly<Record<string, unknown>>;
  /** The evidence as it is, for a repeat or for bytes that are no evidence. */
  readonly bytes?: Uint8Array<ArrayBuffer>;
  readonly statement?: StatementInit;
  readonly key?: SigningKey;
  readonly encoding?: 'jws' | 'dsse';
}

/** What the four RPCs take, with the statement that was signed. */
export interface Request {
  readonly effectId: string;
  readonly evidence: Uint8Array<ArrayBuffer>;
  readonly proof: ProofInit;
  readonly statement: Uint8Array<ArrayBuffer>;
}

/** What changes with every transition, and with nothing else. */
export interface Traces {
  readonly seq: string;
  readonly chain: string;
  readonly nonces: number;
  readonly receipts: number;
}

const FROM: Readonly<Record<Rpc, EffectState>> = {
  start: EffectState.PREPARED,
  markUnknown: EffectState.EXECUTING,
  acknowledge: EffectState.EXECUTING,
  reconcile: EffectState.UNKNOWN,
};

/** A time as the contract has it. */
export function time(micros: bigint): Timestamp {
  return create(TimestampSchema, microsToTimestamp(micros));
}

/** A world whose clock stands still, with one event and one grant for all effects, and requests that break what they are told to. */
export class TransitionRig {
  private constructor(
    readonly world: E2eWorld,
    readonly clock: StillClock,
    private eventId: string,
    private grantId: string,
  ) {}

  static async open(options: { globex?: boolean } = {}): Promise<TransitionRig> {
    let clock: StillClock | undefined;
    const world = await openE2eWorld({
      ...options,
      // The sweeps run where the clock is advanced, and only there.
      env: { SURETY_SWEEP_INTERVAL_MS: '3600000' },
      prepare: async (sql) => void (clock = await StillClock.install(sql)),
    });
    return new TransitionRig(world, clock as StillClock, await world.publish(), await world.grant());
  }

  get now(): bigint {
    return this.clock.now;
  }

  /** Goes on with a new event and grant, where those before belong to a policy revision that is over. */
  async renewAuthority(): Promise<void> {
    this.eventId = await this.world.publish();
    this.grantId = await this.world.grant();
  }

  /** Moves the clock by microseconds; no sweep runs. */
  move(micros: bigint): Promise<void> {
    return this.clock.move(micros);
  }

  /** Moves the clock, and lets the sweeps do what is due by then. */
  async advance(ms: number): Promise<void> {
    await this.world.advance(ms);
    this.clock.wasMoved(BigInt(ms) * 1000n);
  }

  /** Reserves an effect of its own. */
  async prepared(overrides: Reservation = {}): Promise<Target> {
    const name = randomUUID();
    const wanted = {
      eventId: this.eventId,
      grantId: this.grantId,
      effectKey: `order:${name}`,
      request: { case: 'requestDigest' as const, value: digest(name) },
      ...overrides,
    };
    const { effectId, fence } = await this.world.reserve(wanted);
    const { eventId, grantId, request } = wanted;
    const attemptId = `attempt-${name}`;
    return {
      effectId,
      fence,
      eventId,
      grantId,
      requestDigest: request.value as Target['requestDigest'],
      attemptId,
    };
  }

  /** Reserves an effect and starts it. */
  async executing(executor: WorkloadSession, overrides: Reservation = {}): Promise<Target> {
    const target = await this.prepared(overrides);
    await this.done('start', executor, target);
    return target;
  }

  /** Reserves an effect, starts it and loses its answer. */
  async unknown(executor: WorkloadSession, overrides: Reservation = {}): Promise<Target> {
    const target = await this.executing(executor, overrides);
    await this.done('markUnknown', executor, target);
    return target;
  }

  /** A request of a workload for a transition, as a good client makes it but for the wish. */
  request(rpc: Rpc, session: WorkloadSession, target: Target, wish: Wish = {}): Request {
    const to = wish.to ?? (rpc === 'start' ? EffectState.EXECUTING : EffectState.SUCCEEDED);
    const state = rpc === 'markUnknown' ? EffectState.UNKNOWN : to;
    const evidence = wish.bytes ?? this.evidence(rpc, target, state, wish.evidence);
    const statement = encode(TransitionStatementSchema, {
      ...statementOf(session, target),
      fromState: FROM[rpc],
      toState: state,
      evidenceDigest: digest(evidence),
      issuedTime: time(this.now),
      nonce: randomBytes(24).toString('base64url'),
      ...wish.statement,
    });
    const proof = signedAs(wish.encoding ?? 'jws', statement, wish.key ?? session.key);
    return { effectId: target.effectId, evidence, proof, statement };
  }

  /** Exact bytes of good evidence, but for these fields. */
  evidence(
    rpc: Rpc,
    { attemptId, effectId, requestDigest }: Target,
    to: EffectState,
    fields: Readonly<Record<string, unknown>> = {},
  ): Uint8Array<ArrayBuffer> {
    const observedTime = time(this.now);
    switch (rpc) {
      case 'start': {
        const executorInstanceId = `instance-of-${attemptId}`;
        const startTime = observedTime;
        return encode(ExecutionEvidenceSchema, {
          attemptId,
          executorInstanceId,
          requestDigest,
          startTime,
          ...fields,
        });
      }
      case 'markUnknown': {
        const observationDigest = digest('nothing came back');
        const reason = UncertaintyReason.TIMEOUT;
        return encode(UncertaintyEvidenceSchema, {
          attemptId,
          reason,
          observationDigest,
          observedTime,
          ...fields,
        });
      }
      case 'acknowledge':
        return encode(TerminalEvidenceSchema, {
          attemptId,
          externalReceiptId: `receipt-${effectId}`,
          externalReceiptDigest: digest('what the bank answered'),
          observedTime,
          ...fields,
        });
      case 'reconcile':
        return encode(ReconciliationEvidenceSchema, {
          attemptId,
          authoritySystemId: DEMO_AUTHORITY_SYSTEM,
          queryId: `query-${effectId}`,
          queryResponseDigest: digest('what the ledger says'),
          observedTime,
          terminalState: to,
          ...fields,
        });
    }
  }

  /** Sends a request over a connection. */
  async send(rpc: Rpc, request: Request, channel: Channel): Promise<TransitionResult> {
    const service = channel.service(EffectService);
    const { effectId, evidence, proof } = request;
    const message = { effectId, evidence, proof };
    const { result } = await {
      start: () => service.startExecution(message),
      markUnknown: () => service.markUnknown(message),
      acknowledge: () => service.acknowledgeTerminal(message),
      reconcile: () => service.reconcile(message),
    }[rpc]();
    if (!result) throw new Error('the service answered without a result');
    return result;
  }

  /** Makes a transition. */
  done(rpc: Rpc, session: WorkloadSession, target: Target, wish: Wish = {}): Promise<TransitionResult> {
    return this.send(rpc, this.request(rpc, session, target, wish), session.channel);
  }

  /** Tries a transition that is refused, and says how. */
  refused(rpc: Rpc, session: WorkloadSession, target: Target, wish: Wish = {}): Promise<SuretyError> {
    return refusedWith(this.done(rpc, session, target, wish));
  }

  /** Renews a registration by command, as a restarted process would ask an operator to. */
  async renewed(
    session: WorkloadSession,
    changes: SpecInit = {},
    key: SigningKey = session.key,
  ): Promise<WorkloadSession> {
    const { channel, service, registration, clock } = session;
    const spec = create(RegistrationSpecSchema, {
      ...registration,
      credentialEpoch: registration.credentialEpoch + 1n,
      proofKeyJwk: key.publicKey.jwk,
      issuedTime: time(this.now),
      expireTime: time(this.now + 3_600_000_000n),
      ...changes,
    } as MessageInitShape<typeof RegistrationSpecSchema>);
    const possessionJws = await possession(spec, service, key);
    await this.world.admin.execute(ACME, { case: 'renewWorkload', value: { possessionJws } }, 'renew');
    return new WorkloadSession(channel, spec, key, service, clock);
  }

  /** The entry of the log at a position. */
  async entry(seq: bigint): Promise<AuditEntry> {
    const { rows } = await this.world.sql.query(
      'SELECT entry FROM audit_entries WHERE domain_id = $1 AND seq = $2',
      [ACME, seq.toString()],
    );
    return fromBinary(AuditEntrySchema, rows[0].entry);
  }

  /** The entry that the domain's log ends with. */
  async lastEntry(): Promise<AuditEntry> {
    return this.entry(BigInt((await this.traces()).seq));
  }

  /** What the domain has of transitions: the same before and after whatever leaves no trace. */
  async traces(): Promise<Traces> {
    const { rows } = await this.world.sql.query(
      `SELECT seq::text, encode(chain_hash, 'hex') AS chain,
        (SELECT count(*)::int FROM transition_nonces WHERE domain_id = $1) AS nonces,
        (SELECT count(*)::int FROM transitions WHERE domain_id = $1) AS receipts
       FROM domain_heads WHERE domain_id = $1`,
      [ACME],
    );
    return rows[0];
  }

  /** Runs SQL as the superuser with the triggers asleep: what nobody but a thief of the database can do. */
  async tamper(text: string, values: readonly unknown[] = []): Promise<void> {
    const { sql } = this.world;
    await sql.query('SET session_replication_role = replica');
    try {
      await sql.query(text, [...values]);
    } finally {
      await sql.query('SET session_replication_role = DEFAULT');
    }
  }

  close(): Promise<void> {
    return this.world.close();
  }
}

/** A process that was started anew: another process and session under the same registration. */
export function restarted(now: bigint): SpecInit {
  return { processId: randomUUID(), processStartTime: time(now), sessionId: `session-${randomUUID()}` };
}

/** Bytes as they are compared and shown. */
export function hex(bytes: Uint8Array | undefined): string {
  return Buffer.from(bytes ?? []).toString('hex');
}

function statementOf(session: WorkloadSession, target: Target): StatementInit {
  const { registration, service } = session;
  const { effectId, eventId, grantId, fence } = target;
  return {
    ...service,
    domainId: registration.domainId,
    registrationId: registration.registrationId,
    workloadId: registration.workloadId,
    role: registration.role,
    processId: registration.processId,
    ...(registration.processStartTime && { processStartTime: registration.processStartTime }),
    sessionId: registration.sessionId,
    credentialEpoch: registration.credentialEpoch,
    revocationEpoch: registration.revocationEpoch,
    parentEventId: eventId,
    grantId,
    effectId,
    fence,
  };
}

function encode<Schema extends DescMessage>(
  schema: Schema,
  fields: Readonly<Record<string, unknown>>,
): Uint8Array<ArrayBuffer> {
  const message: MessageShape<Schema> = create(schema, fields as MessageInitShape<Schema>);
  return new Uint8Array(toBinary(schema, message));
}
