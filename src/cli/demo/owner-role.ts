import { ActionService } from '../../gen/surety/action/v1/action_service_pb.js';
import { WorkloadService } from '../../gen/surety/identity/v1/workload_service_pb.js';
import { importSigningKey } from '../../identity/sign.js';
import { OwnerSession } from '../client/owner-session.js';
import type { Channel } from '../client/service-client.js';
import { stateOf } from '../worker/steps.js';
import type { RoleAction } from './role-protocol.js';

/** A human owner: looks at what is proposed and signs its approval with a key that no other part has. */
export function ownerActions(channel: Channel, signingKeyPem: string): Readonly<Record<string, RoleAction>> {
  const key = importSigningKey(signingKeyPem);
  return {
    approve: async ({ domainId = '', spiffeId = '', actionId = '', validForMs = '' }) => {
      const { audience, incarnation } = await channel.service(WorkloadService).whoAmI({ domainId });
      const owner = new OwnerSession(channel, domainId, spiffeId, key, { audience, incarnation });
      const request = await owner.approval(await owner.look(actionId), {
        fields: deliveryOf(actionId),
        ...(validForMs === '' ? {} : { validForMs: Number(validForMs) }),
      });
      const { action } = await channel.service(ActionService).gateAction(request);
      return stateOf(action);
    },
  };
}

/** What the approval is for: the delivery of one reply. */
function deliveryOf(actionId: string): Record<string, string> {
  return {
    channel: 'mail',
    thread: `thread-of-${actionId}`,
    event: `event-of-${actionId}`,
    event_key: `reply-to-${actionId}`,
    delivery: `delivery-of-${actionId}`,
    delivery_message: `message-of-${actionId}`,
    binding_method: 'reply',
  };
}
