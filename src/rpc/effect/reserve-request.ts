import type { ReserveEffectRequest } from '../../gen/surety/effect/v1/effect_service_pb.js';
import type { ReserveEffectCommand } from '../../ledger/effect/reserve-effect.js';
import { sha256 } from '../../ledger/encoding.js';
import { DAY, type Digest, SECOND } from '../../ledger/types.js';
import type { CallContext, HandlerTools } from '../handler.js';
import { DATA_CLASSES } from '../provenance-codec.js';
import { Violations } from '../validate.js';

/** Lengths in octets of UTF-8 (effect_service.proto, ReserveEffectRequest). */
const MAX_NAME_OCTETS = 256;
const MAX_RESOURCE_OCTETS = 512;
const MAX_KEY_OCTETS = 256;
/** The longest request that is hashed here instead of by the caller: half of a message. */
export const MAX_REQUEST_BODY_BYTES = 512 * 1024;
/** Bounds of the ttl and of the execution deadline (effects.md, Start before; Executor lost). */
const MIN_SPAN = SECOND;
const MAX_SPAN = DAY;

/**
 * Reads what a harness asks for, and mints the ids that the effect and its decision will have.
 *
 * @throws {Refused} FIELD_INVALID with every violation
 */
export function readReservation(
  tools: Pick<HandlerTools, 'newId'>,
  request: ReserveEffectRequest,
  context: CallContext,
): ReserveEffectCommand {
  const violations = new Violations();
  const name = (field: string, value: string) => violations.id(field, value, 1, MAX_NAME_OCTETS);
  const command: ReserveEffectCommand = {
    domainId: context.domainId,
    commandId: context.requestId,
    caller: context.caller,
    eventId: name('event_id', request.eventId),
    grantId: name('grant_id', request.grantId),
    action: name('action', request.action),
    resource: violations.id('resource', request.resource, 1, MAX_RESOURCE_OCTETS),
    inputSource: name('input_source', request.inputSource),
    outputSink: name('output_sink', request.outputSink),
    dataClass: violations.choice('data_class', request.dataClass, DATA_CLASSES),
    requestDigest: readRequestDigest(violations, request.request),
    effectKey: violations.optionalId('effect_key', request.effectKey, 1, MAX_KEY_OCTETS) ?? '',
    repeatable: request.repeatable,
    reservationTtl: readSpan(violations, 'reservation_ttl', request.reservationTtl),
    executionDeadline: readSpan(violations, 'execution_deadline', request.executionDeadline),
    effectId: tools.newId('eff'),
    decisionId: tools.newId('dec'),
  };
  violations.throwIfAny();
  return command;
}

/** A body is hashed exactly as it is: what is hashed is what is sent. An empty one is a request too. */
function readRequestDigest(violations: Violations, request: ReserveEffectRequest['request']): Digest {
  if (request.case === 'requestDigest') return violations.digest('request_digest', request.value);
  if (request.case === 'requestBody') {
    if (request.value.length <= MAX_REQUEST_BODY_BYTES) return sha256(request.value);
    violations.refuse('request_body', `must be at most ${MAX_REQUEST_BODY_BYTES} bytes`);
  } else {
    violations.refuse('request_digest', 'is required where request_body is absent');
  }
  return sha256('');
}

function readSpan(violations: Violations, field: string, value: ReserveEffectRequest['reservationTtl']) {
  return violations.optionalDuration(field, value, MIN_SPAN, MAX_SPAN) ?? null;
}
