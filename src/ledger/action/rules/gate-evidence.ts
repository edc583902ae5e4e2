import { sameDigest } from '../../encoding.js';
import { EVERY_SHAPE } from '../../reads.js';
import { refusal } from '../../refusal.js';
import { Refused } from '../../run-decision.js';
import type { Micros } from '../../types.js';
import { isCleanText, utf8Length } from '../../text.js';
import type { Draft } from '../../working-set.js';
import {
  APPROVAL_FIELDS,
  BINDING_METHOD_FIELD,
  BOUNDED_GRANT,
  BOUNDED_GRANT_METHOD,
  BUILT_IN_SHAPES,
  fieldsDigest,
  type GateShape,
  type GateShapeField,
  shapeOf,
  UNLIMITED,
} from '../gate-shapes.js';
import { isJsonObject, type Json, type JsonObject, parseIJson } from '../i-json.js';
import { MAX_DECISION_AHEAD } from '../limits.js';
import type { ActionRow } from '../records.js';

/** Longest text of a shape's field, in octets. */
const MAX_FIELD_OCTETS = 512;
const APPROVAL_NAMES: ReadonlySet<string> = new Set(APPROVAL_FIELDS);

/** The members of a piece of evidence; undefined where it is no JSON object. */
export function evidenceMembers(evidence: Uint8Array): JsonObject | undefined {
  const result = parseIJson(evidence);
  return 'fault' in result || !isJsonObject(result.value) ? undefined : result.value;
}

/**
 * The bounded grant that evidence names, where it has exactly the fields of an approval under one; undefined: it has others.
 */
export function namedBoundedGrant(evidence: Uint8Array): string | undefined {
  const members = evidenceMembers(evidence);
  if (!members || members.get(BINDING_METHOD_FIELD) !== BOUNDED_GRANT_METHOD) return undefined;
  const names = [...APPROVAL_FIELDS, ...BOUNDED_GRANT.fields.map(({ name }) => name)];
  const exact = members.size === names.length && names.every((name) => members.has(name));
  const grantId = members.get('grant_id');
  return exact && typeof grantId === 'string' ? grantId : undefined;
}

/** The refusal of a gate that does not allow what is asked. */
export function gateInvalid(rule: string): Refused {
  return new Refused(refusal('GATE_INVALID', "The action's gate does not allow it.", { metadata: { rule } }));
}

/** The refusal of an approval outside of its time. */
export function approvalExpired(rule: string): Refused {
  return new Refused(
    refusal('APPROVAL_EXPIRED', 'The approval is not good at this time.', { metadata: { rule } }),
  );
}

/** What an approval must say besides its shape's fields. */
export interface ApprovalExpectation {
  /** Undefined: whatever it is. */
  readonly approvalId: string | undefined;
  readonly decisionId: string;
  readonly decision: 'approved' | 'rejected';
}

/**
 * What the evidence of every approval binds (actions.md, BeginDispatch): service, store, domain, action, digests, ids,
 * decision, authority, revision 1, and its two times.
 *
 * @throws {Refused} GATE_INVALID naming the member, APPROVAL_EXPIRED
 */
export function requireApproval(
  draft: Draft,
  action: ActionRow,
  members: JsonObject,
  expected: ApprovalExpectation,
): void {
  const exact: readonly (readonly [(typeof APPROVAL_FIELDS)[number], Json])[] = [
    ['audience', draft.facts.audience],
    ['incarnation', Number(draft.facts.incarnation)],
    ['domain_id', draft.domainId],
    ['action_id', action.actionId],
    ['action_digest', action.actionDigest.toString('hex')],
    ['payload_digest', action.payloadDigest.toString('hex')],
    ['decision_id', expected.decisionId],
    ['decision', expected.decision],
    ['authority', 'owner'],
    ['revision', 1],
    ...(expected.approvalId === undefined ? [] : [['approval_id', expected.approvalId] as const]),
  ];
  for (const [name, value] of exact) if (members.get(name) !== value) throw gateInvalid(name);
  if (typeof members.get('approval_id') !== 'string') throw gateInvalid('approval_id');
  requireTimes(draft.now, members);
}

function requireTimes(now: Micros, members: JsonObject): void {
  const decidedAt = micros(members.get('decided_at'));
  const expiresAt = micros(members.get('expires_at'));
  if (decidedAt === undefined || decidedAt <= 0n) throw gateInvalid('decided_at');
  if (expiresAt === undefined || expiresAt <= decidedAt) throw gateInvalid('expires_at');
  if (decidedAt > now + MAX_DECISION_AHEAD) throw gateInvalid('decided_at');
  if (now >= expiresAt) throw approvalExpired('expires_at');
}

/**
 * The shape that the evidence has: the one whose fields it has exactly, never fewer and never more (actions.md, Gate
 * validator), each as the shape says; every expiry of it is enforced.
 *
 * Needs the read `allGateShapes`.
 *
 * @throws {Refused} GATE_INVALID with rule `shape` or the field's name, APPROVAL_EXPIRED
 */
export function requireShape(draft: Draft, members: JsonObject): GateShape {
  const shape = shapeWith(
    draft,
    [...members.keys()].filter((name) => !APPROVAL_NAMES.has(name)),
  );
  if (!shape) throw gateInvalid('shape');
  for (const field of shape.fields) requireField(draft.now, field, members.get(field.name));
  const reserved = members.get(BINDING_METHOD_FIELD) === BOUNDED_GRANT_METHOD;
  if (reserved && shape !== BOUNDED_GRANT) throw gateInvalid(BINDING_METHOD_FIELD);
  return shape;
}

function shapeWith(draft: Draft, names: readonly string[]): GateShape | undefined {
  const digest = fieldsDigest(names);
  const builtIn = BUILT_IN_SHAPES.find(({ fields }) =>
    sameDigest(fieldsDigest(fields.map(({ name }) => name)), digest),
  );
  if (builtIn) return builtIn;
  const row = draft
    .find('shapesOfDomain', EVERY_SHAPE)
    .find((shape) => shape.status === 'active' && sameDigest(shape.fieldsDigest, digest));
  return row && shapeOf(row);
}

function requireField(now: Micros, { name, kind, value }: GateShapeField, found: Json | undefined): void {
  if (kind === 'text') {
    if (!isFieldText(found) || (value !== undefined && found !== value)) throw gateInvalid(name);
    return;
  }
  if (kind === 'expiry_or_unlimited' && found === UNLIMITED) return;
  const expiresAt = micros(found);
  if (expiresAt === undefined) throw gateInvalid(name);
  if (now >= expiresAt) throw approvalExpired(name);
}

function isFieldText(value: Json | undefined): value is string {
  return (
    typeof value === 'string' && value !== '' && utf8Length(value) <= MAX_FIELD_OCTETS && isCleanText(value)
  );
}

/** A time of evidence: whole microseconds since the epoch. */
export function micros(value: Json | undefined): Micros | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? BigInt(value) : undefined;
}
