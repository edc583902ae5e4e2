import { randomUUID } from 'node:crypto';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { SuretyError } from '../../src/cli/client/surety-error.js';
import {
  digest,
  type TransitionRequest,
  type WorkloadSession,
} from '../../src/cli/client/workload-session.js';
import { type Effect, EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { EffectService } from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { UncertaintyReason } from '../../src/gen/surety/effect/v1/evidence_pb.js';
import { type ReserveRequest, reservation, reserveAs } from './e2e-parties.js';
import { type E2eWorld, HARNESS } from './e2e-world.js';
import type { ServiceProcess } from './service-process.js';

/** The system outside: it does what it is asked to, as often as it is asked to, and remembers. */
export class Provider {
  private readonly times = new Map<string, number>();

  send(requestDigest: Uint8Array): void {
    const key = Buffer.from(requestDigest).toString('hex');
    this.times.set(key, this.sent(requestDigest) + 1);
  }

  /** How often it was asked for this. */
  sent(requestDigest: Uint8Array): number {
    return this.times.get(Buffer.from(requestDigest).toString('hex')) ?? 0;
  }

  /** The most often that anything was asked for. */
  get most(): number {
    return Math.max(0, ...this.times.values());
  }
}

/** How far an agent takes an effect. */
export type Ending = 'reserved' | 'started' | 'sent' | 'unknown' | 'acknowledged';

/** Everything that its agent knows of an effect: each message as it was sent. */
export interface Work {
  readonly ending: Ending;
  readonly reservation: ReserveRequest;
  readonly requestDigest: Uint8Array<ArrayBuffer>;
  readonly attemptId: string;
  effect?: Effect;
  start?: TransitionRequest;
  unknown?: TransitionRequest;
  acknowledged?: TransitionRequest;
}

/** How the service answered a message: `done`, or the reason of its refusal. */
export type Answered = { readonly rpc: string; readonly answer: string };

/** A harness and its executor at work, each over a connection to one replica. */
export class PayingAgent {
  readonly works: Work[] = [];

  constructor(
    private readonly world: E2eWorld,
    readonly service: ServiceProcess,
    private readonly executor: WorkloadSession,
    private readonly provider: Provider,
    private readonly grantId: string,
  ) {}

  /** Begins an effect of its own and takes it so far. */
  async begin(ending: Ending): Promise<Work> {
    const requestDigest = digest(randomUUID());
    const work: Work = {
      ending,
      reservation: await reservation(this.world, {
        grantId: this.grantId,
        effectKey: randomUUID(),
        request: { case: 'requestDigest', value: requestDigest },
      }),
      requestDigest,
      attemptId: `attempt-${randomUUID()}`,
    };
    this.works.push(work);
    const { effectId } = await reserveAs(this.world, HARNESS, work.reservation, this.service);
    work.effect = await this.executor.look(effectId);
    await this.finish(work, ending);
    return work;
  }

  /** Takes a reserved effect further. */
  async finish(work: Work, ending: Ending): Promise<void> {
    const { effect, attemptId } = work;
    if (ending === 'reserved' || !effect) return;
    const effects = this.executor.channel.service(EffectService);
    work.start = await this.executor.start(effect, attemptId);
    await effects.startExecution(work.start);
    if (ending === 'started') return;
    this.provider.send(work.requestDigest);
    if (ending === 'unknown') {
      work.unknown = await this.executor.markUnknown(effect, {
        attemptId,
        reason: UncertaintyReason.TIMEOUT,
        observationDigest: digest('nothing came back'),
        observedTime: timestampFromMs(Date.now()),
      });
      await effects.markUnknown(work.unknown);
    } else if (ending === 'acknowledged') {
      const receipt = { attemptId, receiptId: `receipt-${attemptId}`, receipt: 'paid' };
      work.acknowledged = await this.executor.acknowledge(effect, EffectState.SUCCEEDED, receipt);
      await effects.acknowledgeTerminal(work.acknowledged);
    }
  }

  /**
   * Sends every message that it ever sent once more, exactly, to a replica. Where leave to send is given, it is used: an
   * agent that has lost its memory of sending would.
   */
  async repeatAll(service: ServiceProcess = this.service): Promise<Answered[]> {
    const answers: Answered[] = [];
    const note = async (rpc: string, call: Promise<unknown>): Promise<boolean> => {
      const answer = await call.then(
        () => 'done',
        (error: unknown) => (error instanceof SuretyError ? error.reason : Promise.reject(error)),
      );
      answers.push({ rpc, answer });
      return answer === 'done';
    };
    const { spiffeId } = this.executor.registration;
    const effects = this.world.channel(spiffeId, service).service(EffectService);
    for (const { reservation: request, start, unknown, acknowledged, requestDigest } of this.works) {
      await note('reserve', reserveAs(this.world, HARNESS, request, service));
      if (start && (await note('start', effects.startExecution(start)))) this.provider.send(requestDigest);
      if (unknown) await note('markUnknown', effects.markUnknown(unknown));
      if (acknowledged) await note('acknowledge', effects.acknowledgeTerminal(acknowledged));
    }
    return answers;
  }

  /** Tries to start everything that it knows of once more, with an executor that is in force, and would send. */
  async startAllAnew(executor: WorkloadSession): Promise<Answered[]> {
    const answers: Answered[] = [];
    const effects = executor.channel.service(EffectService);
    for (const { effect, requestDigest } of this.works) {
      if (!effect) continue;
      const request = await executor.start(effect, `attempt-${randomUUID()}`);
      const answer = await effects.startExecution(request).then(
        () => 'done',
        (error: unknown) => (error instanceof SuretyError ? error.reason : Promise.reject(error)),
      );
      if (answer === 'done') this.provider.send(requestDigest);
      answers.push({ rpc: 'start', answer });
    }
    return answers;
  }
}
