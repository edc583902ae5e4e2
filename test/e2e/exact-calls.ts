import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { Channel } from '../../src/cli/client/service-client.js';
import { digest, type WorkloadSession } from '../../src/cli/client/workload-session.js';
import {
  DEMO_ACTION,
  DEMO_DATA_CLASS,
  DEMO_HARNESS,
  DEMO_INPUT_SOURCE,
  DEMO_PRINCIPAL,
  DEMO_SINK,
} from '../../src/cli/demo/set-up-domain.js';
import { AdminService } from '../../src/gen/surety/authority/v1/admin_service_pb.js';
import { EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import {
  EffectService,
  type ReserveEffectRequestSchema,
} from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { ACME, type E2eWorld, EXECUTOR_A, HARNESS, OPERATOR } from '../support/e2e-world.js';
import type { ServiceProcess } from '../support/service-process.js';

/** What a call answers with, as far as an exact repeat must answer the same. */
export interface Answer {
  readonly duplicate: boolean;
  /** Ids, fences, positions and hashes of the first answer. */
  readonly result: Readonly<Record<string, unknown>>;
}

/** One call with all its bytes, to be sent to any replica and again. */
export interface ExactCall {
  /**
   * @param timeoutMs the caller's patience; the client's own unless given
   * @param signal gives the call up
   */
  send(service: ServiceProcess, timeoutMs?: number, signal?: AbortSignal): Promise<Answer>;
}

/** The kinds of commands that are sent, as `SURETY_FAULT` names them. */
export type CallKind = 'effect.reserve' | 'effect.start' | 'effect.acknowledge' | 'execute_command';

/** Makes calls that were never sent; what each of them needs is there already. */
export class ExactCalls {
  private grantId: string | undefined;

  constructor(
    private readonly world: E2eWorld,
    private readonly executor: WorkloadSession,
  ) {}

  make(kind: CallKind): Promise<ExactCall> {
    if (kind === 'effect.reserve') return this.reserve();
    if (kind === 'effect.start') return this.start();
    if (kind === 'effect.acknowledge') return this.acknowledge();
    return this.executeCommand();
  }

  /** A reservation for an event of its own, all under one grant. */
  async reserve(): Promise<ExactCall> {
    const eventId = await this.world.publish();
    const request: MessageInitShape<typeof ReserveEffectRequestSchema> = {
      eventId,
      grantId: await this.grant(),
      action: DEMO_ACTION,
      resource: 'order-1184',
      inputSource: DEMO_INPUT_SOURCE,
      outputSink: DEMO_SINK,
      dataClass: DEMO_DATA_CLASS,
      request: { case: 'requestDigest', value: digest(eventId) },
    };
    return {
      send: (service, timeoutMs, signal) =>
        this.over(service, HARNESS, async (channel) => {
          const options = { ...within(timeoutMs), ...(signal && { signal }) };
          const reply = await channel.service(EffectService).reserveEffect(request, options);
          const { duplicate, currentState: _, ...result } = reply;
          return { duplicate, result };
        }),
    };
  }

  private async start(): Promise<ExactCall> {
    const { effect, attemptId } = await this.effectIn(EffectState.PREPARED);
    const request = await this.executor.start(effect, attemptId, await this.world.now());
    return {
      send: (service, timeoutMs) =>
        this.over(service, EXECUTOR_A, async (channel) =>
          answerOf(await channel.service(EffectService).startExecution(request, within(timeoutMs))),
        ),
    };
  }

  private async acknowledge(): Promise<ExactCall> {
    const { effect, attemptId } = await this.effectIn(EffectState.EXECUTING);
    const request = await this.executor.acknowledge(effect, EffectState.SUCCEEDED, {
      attemptId,
      receiptId: `receipt-${effect.effectId}`,
      receipt: 'refunded',
      observedTime: timestampFromMs(await this.world.now()),
    });
    return {
      send: (service, timeoutMs) =>
        this.over(service, EXECUTOR_A, async (channel) =>
          answerOf(await channel.service(EffectService).acknowledgeTerminal(request, within(timeoutMs))),
        ),
    };
  }

  private async executeCommand(): Promise<ExactCall> {
    const grantId = `grant-${randomUUID()}`;
    const grant = {
      grantId,
      principalId: DEMO_PRINCIPAL,
      harnessId: DEMO_HARNESS,
      actions: [DEMO_ACTION],
      resources: ['order-1184'],
      inputSources: [DEMO_INPUT_SOURCE],
      outputSinks: [DEMO_SINK],
      dataClasses: [DEMO_DATA_CLASS],
      maxUses: 1n,
      expireTime: timestampFromMs((await this.world.now()) + 86_400_000),
    };
    const commandJws = await this.world.admin.sign(ACME, { case: 'createGrant', value: { grant } }, 'a test');
    return {
      send: (service, timeoutMs) =>
        this.over(service, OPERATOR, async (channel) => {
          const { duplicate, result } = await channel
            .service(AdminService)
            .executeCommand({ commandJws }, within(timeoutMs));
          return { duplicate, result: { ...result } };
        }),
    };
  }

  private async effectIn(state: EffectState): ReturnType<E2eWorld['effectIn']> {
    return this.world.effectIn(state, this.executor, { grantId: await this.grant() });
  }

  private async grant(): Promise<string> {
    return (this.grantId ??= await this.world.grant());
  }

  /** A connection of its own for each call: one to a process that died would try again for as long as it lives. */
  private async over(
    service: ServiceProcess,
    spiffeId: string,
    call: (channel: Channel) => Promise<Answer>,
  ): Promise<Answer> {
    const channel = openChannel(this.world, spiffeId, service);
    try {
      return await call(channel);
    } finally {
      channel.close();
    }
  }
}

/** A connection that its user closes. */
export function openChannel(world: E2eWorld, spiffeId: string, service: ServiceProcess): Channel {
  const files = world.layout.callers[spiffeId];
  if (!files) throw new Error(`no certificate of ${spiffeId}`);
  return new Channel(service.target, {
    certificate: readFileSync(files.cert),
    key: readFileSync(files.key),
    roots: readFileSync(world.layout.serviceBundle),
  });
}

function within(timeoutMs: number | undefined): { timeoutMs?: number } {
  return timeoutMs === undefined ? {} : { timeoutMs };
}

function answerOf(reply: { readonly result?: { readonly duplicate: boolean } | undefined }): Answer {
  const { duplicate = false, ...result } = reply.result ?? {};
  return { duplicate, result };
}
