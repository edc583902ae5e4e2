import { accept } from '../decision.js';
import { sameDigest } from '../encoding.js';
import { mergeReads } from '../reads.js';
import { refusal } from '../refusal.js';
import { Refused } from '../run-decision.js';
import type { Draft } from '../working-set.js';
import { callerReads, currentOwner, ownerNotCurrent, uncoveredScope } from './action-callers.js';
import type { AddBoundedGrant, BoundedGrantReply } from './commands.js';
import { fieldInvalid } from './fields-invalid.js';
import { MAX_GRANT_ISSUE_AGE, MAX_GRANT_ISSUE_AHEAD } from './limits.js';
import type { BoundedGrantRow } from './records.js';
import { counted } from './counted.js';
import type { OwnerRow } from '../authority/records.js';

/** actions.md, AddBoundedGrant: stores a grant signed by the calling owner's key, within its scopes; idempotent by its id. */
export const addBoundedGrant = counted<AddBoundedGrant, BoundedGrantReply>('ordinary', {
  kind: 'action.add_bounded_grant',
  serializeBy: (command) => `grant:${command.statement.boundedGrantId}`,
  reads: (command) =>
    mergeReads([callerReads(command), { boundedGrants: [command.statement.boundedGrantId] }]),
  decide(draft, command, now) {
    const { owner, keys } = currentOwner(draft, command);
    const { statement, keyThumbprint } = command;
    requireSigner(draft, command, owner);
    const stored = draft.get('bounded_grants', statement.boundedGrantId);
    if (stored) return accept({ grant: requireSameGrant(stored, command), duplicate: true });
    requireTimely(draft, command);
    requireWithinScopes(owner, command);
    const { audience: _a, domainId: _d, ...terms } = statement;
    const { seq } = draft.append({
      kind: 'bounded_grant',
      actorSpiffeId: owner.spiffeId,
      commandId: command.commandId,
      record: {
        type: 'bounded_grant',
        id: statement.boundedGrantId,
        revision: 1n,
        operation: 'add_bounded_grant',
        digest: command.statementDigest,
      },
    });
    const grant: BoundedGrantRow = {
      ...terms,
      ownerKeys: [...new Set([...keys, keyThumbprint])].sort(),
      signingKeyThumbprint: keyThumbprint,
      uses: 0n,
      revokedAt: null,
      createdAt: now,
      statementDigest: command.statementDigest,
      jws: command.jws,
      auditSeq: seq,
    };
    draft.put('bounded_grants', grant);
    return accept({ grant, duplicate: false });
  },
});

/** The signer is the calling owner, by its registered key, and the statement is meant for this service, store and domain. */
function requireSigner(draft: Draft, { statement, keyThumbprint }: AddBoundedGrant, owner: OwnerRow): void {
  if (owner.signingKeyThumbprint !== keyThumbprint) throw ownerNotCurrent('key');
  const rule =
    statement.ownerSpiffeId !== owner.spiffeId
      ? 'signer'
      : statement.audience !== draft.facts.audience
        ? 'audience'
        : statement.incarnation !== draft.facts.incarnation
          ? 'incarnation'
          : statement.domainId !== draft.domainId
            ? 'domain_id'
            : undefined;
  if (rule !== undefined) throw signatureInvalid(rule);
}

function requireSameGrant(stored: BoundedGrantRow, command: AddBoundedGrant): BoundedGrantRow {
  if (sameDigest(stored.statementDigest, command.statementDigest)) return stored;
  const resource = { type: 'bounded_grant', name: stored.boundedGrantId };
  throw new Refused(
    refusal('BOUNDED_GRANT_CONFLICT', 'The id stands for another bounded grant.', { resource }),
  );
}

function requireTimely(draft: Draft, { statement }: AddBoundedGrant): void {
  const age = draft.now - statement.issuedAt;
  if (age > MAX_GRANT_ISSUE_AGE || -age > MAX_GRANT_ISSUE_AHEAD) throw signatureInvalid('issued_time');
  if (statement.expiresAt !== null && statement.expiresAt <= draft.now) {
    throw fieldInvalid('grant_jws.expire_time', "must lie ahead of the store's clock");
  }
}

function requireWithinScopes(owner: OwnerRow, { statement }: AddBoundedGrant): void {
  for (const source of statement.sources) {
    for (const type of statement.types) {
      const field = uncoveredScope(owner, source, type);
      if (field === undefined) continue;
      throw new Refused(
        refusal('OWNER_SCOPE_MISSING', "The owner's scopes do not cover it.", { metadata: { field } }),
      );
    }
  }
}

function signatureInvalid(rule: string): Refused {
  const message =
    'The bounded grant is signed for another owner, service, store or domain, or at another time.';
  return new Refused(refusal('APPROVAL_SIGNATURE_INVALID', message, { metadata: { rule } }));
}
