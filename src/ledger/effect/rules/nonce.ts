import { canonicalDigest, sameDigest } from '../../encoding.js';
import { type Refusal, refusal } from '../../refusal.js';
import type { Digest } from '../../types.js';
import type { Draft } from '../../working-set.js';
import { NONCE_KEEP } from '../limits.js';
import type { TransitionCase } from '../transition-command.js';

/** The key under which a registration spends a nonce. */
export function nonceDigest(nonce: string): Digest {
  return canonicalDigest('surety-transition-nonce-v1', [nonce]);
}

/** Transition rule 12 (effects.md): whether the registration has spent the nonce on another statement. */
export function nonceRefusal(draft: Draft, at: TransitionCase): Refusal | undefined {
  const spent = spentNonce(draft, at);
  return spent === undefined || sameDigest(spent.statementDigest, at.command.proof.statementDigest)
    ? undefined
    : refusal('PROOF_REPLAYED', 'The nonce was spent on another statement.');
}

/** Spends it: kept until no token with it can verify any more. */
export function spendNonce(draft: Draft, at: TransitionCase): void {
  if (spentNonce(draft, at)) return;
  const { statement, statementDigest } = at.command.proof;
  const verifiable = statement.issuedAt + NONCE_KEEP;
  const { registrationId, expiresAt } = at.registration;
  draft.put('transition_nonces', {
    registrationId,
    nonceDigest: nonceDigest(statement.nonce),
    statementDigest,
    expiresAt: verifiable > expiresAt ? verifiable : expiresAt,
  });
}

function spentNonce(draft: Draft, at: TransitionCase) {
  return draft.get(
    'transition_nonces',
    at.registration.registrationId,
    nonceDigest(at.command.proof.statement.nonce),
  );
}
