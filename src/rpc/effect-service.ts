import { EffectService, RetryAdvice as WireAdvice } from '../gen/surety/effect/v1/effect_service_pb.js';
import { acknowledgeTerminal } from '../ledger/effect/acknowledge-terminal.js';
import { cancelEffect, type CancelEffectCommand } from '../ledger/effect/cancel-effect.js';
import { markUnknown } from '../ledger/effect/mark-unknown.js';
import { reconcile } from '../ledger/effect/reconcile.js';
import { reserveEffect } from '../ledger/effect/reserve-effect.js';
import { type RetryAdvice, retryAdvice } from '../ledger/effect/retry-advice.js';
import { startExecution } from '../ledger/effect/start-execution.js';
import type { ViewerRequest } from '../ledger/effect/visible-effect.js';
import { wireEffect, wireReservation, wireStart, wireState, wireTransition } from './effect/encode-effect.js';
import { getEffectHistory } from './effect/effect-history.js';
import { listEffects } from './effect/list-effects.js';
import { readEffect, readRecord } from './effect/read-effect.js';
import { readEffectId, readViewer } from './effect/read-request.js';
import { readReservation } from './effect/reserve-request.js';
import { readTransition } from './effect/transition-request.js';
import { watchEffects } from './effect/watch-effects.js';
import { bind, type CallContext, type HandlerTools, type ServiceBinding } from './handler.js';
import { replyOf } from './reply-of.js';
import { Violations } from './validate.js';
import type { PositionPoller } from './watch/position-poller.js';

const MAX_DECISION_ID_OCTETS = 256;

const WIRE_ADVICE: Readonly<Record<RetryAdvice, WireAdvice>> = {
  NEW_EVENT: WireAdvice.NEW_EVENT,
  RECONCILE: WireAdvice.RECONCILE,
  WAIT: WireAdvice.WAIT,
  DONE: WireAdvice.DONE,
};

/** Reservation, execution, uncertainty and reconciliation of effects (effects.md). */
export function effectService(tools: HandlerTools, positions: PositionPoller): ServiceBinding {
  return bind(EffectService, {
    reserveEffect: async (request, context) => {
      const command = readReservation(tools, request, context);
      return wireReservation(await replyOf(tools, context, reserveEffect, command));
    },
    startExecution: async (request, context) => {
      const command = await readTransition(tools, 'execution', request, context);
      return wireStart(context.domainId, await replyOf(tools, context, startExecution, command));
    },
    markUnknown: async (request, context) => {
      const command = await readTransition(tools, 'uncertainty', request, context);
      return {
        result: wireTransition(context.domainId, await replyOf(tools, context, markUnknown, command)),
      };
    },
    acknowledgeTerminal: async (request, context) => {
      const command = await readTransition(tools, 'terminal', request, context);
      const reply = await replyOf(tools, context, acknowledgeTerminal, command);
      return { result: wireTransition(context.domainId, reply) };
    },
    reconcile: async (request, context) => {
      const command = await readTransition(tools, 'reconciliation', request, context);
      return { result: wireTransition(context.domainId, await replyOf(tools, context, reconcile, command)) };
    },
    cancelEffect: async (request, context) => {
      const reply = await replyOf(tools, context, cancelEffect, readCancel(request, context));
      return { result: wireTransition(context.domainId, reply) };
    },
    checkRetry: async (request, context) => {
      const effect = await readRecord(tools.reader, context.domainId, ...readOne(request, context));
      return { advice: WIRE_ADVICE[retryAdvice(effect)], state: wireState(effect.state) };
    },
    getEffect: async (request, context) => {
      const { effect, output } = await readEffect(
        tools.reader,
        context.domainId,
        ...readOne(request, context),
      );
      return { effect: wireEffect(context.domainId, effect, output) };
    },
    listEffects: (request, context) => listEffects(tools, request, context),
    watchEffects: (request, context) => watchEffects(tools, positions, request, context),
    getEffectHistory: (request, context) => getEffectHistory(tools, request, context),
  });
}

function readCancel(
  request: { readonly effectId: string; readonly decisionId: string },
  context: CallContext,
): CancelEffectCommand {
  const violations = new Violations();
  const effectId = readEffectId(violations, request.effectId);
  const decisionId =
    violations.optionalId('decision_id', request.decisionId, 1, MAX_DECISION_ID_OCTETS) ?? '';
  violations.throwIfAny();
  return {
    domainId: context.domainId,
    commandId: context.requestId,
    caller: context.caller,
    effectId,
    decisionId,
  };
}

function readOne(
  request: { readonly effectId: string; readonly registrationId: string },
  context: CallContext,
): [ViewerRequest, string] {
  const violations = new Violations();
  const effectId = readEffectId(violations, request.effectId);
  const asker = readViewer(violations, context, request.registrationId);
  violations.throwIfAny();
  return [asker, effectId];
}
