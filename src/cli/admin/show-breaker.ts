import { clone } from '@bufbuild/protobuf';
import { AdminService } from '../../gen/surety/authority/v1/admin_service_pb.js';
import {
  BreakerState,
  type SinkAdmission,
  SinkAdmissionSchema,
} from '../../gen/surety/authority/v1/admission_pb.js';
import type { Channel } from '../client/service-client.js';
import { changeLines } from './show-command.js';

/**
 * What closing a sink's circuit breaker changes: no record, but what is counted for the sink.
 *
 * @returns no lines where there is no such sink
 * @throws {SuretyError}
 */
export async function breakerLines(channel: Channel, domainId: string, sink: string): Promise<string[]> {
  // The sinks stand on every page; of the actors one is enough.
  const { status } = await channel.service(AdminService).getAdmissionStatus({ domainId, pageSize: 1 });
  const before = status?.sinks.find((one) => one.sink === sink);
  if (before === undefined) return [];
  return [
    'its circuit breaker, as it stands:',
    ...changeLines(SinkAdmissionSchema, before, closed(before)),
    '',
  ];
}

function closed(before: SinkAdmission): SinkAdmission {
  const after = clone(SinkAdmissionSchema, before);
  delete after.openTime;
  delete after.tryTime;
  return Object.assign(after, { breaker: BreakerState.CLOSED, failures: 0, probeEffectId: '' });
}
