import type { ToolRow } from '../../action/gate-records.js';
import type { RecordStatus } from '../../types.js';
import { ADMIN_ONLY, type MutationRule, nextRevision, requireRevision } from '../mutation-rule.js';

/** A tool of the catalogue. */
export interface PutTool {
  readonly kind: 'put_tool';
  readonly toolName: string;
  /** No bounded grant covers it. */
  readonly nonGrantable: boolean;
  readonly status: RecordStatus;
}

/** Enters a tool, or changes its mark and status; a suspended one counts as unknown (actions.md, Gate validator). */
export const putTool: MutationRule<PutTool> = {
  roles: ADMIN_ONLY,
  reads: ({ toolName }) => ({ tools: [toolName] }),
  apply: (draft, { kind: _, ...fields }, context) => {
    const before = draft.get('tools', fields.toolName);
    requireRevision(context, before);
    const row: ToolRow = { ...fields, revision: nextRevision(before) };
    draft.put('tools', row);
    return { type: 'tool', id: row.toolName, revision: row.revision };
  },
};
