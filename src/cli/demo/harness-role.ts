import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { ActionService } from '../../gen/surety/action/v1/action_service_pb.js';
import { PolicyService } from '../../gen/surety/authority/v1/policy_service_pb.js';
import { EffectState } from '../../gen/surety/effect/v1/effect_pb.js';
import { EffectService } from '../../gen/surety/effect/v1/effect_service_pb.js';
import { EventService } from '../../gen/surety/event/v1/event_service_pb.js';
import { OriginKind } from '../../gen/surety/provenance/v1/record_pb.js';
import type { Channel } from '../client/service-client.js';
import { digest } from '../client/workload-session.js';
import { stateOf } from '../worker/steps.js';
import type { RoleAction } from './role-protocol.js';
import {
  DEMO_ACTION,
  DEMO_ACTION_SOURCE,
  DEMO_ACTION_TYPE,
  DEMO_DATA_CLASS,
  DEMO_HARNESS,
  DEMO_INPUT_SOURCE,
  DEMO_PRINCIPAL,
  DEMO_SINK,
  DEMO_TOOL,
} from './set-up-domain.js';

/** The agent runtime: publishes what it was asked, reserves, cancels; proposes actions. */
export function harnessActions(channel: Channel): Readonly<Record<string, RoleAction>> {
  const effects = channel.service(EffectService);
  return {
    publish: async ({ eventId = '', payload = '' }) => {
      await channel.service(EventService).publishEvent({
        eventId,
        type: 'task.assigned',
        classification: DEMO_DATA_CLASS,
        payloadDigest: digest(payload),
        origin: {
          kind: OriginKind.HUMAN_INPUT,
          sourceId: 'support-desk',
          sourceDigest: digest(payload),
          observedTime: timestampFromMs(Date.now()),
          principalId: DEMO_PRINCIPAL,
          harnessId: DEMO_HARNESS,
        },
        allowedSinks: [DEMO_SINK],
      });
      return {};
    },
    reserve: async ({ eventId = '', grantId = '', resource = '', request = '', effectKey = '' }) => {
      const reply = await effects.reserveEffect({
        eventId,
        grantId,
        action: DEMO_ACTION,
        resource,
        inputSource: DEMO_INPUT_SOURCE,
        outputSink: DEMO_SINK,
        dataClass: DEMO_DATA_CLASS,
        request: { case: 'requestBody', value: new TextEncoder().encode(request) },
        effectKey,
      });
      return { effectId: reply.effectId, state: EffectState[reply.currentState] };
    },
    propose: async ({ key = '', text = '' }) => {
      const { action } = await channel.service(ActionService).proposeAction({
        idempotencyKey: key,
        source: DEMO_ACTION_SOURCE,
        sourceRef: `ticket-of-${key}`,
        type: DEMO_ACTION_TYPE,
        toolName: DEMO_TOOL,
        payload: Uint8Array.from(Buffer.from(JSON.stringify({ tool_name: DEMO_TOOL, text }))),
      });
      return stateOf(action);
    },
    cancel: async ({ effectId = '' }) => {
      const { decision } = await channel.service(PolicyService).decide({
        action: 'effect.cancel',
        resource: effectId,
        requestDigest: digest(''),
      });
      const { result } = await effects.cancelEffect({ effectId, decisionId: decision?.decisionId ?? '' });
      return { effectId, state: EffectState[result?.state ?? EffectState.UNSPECIFIED] };
    },
  };
}
