import {
  type ActionCondition,
  type GateShape,
  type Tool,
  type GateShapeField as WireField,
  GateFieldKind as WireKind,
} from '../../gen/surety/authority/v1/records_pb.js';
import type { GateFieldKind } from '../../ledger/action/gate-records.js';
import {
  APPROVAL_FIELDS,
  BINDING_METHOD_FIELD,
  BOUNDED_GRANT_METHOD,
  BUILT_IN_PREFIX,
  type GateShapeField,
} from '../../ledger/action/gate-shapes.js';
import type { Mutation } from '../../ledger/authority/mutations.js';
import { conditionFault } from '../action/condition.js';
import type { Violations } from '../validate.js';
import { MAX_ID_OCTETS } from './record-fields.js';

const MAX_SHAPE_FIELDS = 32;
const FIELD_NAME = /^[a-z0-9_]{1,64}$/;
const MAX_TEXT_OCTETS = 512;

const FIELD_KINDS: Readonly<Record<number, GateFieldKind>> = {
  [WireKind.TEXT]: 'text',
  [WireKind.EXPIRY]: 'expiry',
  [WireKind.EXPIRY_OR_UNLIMITED]: 'expiry_or_unlimited',
};
/** What is turned off can be turned on again. */
const SWITCHED = { 1: 'active', 2: 'suspended' } as const;

/** Reads a shape of gates: none of its fields is one that every approval has, or says that it is under a bounded grant. */
export function readGateShape(v: Violations, shape: GateShape): Mutation {
  const gateShapeId = v.id('gate_shape_id', shape.gateShapeId, 1, MAX_ID_OCTETS);
  if (gateShapeId.startsWith(BUILT_IN_PREFIX)) {
    v.refuse('gate_shape_id', `must not begin with ${BUILT_IN_PREFIX}`);
  }
  const fields = v.list('fields', shape.fields, 1, MAX_SHAPE_FIELDS, (path, field) =>
    readField(v.at(path), field),
  );
  if (new Set(fields.map(({ name }) => name)).size !== fields.length) {
    v.refuse('fields', 'must not hold a name twice');
  }
  return { kind: 'put_gate_shape', gateShapeId, fields, status: v.choice('status', shape.status, SWITCHED) };
}

function readField(v: Violations, field: WireField): GateShapeField {
  const { name, value } = field;
  if (!FIELD_NAME.test(name)) v.refuse('name', 'must be 1 to 64 of a to z, 0 to 9 and _');
  if ((APPROVAL_FIELDS as readonly string[]).includes(name)) {
    v.refuse('name', 'must not be one that every approval has');
  }
  const kind = v.choice('kind', field.kind, FIELD_KINDS);
  if (kind !== 'text' && value !== '') v.refuse('value', 'must be empty but for a text');
  if (name === BINDING_METHOD_FIELD && value === BOUNDED_GRANT_METHOD) {
    v.refuse('value', `must not be ${BOUNDED_GRANT_METHOD}`);
  }
  const only = v.optionalId('value', value, 1, MAX_TEXT_OCTETS);
  return { name, kind, ...(only === undefined ? {} : { value: only }) };
}

/** Reads the condition of a type of actions; it is compiled now, and not only when it is asked. */
export async function readActionCondition(v: Violations, condition: ActionCondition): Promise<Mutation> {
  const { expression } = condition;
  const fault = await conditionFault(expression);
  if (fault !== undefined) v.refuse('expression', fault);
  return {
    kind: 'put_action_condition',
    actionType: v.id('action_type', condition.actionType, 1, MAX_ID_OCTETS),
    expression,
    status: v.choice('status', condition.status, SWITCHED),
  };
}

/** Reads a tool of the catalogue. */
export function readTool(v: Violations, tool: Tool): Mutation {
  return {
    kind: 'put_tool',
    toolName: v.id('tool_name', tool.toolName, 1, MAX_ID_OCTETS),
    nonGrantable: tool.nonGrantable,
    status: v.choice('status', tool.status, SWITCHED),
  };
}
