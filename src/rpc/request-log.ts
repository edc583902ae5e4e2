import { status } from '@grpc/grpc-js';
import type { CallObserver, CallRecord } from './call-record.js';

/** The part of a pino logger that the request log needs. */
export interface LineLog {
  isLevelEnabled(level: string): boolean;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

/** Codes that somebody who runs the service should look into; the rest is the callers' business. */
const WARN: ReadonlySet<status> = new Set([
  status.INTERNAL,
  status.UNKNOWN,
  status.DATA_LOSS,
  status.UNAVAILABLE,
  status.RESOURCE_EXHAUSTED,
]);

/**
 * One line for each call, when it has ended: who called what, as what, in which domain, what came of it and how long it
 * took. Never anything of a request or a reply.
 */
export class RequestLog implements CallObserver {
  constructor(private readonly log: LineLog) {}

  ended(record: CallRecord, code: status, durationMs: number): void {
    const level = WARN.has(code) ? 'warn' : 'info';
    if (!this.log.isLevelEnabled(level)) return;
    const { requestId, method, peer, kind, domainId, reason, clientRequestId } = record;
    const caller = peer.rejected === undefined ? { caller: peer.spiffeId } : { rejected: peer.rejected };
    const fields = {
      requestId,
      method,
      ...caller,
      kind,
      domainId,
      code: status[code],
      reason,
      durationMs: Math.round(durationMs * 1000) / 1000,
      connectionId: peer.connectionId,
      clientRequestId,
    };
    this.log[level](fields, 'call');
  }
}
