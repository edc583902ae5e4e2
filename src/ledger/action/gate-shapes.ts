import { canonicalDigest } from '../encoding.js';
import type { Digest } from '../types.js';
import type { GateFieldKind, GateShapeRow } from './gate-records.js';

/** A field of a shape. */
export interface GateShapeField {
  readonly name: string;
  readonly kind: GateFieldKind;
  /** The only text that it may be; undefined: any. */
  readonly value?: string;
}

/** A shape that evidence can have: exactly these fields besides those of every approval. */
export interface GateShape {
  readonly gateShapeId: string;
  readonly fields: readonly GateShapeField[];
}

/** A domain has at most so many shapes of its own: all of them are read with every dispatch. */
export const MAX_GATE_SHAPES = 64;

/** What a built-in shape's id begins with. */
export const BUILT_IN_PREFIX = 'surety.';

/** The binding method of approvals under a bounded grant, reserved to them (actions.md, Gate validator). */
export const BOUNDED_GRANT_METHOD = 'bounded_grant';
export const BINDING_METHOD_FIELD = 'binding_method';
/** What an expiry says that never comes. */
export const UNLIMITED = 'unlimited';

/** The members that the evidence of every approval has, whatever its shape. */
export const APPROVAL_FIELDS = [
  'audience',
  'incarnation',
  'domain_id',
  'action_id',
  'action_digest',
  'payload_digest',
  'approval_id',
  'decision_id',
  'decision',
  'authority',
  'revision',
  'decided_at',
  'expires_at',
] as const;

const text = (name: string): GateShapeField => ({ name, kind: 'text' });

/** A message that is delivered for its event, once. */
export const MESSAGE_DELIVERY: GateShape = {
  gateShapeId: `${BUILT_IN_PREFIX}message_delivery`,
  fields: [
    text('channel'),
    text('thread'),
    text('event'),
    text('event_key'),
    text('delivery'),
    text('delivery_message'),
    text(BINDING_METHOD_FIELD),
  ],
};

/** An approval that an owner gave in advance. */
export const BOUNDED_GRANT: GateShape = {
  gateShapeId: `${BUILT_IN_PREFIX}bounded_grant`,
  fields: [
    text('grant_id'),
    text('source_request'),
    { name: 'grant_expires_at', kind: 'expiry_or_unlimited' },
    { name: BINDING_METHOD_FIELD, kind: 'text', value: BOUNDED_GRANT_METHOD },
  ],
};

/** The shapes that every domain has. */
export const BUILT_IN_SHAPES: readonly GateShape[] = [MESSAGE_DELIVERY, BOUNDED_GRANT];

/** What two shapes with the same fields have in common, in whatever order they name them. */
export function fieldsDigest(names: readonly string[]): Digest {
  return canonicalDigest('surety-gate-shape-v1', [[...names].sort()]);
}

/** A stored shape as one. */
export function shapeOf(row: GateShapeRow): GateShape {
  return {
    gateShapeId: row.gateShapeId,
    fields: row.fieldNames.map((name, i) => {
      const value = row.fieldValues[i] ?? '';
      return { name, kind: row.fieldKinds[i] ?? 'text', ...(value === '' ? {} : { value }) };
    }),
  };
}
