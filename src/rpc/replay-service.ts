import { type ConsumeNonceRequest, ReplayService } from '../gen/surety/replay/v1/replay_service_pb.js';
import { microsToTimestamp } from '../identity/timestamp.js';
import { consumeNonce, type ConsumeNonceCommand } from '../ledger/replay/consume-nonce.js';
import { nonceKey } from '../ledger/replay/nonce-key.js';
import { bind, type CallContext, type HandlerTools, type ServiceBinding } from './handler.js';
import { replyOf } from './reply-of.js';
import { Violations } from './validate.js';

const MAX_SCOPE_OCTETS = 128;
const MAX_NONCE_OCTETS = 512;
const MIN_CONSUMPTION_OCTETS = 16;
const MAX_CONSUMPTION_OCTETS = 64;

/** Nonces for the programs around us (provenance-audit-replay.md, Replay nonces). Callers: every kind. */
export function replayService(tools: HandlerTools): ServiceBinding {
  return bind(ReplayService, {
    consumeNonce: async (request, context) => {
      const command = readConsumeNonce(request, context);
      const { duplicate, consumedAt } = await replyOf(tools, context, consumeNonce, command);
      return { duplicate, consumeTime: microsToTimestamp(consumedAt) };
    },
  });
}

function readConsumeNonce(request: ConsumeNonceRequest, context: CallContext): ConsumeNonceCommand {
  const violations = new Violations();
  const scope = violations.id('scope', request.scope, 1, MAX_SCOPE_OCTETS);
  // An empty nonce is an argument error, never a skipped check.
  const nonce = violations.id('nonce', request.nonce, 1, MAX_NONCE_OCTETS);
  const command: ConsumeNonceCommand = {
    domainId: context.domainId,
    commandId: context.requestId,
    caller: context.caller,
    kind: context.kind,
    nonceKey: nonceKey(context.caller.spiffeId, scope, nonce),
    consumptionId: violations.id(
      'consumption_id',
      request.consumptionId,
      MIN_CONSUMPTION_OCTETS,
      MAX_CONSUMPTION_OCTETS,
    ),
    expiresAt: violations.time('expire_time', request.expireTime),
  };
  violations.throwIfAny();
  return command;
}
