import { durationMs, timestampFromMs } from '@bufbuild/protobuf/wkt';
import { type Effect, EffectState } from '../../gen/surety/effect/v1/effect_pb.js';
import { EffectService } from '../../gen/surety/effect/v1/effect_service_pb.js';
import { UncertaintyReason } from '../../gen/surety/effect/v1/evidence_pb.js';
import { sendExactly } from '../client/send-exactly.js';
import { SuretyError } from '../client/surety-error.js';
import { digest, type WorkloadSession } from '../client/workload-session.js';
import type { Doubt, ProviderAnswer, SendAnswer } from './provider.js';
import { meaningOf } from './refusals.js';
import type { Steps } from './steps.js';

const UNCERTAINTIES: Readonly<Partial<Record<Doubt, UncertaintyReason>>> = {
  timeout: UncertaintyReason.TIMEOUT,
  disconnected: UncertaintyReason.TRANSPORT_DISCONNECT,
};

/**
 * The effect that an action carries (actions.md, With an effect), under an executor's SPIFFE ID and registration, which the
 * worker's process holds beside its own. The attempt is named for the execution digest, so that a process that was started
 * again says the same.
 */
export class ActionEffects {
  constructor(
    private readonly session: WorkloadSession,
    private readonly steps: Steps,
    /** Milliseconds of a clock that only goes forward. */
    private readonly clock: () => number,
  ) {}

  /**
   * PREPARED to EXECUTING. The exact repeat after a lost answer is answered to this very process and no other, and what may be
   * sent is counted from before the first sending.
   *
   * @returns until when the request may be sent, on the monotonic clock
   * @throws {SuretyError | OutcomeUnknown} then it must not be sent
   */
  async start(actionId: string, effectId: string): Promise<number> {
    const from = this.clock();
    const effect = await this.session.look(effectId);
    const request = await this.session.start(effect, attemptOf(effect));
    const answer = await this.steps.take(
      'StartExecution',
      actionId,
      () => sendExactly((options) => this.effects.startExecution(request, options)),
      ({ result }) => ({ state: nameOf(result?.state) }),
    );
    if (answer.result?.state !== EffectState.EXECUTING) return from;
    return from + (answer.sendWindow ? durationMs(answer.sendWindow) : 0);
  }

  /** What became of the request that this process sent. The action goes on also where the effect cannot be told. */
  async settle(actionId: string, effectId: string, answer: SendAnswer): Promise<void> {
    await this.untilRefused(async () => {
      const effect = await this.session.look(effectId);
      if (effect.state !== EffectState.EXECUTING) return;
      if (answer.is === 'not_sent') await this.cancelled(actionId, effect);
      else if (answer.is === 'doubt') await this.unknown(actionId, effect, answer.why);
      else await this.acknowledged(actionId, effect, answer);
    });
  }

  /** Of an action that is observed: what an earlier process may have sent is in doubt, and a reconciler's to settle. */
  async doubt(actionId: string, effectId: string): Promise<void> {
    await this.settle(actionId, effectId, { is: 'doubt', why: 'unknown' });
  }

  private get effects() {
    return this.session.channel.service(EffectService);
  }

  private async acknowledged(
    actionId: string,
    effect: Effect,
    answer: Exclude<ProviderAnswer, { is: 'doubt' }>,
  ): Promise<void> {
    const state = answer.is === 'done' ? EffectState.SUCCEEDED : EffectState.FAILED;
    await this.acknowledge(actionId, effect, state, receiptId(answer.id), answer.answerDigest);
  }

  /** CANCELLED means that it was not sent; the receipt is the attempt (effects.md, Transitions by workloads). */
  private async cancelled(actionId: string, effect: Effect): Promise<void> {
    const attemptId = attemptOf(effect);
    await this.acknowledge(actionId, effect, EffectState.CANCELLED, attemptId, digest('not sent'));
  }

  private async acknowledge(
    actionId: string,
    effect: Effect,
    state: EffectState,
    receiptId: string,
    receiptDigest: Uint8Array<ArrayBuffer>,
  ): Promise<void> {
    const attemptId = attemptOf(effect);
    const receipt = Buffer.from(receiptDigest).toString('hex');
    const request = await this.session.acknowledge(effect, state, { attemptId, receiptId, receipt });
    await this.steps.take(
      'AcknowledgeTerminal',
      actionId,
      () => sendExactly((options) => this.effects.acknowledgeTerminal(request, options)),
      ({ result }) => ({ state: nameOf(result?.state) }),
    );
  }

  private async unknown(actionId: string, effect: Effect, why: Doubt): Promise<void> {
    const request = await this.session.markUnknown(effect, {
      attemptId: attemptOf(effect),
      reason: UNCERTAINTIES[why] ?? UncertaintyReason.COMMIT_RESPONSE_LOST,
      observationDigest: digest(why),
      observedTime: timestampFromMs(this.session.clock()),
    });
    await this.steps.take(
      'MarkUnknown',
      actionId,
      () => sendExactly((options) => this.effects.markUnknown(request, options)),
      ({ result }) => ({ state: nameOf(result?.state) }),
    );
  }

  /** The effect has rules and a reconciler of its own: what is refused here, or lost, is theirs, and stops no action. */
  private async untilRefused(run: () => Promise<void>): Promise<void> {
    try {
      await run();
    } catch (error) {
      if (!(error instanceof SuretyError) && meaningOf(error) !== 'unclear') throw error;
    }
  }
}

/** 16 to 256 octets, of the reserved request: the same in each process. */
function attemptOf({ requestDigest }: Effect): string {
  return `attempt-${Buffer.from(requestDigest).toString('hex')}`;
}

/** A receipt's id has 8 octets at least; a provider's may be shorter. */
function receiptId(id: string): string {
  return Buffer.byteLength(id) < 8 ? `receipt-${id}` : id;
}

function nameOf(state: EffectState | undefined): string {
  return EffectState[state ?? EffectState.UNSPECIFIED];
}
