import type { Action } from '../../gen/surety/action/v1/action_pb.js';
import { digest } from '../client/workload-session.js';

/** The exact request of a dispatch. */
export interface ExecutionRequest {
  /** What is sent, byte for byte. */
  readonly body: Buffer<ArrayBuffer>;
  /** SHA-256 of the body, 32 bytes: the execution digest, and the provider's idempotency key. */
  readonly executionDigest: Uint8Array<ArrayBuffer>;
}

/**
 * The request that an action becomes: the same bytes for the same action, in every process. The action's id is in it, so that
 * two actions with one payload are two requests, and the payload is in it as the bytes that were approved.
 *
 * Whoever reserves an effect for an action reserves it for this digest (actions.md, With an effect).
 *
 * @param action with its payload
 */
export function executionRequest(
  action: Pick<Action, 'actionId' | 'type' | 'toolName' | 'payload'>,
): ExecutionRequest {
  const { actionId, type, toolName, payload } = action;
  const head = JSON.stringify({ action_id: actionId, type, tool_name: toolName }).slice(0, -1);
  const body = Buffer.concat([Buffer.from(`${head},"payload":`), payload, Buffer.from('}')]);
  return { body, executionDigest: digest(body) };
}
