import type { ActionScope as WireScope } from '../../gen/surety/action/v1/action_pb.js';
import type { ReceiptInput } from '../../gen/surety/action/v1/receipt_pb.js';
import type { ActionScope, ReceiptContent } from '../../ledger/action/commands.js';
import { MAX_DELAY, MAX_SCOPE_ACTIONS, MAX_SCOPE_TYPES } from '../../ledger/action/limits.js';
import { evidenceFault } from '../../ledger/action/payload.js';
import { RESERVED_KINDS } from '../../ledger/action/receipts.js';
import type { Micros } from '../../ledger/types.js';
import type { CallContext } from '../handler.js';
import type { TimeFields, Violations } from '../validate.js';

/** Fields that requests of the action service have in common (action_service.proto); lengths in octets of UTF-8. */
export const MAX_NAME_OCTETS = 256;
export const MAX_SOURCE_REF_OCTETS = 512;
const MAX_KIND_OCTETS = 128;
const MAX_EXTERNAL_ID_OCTETS = 512;
const MIN_REQUEST_ID_OCTETS = 16;
const MAX_REQUEST_ID_OCTETS = 64;
const NANOS_PER_MICRO = 1000;
/** Lease tokens and positions of the log have 63 bits. */
export const MAX_POSITION = 2n ** 63n - 1n;

/** What every command of a call has. */
export function commandBase({ domainId, requestId, caller }: CallContext) {
  return { domainId, commandId: requestId, caller };
}

/** A text of 1 to 256 octets. */
export function readName(v: Violations, field: string, value: string): string {
  return v.id(field, value, 1, MAX_NAME_OCTETS);
}

export function readActionId(v: Violations, actionId: string): string {
  return readName(v, 'action_id', actionId);
}

/** For a worker with several registrations the one that it speaks as; nobody else has one. */
export function readRegistrationId(
  v: Violations,
  { kind }: Pick<CallContext, 'kind'>,
  registrationId: string,
): string | undefined {
  if (kind !== 'worker' && registrationId !== '')
    v.refuse('registration_id', 'must be empty but for a worker');
  return v.optionalId('registration_id', registrationId, 1, MAX_NAME_OCTETS);
}

export function readLeaseToken(v: Violations, token: bigint): bigint {
  return v.integer('lease_token', token, 1n, MAX_POSITION);
}

/** What an exact repeat of the call is known by. */
export function readRequestId(v: Violations, requestId: string): string {
  return v.id('request_id', requestId, MIN_REQUEST_ID_OCTETS, MAX_REQUEST_ID_OCTETS);
}

/** How long an action is not handed out: more than nothing, a day at most. */
export function readDelay(v: Violations, delay: TimeFields | undefined): Micros {
  const nothing = delay?.seconds === 0n && Math.trunc(delay.nanos / NANOS_PER_MICRO) === 0;
  if (!nothing) return v.duration('delay', delay, 0n, MAX_DELAY);
  v.refuse('delay', 'must be above 0');
  return 0n;
}

/** Exact bytes of JSON. */
export function readEvidence(v: Violations, field: string, evidence: Uint8Array): Buffer {
  const fault = evidenceFault(evidence, field);
  if (fault) v.refuse(fault.field, fault.rule);
  return Buffer.from(evidence);
}

const NO_RECEIPT: ReceiptContent = {
  receiptKey: '',
  kind: '',
  status: '',
  externalId: '',
  evidence: Buffer.alloc(0),
};

/** A general receipt: no kind that the service itself records, through whatever door it comes (actions.md, AddReceipt). */
export function readReceipt(violations: Violations, receipt: ReceiptInput | undefined): ReceiptContent {
  if (receipt === undefined) {
    violations.refuse('receipt', 'is required');
    return NO_RECEIPT;
  }
  const v = violations.at('receipt');
  if (RESERVED_KINDS.has(receipt.kind)) v.refuse('kind', `must not be ${[...RESERVED_KINDS].join(', ')}`);
  return {
    receiptKey: readName(v, 'receipt_key', receipt.receiptKey),
    kind: v.id('kind', receipt.kind, 1, MAX_KIND_OCTETS),
    status: v.id('status', receipt.status, 1, MAX_KIND_OCTETS),
    externalId: v.id('external_id', receipt.externalId, 0, MAX_EXTERNAL_ID_OCTETS),
    evidence: readEvidence(v, 'evidence', receipt.evidence),
  };
}

/** Which actions a worker is for. An absent scope does not narrow. */
export function readScope(violations: Violations, scope: WireScope | undefined): ActionScope {
  const v = violations.at('scope');
  const names = { min: 0, max: MAX_SCOPE_TYPES, minOctets: 1, maxOctets: MAX_NAME_OCTETS };
  const { sourceScope } = scope ?? {};
  return {
    source: sourceScope?.case === 'source' ? readName(v, 'source', sourceScope.value) : null,
    sourcePrefix:
      sourceScope?.case === 'sourcePrefix' ? readName(v, 'source_prefix', sourceScope.value) : null,
    types: v.textSet('types', scope?.types ?? [], names),
    actionIds: v.textSet('action_ids', scope?.actionIds ?? [], { ...names, max: MAX_SCOPE_ACTIONS }),
  };
}
