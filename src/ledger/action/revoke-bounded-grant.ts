import { accept } from '../decision.js';
import { mergeReads } from '../reads.js';
import { callerReads, currentOwner, requireVisible } from './action-callers.js';
import type { BoundedGrantReply, RevokeBoundedGrant } from './commands.js';
import type { BoundedGrantRow } from './records.js';
import { counted } from './counted.js';

/** actions.md, RevokeBoundedGrant: ends a grant of the calling owner for ever; what was dispatched under it goes on. */
export const revokeBoundedGrant = counted<RevokeBoundedGrant, BoundedGrantReply>('safety', {
  kind: 'action.revoke_bounded_grant',
  serializeBy: (command) => `grant:${command.boundedGrantId}`,
  reads: (command) => mergeReads([callerReads(command), { boundedGrants: [command.boundedGrantId] }]),
  decide(draft, command, now) {
    const { owner } = currentOwner(draft, command);
    const stored = draft.get('bounded_grants', command.boundedGrantId);
    requireVisible(stored?.ownerSpiffeId === owner.spiffeId);
    const before = stored as BoundedGrantRow;
    if (before.revokedAt !== null) return accept({ grant: before, duplicate: true });
    const { seq } = draft.append({
      kind: 'bounded_grant',
      actorSpiffeId: owner.spiffeId,
      commandId: command.commandId,
      record: {
        type: 'bounded_grant',
        id: before.boundedGrantId,
        revision: 2n,
        operation: 'revoke_bounded_grant',
        digest: before.statementDigest,
      },
    });
    const grant: BoundedGrantRow = { ...before, revokedAt: now, auditSeq: seq };
    draft.put('bounded_grants', grant);
    return accept({ grant, duplicate: false });
  },
});
