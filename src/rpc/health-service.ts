import {
  Health,
  HealthCheckResponse_ServingStatus as ServingStatus,
} from '../gen/grpc/health/v1/health_pb.js';
import { bind, type ServiceBinding } from './handler.js';
import type { HealthState, Serving } from './health-state.js';
import { ProtocolRefused } from './status.js';

/**
 * `grpc.health.v1`: whether the service, or one of its services, can be worked with. The empty name is the whole.
 *
 * Its protocol is not ours: an unknown service is NOT_FOUND to Check, and a status of its own to Watch.
 */
export function healthService(state: HealthState): ServiceBinding {
  return bind(Health, {
    async check({ service }) {
      const serving = state.statusOf(service);
      if (serving === undefined) throw new ProtocolRefused('NOT_FOUND', 'There is no service of this name.');
      return { status: ServingStatus[serving] };
    },

    async list() {
      const statuses = state.names.map((name) => [name, { status: numberOf(state.statusOf(name)) }] as const);
      return { statuses: Object.fromEntries(statuses) };
    },

    async *watch({ service }, { signal }) {
      let told: ServingStatus | undefined;
      while (!signal.aborted) {
        const change = state.nextChange(signal);
        const status = numberOf(state.statusOf(service));
        if (status !== told) yield { status };
        told = status;
        await change;
      }
    },
  });
}

function numberOf(serving: Serving | undefined): ServingStatus {
  return serving === undefined ? ServingStatus.SERVICE_UNKNOWN : ServingStatus[serving];
}
