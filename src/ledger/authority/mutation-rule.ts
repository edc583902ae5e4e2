import type { Reads } from '../reads.js';
import { type FieldViolation, type Refusal, refusal } from '../refusal.js';
import { Refused } from '../run-decision.js';
import type { Caller, CallerKind, Digest, Micros, OperatorRole, RecordStatus } from '../types.js';
import type { Draft } from '../working-set.js';
import type { CurrentOperator } from './current-operator.js';

/** What a mutation knows of the signed command around it. */
export interface MutationContext {
  readonly caller: Caller;
  readonly operator: CurrentOperator;
  /** Minted by the rpc layer, for the log. */
  readonly commandId: string;
  /** Of the signed payload. */
  readonly payloadDigest: Digest;
  /** Why, as the operator says. */
  readonly reason: string;
  /** The revision of the record that the command rests on; 0: it must not exist. */
  readonly expectedEntityRevision: bigint;
}

/** The record that a mutation made or changed. */
export interface ChangedRecord {
  readonly type: string;
  readonly id: string;
  readonly revision: bigint;
}

/**
 * How one kind of mutation is done. `apply` writes into the draft and refuses by throwing `Refused`; the signature, the
 * header and the roles have been checked.
 */
export interface MutationRule<Mutation> {
  /** The roles of which the signer needs one (authority.md, Records: operator). */
  readonly roles: readonly OperatorRole[];
  /** The rows that `apply` looks at. */
  readonly reads: (mutation: Mutation, domainId: string) => Reads;
  readonly apply: (draft: Draft, mutation: Mutation, context: MutationContext) => ChangedRecord;
}

/** Most of administration. */
export const ADMIN_ONLY: readonly OperatorRole[] = ['ADMIN'];
/** What the automation that registers workloads may do. */
export const REGISTRARS: readonly OperatorRole[] = ['ADMIN', 'REGISTRAR'];
/** Who may stop a domain or a sink. */
export const FREEZERS: readonly OperatorRole[] = ['ADMIN', 'FREEZER'];

/** The revision behind the present one; a new record's is 1. */
export function nextRevision(row: { readonly revision: bigint } | undefined): bigint {
  return (row?.revision ?? 0n) + 1n;
}

/**
 * A record that is to be made rests on 0 (authority.md, Signed commands).
 *
 * @throws {Refused} REVISION_STALE where the command rests on another revision of the record than the present one
 */
export function requireRevision(
  context: MutationContext,
  row: { readonly revision: bigint } | undefined,
): void {
  requireCurrent(
    context.expectedEntityRevision,
    row?.revision ?? 0n,
    "The record's revision is another one.",
  );
}

/** @throws {Refused} REVISION_STALE where `expected` is not `current` */
export function requireCurrent(expected: bigint, current: bigint, message: string): void {
  if (expected === current) return;
  throw new Refused(refusal('REVISION_STALE', message, { metadata: { current: current.toString() } }));
}

/** The refusal where a record that a command builds on is not there, or not in force. */
export function recordMissing(record: string): Refusal {
  return refusal('RECORD_MISSING', `The ${record} is missing or not in force.`, { metadata: { record } });
}

/** The refusal where a record is there, and another than the command describes. */
export function recordExists(type: string, name: string): Refusal {
  return refusal('RECORD_EXISTS', `The ${type} exists already.`, { resource: { type, name } });
}

/** @throws {Refused} RECORD_MISSING where the row is absent */
export function requireRecord<Row>(row: Row | undefined, record: string): Row {
  if (row === undefined) throw new Refused(recordMissing(record));
  return row;
}

/** @throws {Refused} RECORD_MISSING where the row is absent or not active */
export function requireActive<Row extends { readonly status: RecordStatus }>(
  row: Row | undefined,
  record: string,
): Row {
  if (row?.status !== 'active') throw new Refused(recordMissing(record));
  return row;
}

/** A revocation is final. @throws {Refused} RECORD_MISSING where a revoked record is to be anything else */
export function requireStatusChange(
  row: { readonly status: RecordStatus } | undefined,
  status: RecordStatus,
  record: string,
): void {
  if (row?.status === 'revoked' && status !== 'revoked') throw new Refused(recordMissing(record));
}

/**
 * What the store's clock says of a field is known only here.
 *
 * @param field path within the command, for example `create_grant.grant.expire_time`
 * @throws {Refused} FIELD_INVALID where the time has passed
 */
export function requireAhead(draft: Draft, time: Micros, field: string): void {
  if (time <= draft.now) throw commandFieldInvalid(field, "must lie ahead of the store's clock");
}

/** The refusal of one field of a signed command; `field` is its path within the command. */
export function commandFieldInvalid(field: string, rule: string): Refused {
  return commandFieldsInvalid([{ field, rule }]);
}

/** The refusal of fields of a signed command, each by its path within the command. */
export function commandFieldsInvalid(fields: readonly FieldViolation[]): Refused {
  const violations = fields.map(({ field, rule }) => ({ field: `command_jws.${field}`, rule }));
  return new Refused(refusal('FIELD_INVALID', 'A field of the command breaks a rule.', { violations }));
}

const OPERATOR_KINDS: ReadonlySet<CallerKind> = new Set(['operator', 'auditor']);

/**
 * Enters a SPIFFE ID as what it is in the domain: exactly one kind (identity.md, Callers). An operator may become an
 * auditor and the other way round, since both are one record. Needs the read `callers`.
 *
 * @throws {Refused} CALLER_KIND_CONFLICT where it is something else already
 */
export function putCaller(draft: Draft, spiffeId: string, kind: CallerKind, refId: string): void {
  const row = draft.get('callers', spiffeId);
  if (row?.kind === kind && row.refId === refId) return;
  const sameRecord = row && OPERATOR_KINDS.has(row.kind) && OPERATOR_KINDS.has(kind);
  if (row && !sameRecord) {
    const message = 'The SPIFFE ID is a caller of another kind, or of another record, in this domain.';
    throw new Refused(
      refusal('CALLER_KIND_CONFLICT', message, { resource: { type: 'caller', name: spiffeId } }),
    );
  }
  draft.put('callers', { spiffeId, kind, refId });
}
