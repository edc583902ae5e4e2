import { create, type DescMessage, type DescMethodUnary, toBinary } from '@bufbuild/protobuf';
import type { Channel } from '../../src/cli/client/service-client.js';
import type { TransitionRequest, WorkloadSession } from '../../src/cli/client/workload-session.js';
import { type Effect, EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import {
  EffectService,
  type ReserveEffectRequest,
} from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { type Measured, measuredOf } from '../measure/measured.js';
import { pathOf } from './call-path.js';
import { askAgain } from './explain.js';
import { type EncodedCall, encodeCall, headerBlock } from './frames.js';
import type { GrpcConnection } from './grpc-connection.js';
import type { RoundPlan } from './messages.js';
import { reservedEffect } from './reserve-calls.js';
import type { CallSource } from './run-load.js';

const METHOD = EffectService.method;
/** Proofs that are signed once more after a round, alone, to say what a client spends on them. */
const SAMPLE = 200;

/** One caller's place: its connection, and the ordinary client for when something is refused. */
interface Place {
  readonly connection: GrpcConnection;
  readonly channel: Channel;
}

/** A harness and its executor, and what they are to do. */
export interface LifeLane {
  readonly harness: Place;
  readonly executor: Place;
  readonly requests: readonly ReserveEffectRequest[];
  /** The same, encoded. */
  readonly reservations: CallSource;
}

/**
 * Whole lives, one after the other by each caller: reserve, start, acknowledge. Both proofs name the effect and the fence
 * that the reservation was answered with, so they are signed during the round; reservations were encoded before it.
 *
 * @throws Error where a call is not served, with the service's reason
 */
export async function runLives(
  lanes: readonly LifeLane[],
  session: WorkloadSession,
  authority: string,
  { callers, seconds }: RoundPlan,
): Promise<Measured> {
  const life = new Life(session, authority);
  const latencies: number[] = [];
  const usage = process.cpuUsage();
  const started = performance.now();
  const deadline = started + seconds * 1000;
  let last = started;
  const caller = async (lane: LifeLane): Promise<void> => {
    for (;;) {
      const begun = performance.now();
      const one = begun < deadline ? lane.reservations.next() : undefined;
      if (!one) return;
      await life.run(lane, one.call, lane.requests[one.index] as ReserveEffectRequest);
      last = performance.now();
      latencies.push(last - begun);
    }
  };
  await Promise.all(Array.from({ length: callers }, (_, i) => caller(lanes[i % lanes.length] as LifeLane)));
  if (latencies.length === 0) throw new Error('there were no lives to live');
  const measured = measuredOf(latencies, last - started, process.cpuUsage(usage));
  return {
    ...measured,
    figures: { 'a life, signing two proofs: µs of processor': await life.costOfProofs() },
  };
}

/** The three calls of a life. */
class Life {
  private readonly startBlock: Buffer;
  private readonly acknowledgeBlock: Buffer;
  private example: Effect | undefined;

  constructor(
    private readonly session: WorkloadSession,
    authority: string,
  ) {
    this.startBlock = headerBlock(pathOf(METHOD.startExecution), authority);
    this.acknowledgeBlock = headerBlock(pathOf(METHOD.acknowledgeTerminal), authority);
  }

  async run(
    { harness, executor }: LifeLane,
    reservation: EncodedCall,
    request: ReserveEffectRequest,
  ): Promise<void> {
    const effect = reservedEffect(request, await served(harness, METHOD.reserveEffect, reservation, request));
    this.example ??= effect;
    const start = await this.start(effect);
    await served(
      executor,
      METHOD.startExecution,
      encode(METHOD.startExecution, this.startBlock, start),
      start,
    );
    const end = await this.acknowledge(effect);
    const call = encode(METHOD.acknowledgeTerminal, this.acknowledgeBlock, end);
    await served(executor, METHOD.acknowledgeTerminal, call, end);
  }

  /** Making both requests, signatures included, with nothing else going on. @returns microseconds of a life */
  async costOfProofs(): Promise<number> {
    if (!this.example) return 0;
    const usage = process.cpuUsage();
    for (let i = 0; i < SAMPLE; i += 1) {
      await this.start(this.example);
      await this.acknowledge(this.example);
    }
    const { user, system } = process.cpuUsage(usage);
    return Math.round((user + system) / SAMPLE);
  }

  private start(effect: Effect): Promise<TransitionRequest> {
    return this.session.start(effect, attemptOf(effect));
  }

  private acknowledge(effect: Effect): Promise<TransitionRequest> {
    const receipt = {
      attemptId: attemptOf(effect),
      receiptId: `receipt-${effect.effectId}`,
      receipt: `done: ${effect.effectId}`,
    };
    return this.session.acknowledge(effect, EffectState.SUCCEEDED, receipt);
  }
}

function attemptOf({ effectId }: Effect): string {
  return `attempt-${effectId}`;
}

function encode(
  { input }: DescMethodUnary<DescMessage, DescMessage>,
  block: Buffer,
  request: TransitionRequest,
): EncodedCall {
  return encodeCall(block, toBinary(input, create(input, { ...request })));
}

/** @returns the reply's message. @throws Error where there is none */
async function served(
  { connection, channel }: Place,
  method: DescMethodUnary<DescMessage, DescMessage>,
  call: EncodedCall,
  request: object,
): Promise<Buffer> {
  const message = await new Promise<Buffer | undefined>((resolve) => connection.call(call, resolve));
  if (message) return message;
  const why = connection.broken ?? 'it was refused';
  throw new Error(
    `${method.name} was not served: ${why}; sent again: ${await askAgain(channel, method, request)}`,
  );
}
