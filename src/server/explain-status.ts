import { status } from '@grpc/grpc-js';
import { type Refusal, refusal } from '../ledger/refusal.js';
import type { CallStatus } from '../rpc/interceptors/forwarding-call.js';
import { grpcStatus } from '../rpc/status.js';
import type { CallInternals } from './grpc-internals.js';
import { MAX_MESSAGE_BYTES } from './limits.js';

/** What our decoder throws at a second message; grpc-js makes it the text of a status. */
export const SECOND_MESSAGE = 'more than one request message';

/**
 * Gives a reason to every status that grpc-js makes by itself (api.md, Errors: always one ErrorInfo): it sends them past all
 * interceptors. The code stays the one that the protocol prescribes for the case; the sentence is ours.
 */
export function explainStatuses({ base }: CallInternals): void {
  base.sendStatus = sendExplained;
}

/** One function for all calls: a call costs one property more. */
function sendExplained(this: CallInternals['base'], sent: CallStatus): void {
  const own = Object.getPrototypeOf(this) as CallInternals['base'];
  // What comes from a handler or from us has metadata, with details where it is an error of ours.
  own.sendStatus.call(this, sent.code === status.OK || sent.metadata ? sent : explained(sent));
}

function explained(sent: CallStatus): CallStatus {
  const refused = refusalFor(sent);
  // The two enums are one: grpc.io, Status codes.
  return refused === undefined ? sent : grpcStatus(refused, {}, sent.code as number);
}

/** Undefined for codes that grpc-js gives to no request. */
function refusalFor({ code, details }: CallStatus): Refusal | undefined {
  if (code === status.DEADLINE_EXCEEDED)
    return outcomeUnknown('The deadline passed; it is not known whether the call was done.');
  if (code === status.RESOURCE_EXHAUSTED)
    return details === SECOND_MESSAGE
      ? unreadable('The request is more than one message.', 'must be one message')
      : unreadable(
          'The request is larger than a message may be.',
          `must be at most ${MAX_MESSAGE_BYTES} bytes, decompressed`,
        );
  if (code === status.UNIMPLEMENTED)
    return unreadable(
      'The request is not one whole message in an encoding that is known here.',
      'must be one whole message, as it is or compressed as `gzip` or `deflate`',
    );
  if (code === status.INTERNAL)
    return unreadable(
      'The request cannot be decompressed, or its deadline not be read.',
      'must be compressed as `grpc-encoding` says, and `grpc-timeout` be a timeout of gRPC',
    );
  return undefined;
}

/**
 * What ends a call whose handler may have begun. DEADLINE_PASSED would say that it was not done, and clients believe the
 * reason (api.md, After a lost answer).
 */
function outcomeUnknown(message: string): Refusal {
  return refusal('OUTCOME_UNKNOWN', message);
}

/** How a call ends that took longer than any may. */
export function ceilingReached(): CallStatus {
  const refused = outcomeUnknown('No call may take this long; it is not known whether it was done.');
  return grpcStatus(refused, {}, status.DEADLINE_EXCEEDED as number);
}

/** How a call ends whose request did not come: its handler was never called. */
export function requestNotSent(): CallStatus {
  return grpcStatus(refusal('DEADLINE_PASSED', 'The request was not sent in time; nothing was done.'));
}

function unreadable(message: string, rule: string): Refusal {
  return refusal('FIELD_INVALID', message, { violations: [{ field: '', rule }] });
}
