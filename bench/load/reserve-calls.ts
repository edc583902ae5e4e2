import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { digest } from '../../src/cli/client/workload-session.js';
import { type Effect, EffectSchema } from '../../src/gen/surety/effect/v1/effect_pb.js';
import {
  EffectService,
  type ReserveEffectRequest,
  ReserveEffectRequestSchema,
  ReserveEffectResponseSchema,
} from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { ACTION, DATA_CLASS, HARNESSES, INPUT_SOURCE, RESOURCE, SINK } from '../world/names.js';
import { pathOf } from './call-path.js';
import { type EncodedCall, encodeCall, headerBlock } from './frames.js';
import type { ReservePlan } from './messages.js';

/** The requests of one round, by harness; each has a grant, a key and a request of its own. */
export function reserveRequests({
  grants,
  events,
}: Pick<ReservePlan, 'grants' | 'events'>): ReserveEffectRequest[][] {
  const requests: ReserveEffectRequest[][] = HARNESSES.map(() => []);
  for (let i = 0; i < grants.count; i += 1) {
    const harness = i % HARNESSES.length;
    const ofHarness = events[harness] ?? [];
    const list = requests[harness] as ReserveEffectRequest[];
    const grantId = `${grants.name}-${i}`;
    list.push(
      create(ReserveEffectRequestSchema, {
        eventId: ofHarness[list.length % ofHarness.length] ?? '',
        grantId,
        action: ACTION,
        resource: RESOURCE,
        inputSource: INPUT_SOURCE,
        outputSink: SINK,
        dataClass: DATA_CLASS,
        request: { case: 'requestDigest', value: digest(`request of ${grantId}`) },
        effectKey: `refund:${grantId}`,
      }),
    );
  }
  return requests;
}

export function encodeReserve(requests: readonly ReserveEffectRequest[], authority: string): EncodedCall[] {
  const block = headerBlock(pathOf(EffectService.method.reserveEffect), authority);
  return requests.map((request) => encodeCall(block, toBinary(ReserveEffectRequestSchema, request)));
}

/** What a workload needs to know of the effect that a reply is about. */
export function reservedEffect(request: ReserveEffectRequest, reply: Buffer): Effect {
  const { effectId, fence } = fromBinary(ReserveEffectResponseSchema, reply);
  return create(EffectSchema, {
    effectId,
    fence,
    eventId: request.eventId,
    grantId: request.grantId,
    requestDigest: request.request.case === 'requestDigest' ? request.request.value : new Uint8Array(),
  });
}
