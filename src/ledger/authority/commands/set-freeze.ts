import {
  FREEZERS,
  type MutationRule,
  nextRevision,
  requireRecord,
  requireRevision,
} from '../mutation-rule.js';
import { changeDomain } from './change-domain.js';

/** Stops, or lets go on, what begins new effects; all that settles or revokes goes on. */
export interface SetFreeze {
  readonly kind: 'set_freeze';
  /** Undefined: the whole domain. */
  readonly sink: string | undefined;
  readonly frozen: boolean;
}

/** Freezes the domain or a sink, for the command's reason (authority.md, Freeze). */
export const setFreeze: MutationRule<SetFreeze> = {
  roles: FREEZERS,
  reads: ({ sink }) => (sink === undefined ? {} : { sinks: [sink] }),
  apply: (draft, { sink, frozen }, context) => {
    const freezeReason = frozen ? context.reason : null;
    if (sink === undefined) {
      requireRevision(context, draft.domain);
      return changeDomain(draft, { frozen, freezeReason });
    }
    const before = requireRecord(draft.get('sinks', sink), 'sink');
    requireRevision(context, before);
    const row = { ...before, frozen, freezeReason, revision: nextRevision(before) };
    draft.put('sinks', row);
    return { type: 'sink', id: sink, revision: row.revision };
  },
};
