import type { GateShapeRow } from '../../action/gate-records.js';
import {
  BUILT_IN_SHAPES,
  fieldsDigest,
  type GateShapeField,
  MAX_GATE_SHAPES,
} from '../../action/gate-shapes.js';
import { sameDigest } from '../../encoding.js';
import { EVERY_SHAPE } from '../../reads.js';
import { refusal } from '../../refusal.js';
import { Refused } from '../../run-decision.js';
import type { RecordStatus } from '../../types.js';
import type { Draft } from '../../working-set.js';
import {
  ADMIN_ONLY,
  commandFieldInvalid,
  type MutationRule,
  nextRevision,
  requireRevision,
} from '../mutation-rule.js';

/** What evidence of gates may look like in this domain, besides what every approval has. */
export interface PutGateShape {
  readonly kind: 'put_gate_shape';
  readonly gateShapeId: string;
  readonly fields: readonly GateShapeField[];
  readonly status: RecordStatus;
}

/**
 * Creates a shape, or changes its status; gates of a suspended one are not good meanwhile. Evidence is matched by its exact
 * set of fields, so no two shapes have the same (actions.md, Gate validator).
 */
export const putGateShape: MutationRule<PutGateShape> = {
  roles: ADMIN_ONLY,
  reads: ({ gateShapeId }) => ({ gateShapes: [gateShapeId], allGateShapes: [EVERY_SHAPE] }),
  apply: (draft, { gateShapeId, fields, status }, context) => {
    const before = draft.get('gate_shapes', gateShapeId);
    requireRevision(context, before);
    const row: GateShapeRow = { gateShapeId, ...columns(fields), status, revision: nextRevision(before) };
    if (before) requireSameFields(before, row);
    else requireFree(draft, row);
    draft.put('gate_shapes', row);
    return { type: 'gate_shape', id: gateShapeId, revision: row.revision };
  },
};

function columns(fields: readonly GateShapeField[]) {
  const sorted = [...fields].sort((a, b) => (a.name < b.name ? -1 : 1));
  return {
    fieldNames: sorted.map(({ name }) => name),
    fieldKinds: sorted.map(({ kind }) => kind),
    fieldValues: sorted.map(({ value }) => value ?? ''),
    fieldsDigest: fieldsDigest(sorted.map(({ name }) => name)),
  };
}

function requireSameFields(before: GateShapeRow, row: GateShapeRow): void {
  const same = (['fieldNames', 'fieldKinds', 'fieldValues'] as const).every(
    (list) => before[list].join('\0') === row[list].join('\0'),
  );
  if (!same) throw commandFieldInvalid('put_gate_shape.gate_shape.fields', 'must be what they were');
}

function requireFree(draft: Draft, row: GateShapeRow): void {
  const shapes = draft.find('shapesOfDomain', EVERY_SHAPE);
  const stored = shapes.find((shape) => sameDigest(shape.fieldsDigest, row.fieldsDigest));
  const builtIn = BUILT_IN_SHAPES.find(({ fields }) =>
    sameDigest(fieldsDigest(fields.map(({ name }) => name)), row.fieldsDigest),
  );
  const name = stored?.gateShapeId ?? builtIn?.gateShapeId;
  if (name !== undefined) {
    const resource = { type: 'gate_shape', name };
    throw new Refused(refusal('GATE_SHAPE_OVERLAP', 'Another shape has exactly these fields.', { resource }));
  }
  if (shapes.length >= MAX_GATE_SHAPES) {
    throw commandFieldInvalid('put_gate_shape.gate_shape', `a domain has at most ${MAX_GATE_SHAPES} shapes`);
  }
}
