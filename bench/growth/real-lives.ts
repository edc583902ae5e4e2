import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { digest, type WorkloadSession } from '../../src/cli/client/workload-session.js';
import { type Effect, EffectSchema, EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { EffectService } from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { UncertaintyReason } from '../../src/gen/surety/effect/v1/evidence_pb.js';
import type { BenchWorld } from '../world/bench-world.js';
import {
  ACTION,
  DATA_CLASS,
  DOMAIN,
  HARNESSES,
  harnessSpiffeId,
  INPUT_SOURCE,
  RESOURCE,
  SINK,
} from '../world/names.js';
import { padded } from './binary.js';
import { eventName, grantName } from './parents.js';

/** How a life ended, or how far it has come. */
export const LIFE_STATES = ['SUCCEEDED', 'FAILED', 'CANCELLED', 'EXECUTING', 'UNKNOWN', 'PREPARED'] as const;
export type LifeState = (typeof LIFE_STATES)[number];

/** An effect that lived through the service. */
export interface RealLife {
  readonly effectId: string;
  readonly state: LifeState;
  /** Its place in HARNESSES; its event and its grant have the same number. */
  readonly harness: number;
}

const KEY_WIDTH = 8;

/** Effect keys of what is loaded, by number; those of the templates are in a name space of their own. */
export function effectKeyName(number: number, space: 'l' | 't' = 'l'): string {
  return `refund:${space}-${padded(number, KEY_WIDTH)}`;
}

/** One life of each kind for each harness, through the service over gRPC; the events and grants 0, 1, … are there. */
export async function liveRealLives(world: BenchWorld): Promise<RealLife[]> {
  const session = await world.executorSession();
  const lives: RealLife[] = [];
  try {
    for (const harness of HARNESSES.keys()) {
      // A success comes last at each harness: the sink's breaker sees no row of failures.
      for (const state of [...LIFE_STATES].reverse()) {
        const effect = await reserve(world, harness, lives.length);
        await live(session, effect, state);
        lives.push({ effectId: effect.effectId, state, harness });
      }
    }
  } finally {
    session.channel.close();
  }
  return lives;
}

async function reserve(world: BenchWorld, harness: number, number: number): Promise<Effect> {
  const channel = world.channel(harnessSpiffeId(DOMAIN, HARNESSES[harness] as string));
  try {
    const effectKey = effectKeyName(number, 't');
    const names = { eventId: eventName(harness), grantId: grantName(harness) };
    const requestDigest = digest(`request of ${effectKey}`);
    const { effectId, fence } = await channel.service(EffectService).reserveEffect({
      ...names,
      action: ACTION,
      resource: RESOURCE,
      inputSource: INPUT_SOURCE,
      outputSink: SINK,
      dataClass: DATA_CLASS,
      request: { case: 'requestDigest', value: requestDigest },
      effectKey,
    });
    return create(EffectSchema, { ...names, effectId, fence, requestDigest });
  } finally {
    channel.close();
  }
}

async function live(session: WorkloadSession, effect: Effect, state: LifeState): Promise<void> {
  if (state === 'PREPARED') return;
  const service = session.channel.service(EffectService);
  const attemptId = `attempt-${effect.effectId}`;
  await service.startExecution(await session.start(effect, attemptId));
  if (state === 'EXECUTING') return;
  if (state === 'UNKNOWN') {
    const observationDigest = digest(`observation of ${effect.effectId}`);
    await service.markUnknown(
      await session.markUnknown(effect, {
        ...{ attemptId, observationDigest, reason: UncertaintyReason.TIMEOUT },
        observedTime: timestampFromMs(Date.now()),
      }),
    );
    return;
  }
  const receipt = {
    attemptId,
    receiptId: `receipt-${effect.effectId}`,
    receipt: `receipt of ${effect.effectId}`,
  };
  await service.acknowledgeTerminal(await session.acknowledge(effect, EffectState[state], receipt));
}
