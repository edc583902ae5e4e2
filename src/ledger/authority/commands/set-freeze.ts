import {
  commandFieldInvalid,
  FREEZERS,
  type MutationRule,
  nextRevision,
  requireRecord,
  requireRevision,
} from '../mutation-rule.js';
import { isFrozenByRestore, RESTORE_FREEZE } from '../restore-domain.js';
import { changeDomain } from './change-domain.js';

/** Stops, or lets go on, what begins new effects; all that settles or revokes goes on. */
export interface SetFreeze {
  readonly kind: 'set_freeze';
  /** Undefined: the whole domain. */
  readonly sink: string | undefined;
  readonly frozen: boolean;
}

/**
 * Freezes the domain or a sink, for the command's reason (authority.md, Freeze). A restore's freeze keeps its own reason
 * until it is ended: more than a freeze hangs on it. So nobody else freezes for that reason.
 */
export const setFreeze: MutationRule<SetFreeze> = {
  roles: FREEZERS,
  reads: ({ sink }) => (sink === undefined ? {} : { sinks: [sink] }),
  apply: (draft, { sink, frozen }, context) => {
    if (frozen && context.reason === RESTORE_FREEZE) {
      throw commandFieldInvalid(
        'header.reason',
        `must not be "${RESTORE_FREEZE}": a restore freezes for that`,
      );
    }
    const freezeReason = frozen ? context.reason : null;
    if (sink === undefined) {
      requireRevision(context, draft.domain);
      const kept = frozen && isFrozenByRestore(draft.domain) ? RESTORE_FREEZE : freezeReason;
      return changeDomain(draft, { frozen, freezeReason: kept });
    }
    const before = requireRecord(draft.get('sinks', sink), 'sink');
    requireRevision(context, before);
    const row = { ...before, frozen, freezeReason, revision: nextRevision(before) };
    draft.put('sinks', row);
    return { type: 'sink', id: sink, revision: row.revision };
  },
};
