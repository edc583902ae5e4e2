import type { ActionConditionRow } from '../../action/gate-records.js';
import type { RecordStatus } from '../../types.js';
import { ADMIN_ONLY, type MutationRule, nextRevision, requireRevision } from '../mutation-rule.js';

/** What must hold for every dispatch of a type of actions besides its gate. */
export interface PutActionCondition {
  readonly kind: 'put_action_condition';
  readonly actionType: string;
  /** CEL; it has been compiled. */
  readonly expression: string;
  readonly status: RecordStatus;
}

/** Creates or changes the condition of a type; a suspended one is not asked (actions.md, Gate validator). */
export const putActionCondition: MutationRule<PutActionCondition> = {
  roles: ADMIN_ONLY,
  reads: ({ actionType }) => ({ actionConditions: [actionType] }),
  apply: (draft, { kind: _, ...fields }, context) => {
    const before = draft.get('action_conditions', fields.actionType);
    requireRevision(context, before);
    const row: ActionConditionRow = { ...fields, revision: nextRevision(before) };
    draft.put('action_conditions', row);
    return { type: 'action_condition', id: row.actionType, revision: row.revision };
  },
};
