import { SuretyError } from '../client/surety-error.js';
import type { RoleAction, RoleAnswer, RoleRequest } from './role-protocol.js';

/** Serves the demo's requests in a process of its own until the parent goes. */
export function serveRole(actions: Readonly<Record<string, RoleAction>>): void {
  process.on('message', (request: RoleRequest) => {
    void answer(actions, request).then((reply) => process.send?.(reply));
  });
  process.on('disconnect', () => process.exit(0));
  process.send?.({ id: 0, ok: true, result: {} } satisfies RoleAnswer);
}

async function answer(
  actions: Readonly<Record<string, RoleAction>>,
  request: RoleRequest,
): Promise<RoleAnswer> {
  const { id } = request;
  try {
    const action = actions[request.action];
    if (!action) throw new Error(`no action ${request.action}`);
    return { id, ok: true, result: await action(request.parameters) };
  } catch (error) {
    if (error instanceof SuretyError) {
      const { code, reason, message, metadata } = error;
      return { id, ok: false, code, reason, message, metadata };
    }
    return { id, ok: false, code: 'UNKNOWN', reason: '', message: String(error), metadata: {} };
  }
}
