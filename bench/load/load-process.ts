import { setImmediate as turn } from 'node:timers/promises';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { Channel } from '../../src/cli/client/service-client.js';
import type { TransitionRequest, WorkloadSession } from '../../src/cli/client/workload-session.js';
import { Health, HealthCheckRequestSchema } from '../../src/gen/grpc/health/v1/health_pb.js';
import type { Effect } from '../../src/gen/surety/effect/v1/effect_pb.js';
import {
  EffectService,
  type ReserveEffectRequest,
  StartExecutionRequestSchema,
} from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { RegistrationSpecSchema } from '../../src/gen/surety/identity/v1/workload_pb.js';
import { importSigningKey } from '../../src/identity/sign.js';
import type { Measured } from '../measure/measured.js';
import { pathOf } from './call-path.js';
import { CheapSession } from './cheap-session.js';
import { askAgain, explain } from './explain.js';
import { type EncodedCall, encodeCall, headerBlock } from './frames.js';
import { GrpcConnection } from './grpc-connection.js';
import { type LifeLane, runLives } from './lives.js';
import type {
  EmptyOrder,
  IdentityText,
  LifeOrder,
  LoadOrder,
  OpenOrder,
  RegistrationText,
  ReserveOrder,
  StartOrder,
} from './messages.js';
import { encodeReserve, reservedEffect, reserveRequests } from './reserve-calls.js';
import { type CallSource, runLoad } from './run-load.js';

/** Signing is work of both cores' crypto threads; more at once would only queue. */
const SIGN_AT_ONCE = 256;

/** One connection of the executor for each harness's, so that both sides of B5 have as many. */
interface Open {
  readonly target: string;
  readonly harnesses: readonly GrpcConnection[];
  readonly executors: readonly GrpcConnection[];
  readonly session: CheapSession;
  /** Ask again, in words, what a connection of the same place was refused. */
  readonly harnessChannels: readonly Channel[];
  readonly executorChannel: Channel;
}

/** Makes the load, in a process of its own. What is dear is done before a round begins. */
export class LoadProcess {
  private open: Open | undefined;
  private kept: Effect[] = [];

  run(order: LoadOrder): Promise<Measured | undefined> {
    switch (order.kind) {
      case 'open':
        return this.connect(order);
      case 'empty':
        return this.empty(order);
      case 'reserve':
        return this.reserve(order);
      case 'start':
        return this.start(order);
      case 'life':
        return this.live(order);
    }
  }

  close(): void {
    if (!this.open) return;
    const { harnesses, executors, harnessChannels, executorChannel } = this.open;
    for (const each of [...harnesses, ...executors, ...harnessChannels, executorChannel]) each.close();
    this.open = undefined;
  }

  private async connect({ target, harnesses, executor, registration }: OpenOrder): Promise<undefined> {
    this.close();
    this.kept = [];
    const executorChannel = new Channel(target, identityOf(executor));
    this.open = {
      target,
      harnesses: await Promise.all(harnesses.map((each) => GrpcConnection.open(target, identityOf(each)))),
      executors: await Promise.all(harnesses.map(() => GrpcConnection.open(target, identityOf(executor)))),
      session: sessionOf(registration, executorChannel),
      harnessChannels: harnesses.map((each) => new Channel(target, identityOf(each))),
      executorChannel,
    };
    return undefined;
  }

  private empty(order: EmptyOrder): Promise<Measured> {
    const { harnesses, harnessChannels, target } = this.opened();
    const method = Health.method.check;
    const request = create(HealthCheckRequestSchema);
    const message = toBinary(HealthCheckRequestSchema, request);
    const block = headerBlock(pathOf(method), target);
    // One buffer for each caller: a call that is still on its way out must not get the stream of the next one.
    const sources = harnesses.map((connection) => ({
      connection,
      next: () => ({ call: encodeCall(block, message), index: 0 }),
    }));
    return explain(runLoad(sources, order), (source) => askAgain(harnessChannels[source], method, request));
  }

  private async reserve(order: ReserveOrder): Promise<Measured> {
    const { harnesses, harnessChannels, target } = this.opened();
    const requests = reserveRequests(order);
    const sources = harnesses.map((connection, i) =>
      sourceOf(connection, encodeReserve(requests[i] ?? [], target)),
    );
    const replies: { request: ReserveEffectRequest; reply: Buffer }[] = [];
    const keep = (source: number, index: number, reply: Buffer): void => {
      replies.push({ request: requests[source]?.[index] as ReserveEffectRequest, reply });
    };
    await turn();
    const measured = await explain(runLoad(sources, order, order.keep ? keep : undefined), (source, index) =>
      askAgain(harnessChannels[source], EffectService.method.reserveEffect, requests[source]?.[index]),
    );
    this.kept = replies.map(({ request, reply }) => reservedEffect(request, reply));
    return measured;
  }

  private async start(order: StartOrder): Promise<Measured> {
    const { executors, executorChannel, session, target } = this.opened();
    const effects = this.kept.splice(0);
    const requests = await signAll(session, effects);
    const method = EffectService.method.startExecution;
    const block = headerBlock(pathOf(method), target);
    const calls = requests.map((request) => {
      const message = create(StartExecutionRequestSchema, request);
      return encodeCall(block, toBinary(StartExecutionRequestSchema, message));
    });
    const lanes = executors.map((connection, i) => {
      const own = calls.map((_, index) => index).filter((index) => index % executors.length === i);
      return {
        own,
        source: sourceOf(
          connection,
          own.map((index) => calls[index] as EncodedCall),
        ),
      };
    });
    await turn();
    return explain(
      runLoad(
        lanes.map(({ source }) => source),
        order,
      ),
      (source, index) => askAgain(executorChannel, method, requests[lanes[source]?.own[index] ?? 0]),
    );
  }

  private async live(order: LifeOrder): Promise<Measured> {
    const { harnesses, executors, harnessChannels, executorChannel, session, target } = this.opened();
    const requests = reserveRequests(order);
    const lanes = harnesses.map((connection, i): LifeLane => {
      const own = requests[i] ?? [];
      return {
        harness: { connection, channel: harnessChannels[i] as Channel },
        executor: { connection: executors[i] as GrpcConnection, channel: executorChannel },
        requests: own,
        reservations: sourceOf(connection, encodeReserve(own, target)),
      };
    });
    await turn();
    return runLives(lanes, session, target, order);
  }

  private opened(): Open {
    if (!this.open) throw new Error('nothing is connected');
    return this.open;
  }
}

function sourceOf(connection: GrpcConnection, calls: readonly EncodedCall[]): CallSource {
  let at = 0;
  return {
    connection,
    next() {
      const index = at;
      const call = calls[index];
      if (!call) return undefined;
      at += 1;
      return { call, index };
    },
  };
}

function identityOf({ certificate, key, roots }: IdentityText) {
  return { certificate: Buffer.from(certificate), key: Buffer.from(key), roots: Buffer.from(roots) };
}

function sessionOf({ spec, signingKey, audience, incarnation }: RegistrationText, channel: Channel) {
  const registration = fromBinary(RegistrationSpecSchema, Buffer.from(spec, 'base64'));
  const service = { audience, incarnation: BigInt(incarnation) };
  return new CheapSession(channel, registration, importSigningKey(signingKey), service);
}

async function signAll(session: WorkloadSession, effects: readonly Effect[]): Promise<TransitionRequest[]> {
  const requests: TransitionRequest[] = [];
  for (let at = 0; at < effects.length; at += SIGN_AT_ONCE) {
    const batch = effects.slice(at, at + SIGN_AT_ONCE);
    requests.push(
      ...(await Promise.all(batch.map((effect) => session.start(effect, `attempt-${effect.effectId}`)))),
    );
  }
  return requests;
}
