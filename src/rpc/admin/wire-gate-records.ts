import type { MessageInitShape } from '@bufbuild/protobuf';
import {
  type ActionConditionSchema,
  type GateShapeSchema,
  type ToolSchema,
  GateFieldKind as WireKind,
} from '../../gen/surety/authority/v1/records_pb.js';
import type {
  ActionConditionRow,
  GateFieldKind,
  GateShapeRow,
  ToolRow,
} from '../../ledger/action/gate-records.js';
import { shapeOf } from '../../ledger/action/gate-shapes.js';
import { WIRE_STATUSES } from '../wire-enums.js';

/** What gates are judged by, as the contract shows it. */

const WIRE_KINDS: Readonly<Record<GateFieldKind, WireKind>> = {
  text: WireKind.TEXT,
  expiry: WireKind.EXPIRY,
  expiry_or_unlimited: WireKind.EXPIRY_OR_UNLIMITED,
};

export function wireGateShape(row: GateShapeRow): MessageInitShape<typeof GateShapeSchema> {
  return {
    gateShapeId: row.gateShapeId,
    fields: shapeOf(row).fields.map(({ name, kind, value = '' }) => ({
      name,
      kind: WIRE_KINDS[kind],
      value,
    })),
    status: WIRE_STATUSES[row.status],
    revision: row.revision,
  };
}

export function wireActionCondition(row: ActionConditionRow): MessageInitShape<typeof ActionConditionSchema> {
  return {
    actionType: row.actionType,
    expression: row.expression,
    status: WIRE_STATUSES[row.status],
    revision: row.revision,
  };
}

export function wireTool(row: ToolRow): MessageInitShape<typeof ToolSchema> {
  return {
    toolName: row.toolName,
    nonGrantable: row.nonGrantable,
    status: WIRE_STATUSES[row.status],
    revision: row.revision,
  };
}
