import type { AdminService, ExecuteCommandResponse } from '../../gen/surety/authority/v1/admin_service_pb.js';
import { type Patience, sendExactly } from '../client/send-exactly.js';
import type { ServiceClient } from '../client/service-client.js';
import type { SuretyError } from '../client/surety-error.js';

/**
 * Sends a signed command, and sends the very same again while its answer is lost: it is done at most once, and its repetition
 * answers the first result as `duplicate`.
 *
 * @param onRepeat told why, before each repetition
 * @throws {SuretyError} where the service refuses it
 * @throws {OutcomeUnknown} where no sending was answered
 */
export function executeExactly(
  admin: Pick<ServiceClient<(typeof AdminService)['method']>, 'executeCommand'>,
  commandJws: string,
  onRepeat: (error: SuretyError) => void = () => {},
  patience: Patience = {},
): Promise<ExecuteCommandResponse> {
  return sendExactly((options) => admin.executeCommand({ commandJws }, options), onRepeat, patience);
}
