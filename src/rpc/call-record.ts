import type { Metadata, status } from '@grpc/grpc-js';
import type { ConnectionPeer } from '../identity/connection-peer.js';
import type { Reason } from '../ledger/refusal.js';
import type { CallerKind } from '../ledger/types.js';

/** One call, from its headers to its status: what the log and the metrics are made of. Never holds content. */
export interface CallRecord {
  /** Minted; also the command id, and the id of an internal error. */
  readonly requestId: string;
  /** `package.Service/Method`. */
  readonly method: string;
  /** Whether it answers with a stream: its duration is then its life. */
  readonly streams: boolean;
  readonly peer: ConnectionPeer;
  /** `performance.now()`. */
  readonly startedAtMs: number;
  /** Cuts the call's stream off, for a reader that does not take its status either. */
  readonly cut: () => void;
  /** What the caller calls the request; only for finding it in both logs. */
  clientRequestId?: string | undefined;
  kind?: CallerKind | undefined;
  domainId?: string | undefined;
  reason?: Reason | undefined;
}

/** Gets each call once, when its status is known. */
export interface CallObserver {
  /** @param code the status sent, or CANCELLED where the caller went away before there was one */
  ended(record: CallRecord, code: status, durationMs: number): void;
}

/** Keyed by a symbol of this module: nothing that a caller sends can set it. */
const RECORD = Symbol('record of the call');

interface Recorded {
  [RECORD]?: CallRecord;
}

/**
 * Ties a call's record to the metadata object that grpc-js hands from interceptor to handler: the only thing that both
 * of them see. On the object itself: a weak map's entries, one for each call, are dear to collect.
 */
export function attachRecord(metadata: Metadata, record: CallRecord): void {
  (metadata as Recorded)[RECORD] = record;
}

/** @throws when the interceptor `observeCalls` is not in front of the handler, which is a bug of the composition */
export function recordOf(metadata: Metadata): CallRecord {
  const record = (metadata as Recorded)[RECORD];
  if (record === undefined) throw new Error('the call was not observed');
  return record;
}
