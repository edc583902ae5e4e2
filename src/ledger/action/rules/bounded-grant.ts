import { refusal } from '../../refusal.js';
import { Refused } from '../../run-decision.js';
import type { Draft } from '../../working-set.js';
import { UNLIMITED } from '../gate-shapes.js';
import type { JsonObject } from '../i-json.js';
import type { ActionRow, BoundedGrantRow } from '../records.js';
import { micros } from './gate-evidence.js';

/** The refusal of an approval under a bounded grant that does not allow it. */
export function grantNotUsable(rule: string): Refused {
  return new Refused(
    refusal('BOUNDED_GRANT_NOT_USABLE', 'The bounded grant does not allow it.', { metadata: { rule } }),
  );
}

/**
 * Whether a bounded grant allows the dispatch of an action now (actions.md, Bounded grant and Gate validator): unrevoked,
 * unexpired, in scope, with a use left; and the tool is one that the catalogue knows and does not mark. One of an earlier
 * incarnation allows nothing (effects.md, Restore): the restored store may have forgotten its uses, and its revocation.
 *
 * Needs the read `gateContext` of the action.
 *
 * @param evidence its members, which name the grant's own expiry
 * @throws {Refused} BOUNDED_GRANT_NOT_USABLE with the rule
 */
export function requireBoundedGrant(
  draft: Draft,
  action: ActionRow,
  grant: BoundedGrantRow,
  evidence: JsonObject,
): void {
  if (grant.incarnation !== draft.facts.incarnation) throw grantNotUsable('incarnation');
  if (grant.revokedAt !== null) throw grantNotUsable('revoked');
  if (grant.expiresAt !== null && draft.now >= grant.expiresAt) throw grantNotUsable('expired');
  const named = evidence.get('grant_expires_at');
  const sameExpiry = grant.expiresAt === null ? named === UNLIMITED : micros(named) === grant.expiresAt;
  if (!sameExpiry) throw grantNotUsable('expiry');
  if (!grant.sources.includes(action.source)) throw grantNotUsable('source');
  if (!grant.types.includes(action.type)) throw grantNotUsable('type');
  if (!grant.tools.includes(action.toolName)) throw grantNotUsable('tool');
  requireGrantableTool(draft, action.toolName);
  if (grant.uses >= grant.maxUses) throw grantNotUsable('exhausted');
}

/** A tool that the catalogue does not know is never covered; nor one that it marks. */
function requireGrantableTool(draft: Draft, toolName: string): void {
  const tool = draft.get('tools', toolName);
  if (tool?.status !== 'active') throw grantNotUsable('tool_unknown');
  if (tool.nonGrantable) throw grantNotUsable('non_grantable');
}

/** Consumes one use, for this action. */
export function useBoundedGrant(draft: Draft, grant: BoundedGrantRow, actionId: string): void {
  draft.put('bounded_grants', { ...grant, uses: grant.uses + 1n });
  draft.put('bounded_grant_uses', {
    boundedGrantId: grant.boundedGrantId,
    actionId,
    usedAt: draft.now,
  });
}
