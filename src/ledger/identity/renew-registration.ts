import { sameDigest } from '../encoding.js';
import { refusal } from '../refusal.js';
import { Refused } from '../run-decision.js';
import type { Draft } from '../working-set.js';
import type { RegistrationRow } from './records.js';
import type { ProvedRegistration } from './registration-fields.js';
import {
  possessionInvalid,
  requireProof,
  requireRenewable,
  requireStandingAllowed,
  storeVersion,
} from './registration-rules.js';

/** Whether this very renewal has been made: an exact repeat is answered from the row. */
export function isRenewed(row: RegistrationRow, proved: ProvedRegistration): boolean {
  return (
    row.credentialEpoch === proved.credentialEpoch &&
    sameDigest(row.possessionDigest, proved.possessionDigest)
  );
}

/**
 * Renews a registration (identity.md, Renew): only one that is active, unexpired and of the domain's revocation epoch,
 * which is copied, never refreshed, so that nobody renews himself out of a mass revocation. Session, process, certificate
 * and key may change; the new key's possession is proved. Expects epoch + 1, as a compare-and-swap.
 *
 * @throws {Refused}
 * @returns the new row, stored
 */
export function renewRegistration(
  draft: Draft,
  row: RegistrationRow,
  proved: ProvedRegistration,
): RegistrationRow {
  requireInForce(draft, row);
  requireNextEpoch(row, proved);
  requireSameIdentity(row, proved);
  requireProof(draft, proved);
  requireStandingAllowed(draft, proved);
  requireRenewable(draft, proved, row.firstIssuedAt);
  const renewed: RegistrationRow = {
    ...row,
    processId: proved.processId,
    processStartTime: proved.processStartTime,
    sessionId: proved.sessionId,
    certificateBinding: proved.certificateBinding,
    certificateDigest: proved.certificateDigest,
    proofKeyThumbprint: proved.proofKeyThumbprint,
    credentialEpoch: proved.credentialEpoch,
    issuedAt: proved.issuedAt,
    expiresAt: proved.expiresAt,
    renewableUntil: proved.renewableUntil,
    possessionDigest: proved.possessionDigest,
    updatedAt: draft.now,
  };
  storeVersion(draft, renewed, proved);
  return renewed;
}

/** The refusal of a registration that is not in force, by the rule that it breaks. */
export function workloadNotCurrent(rule: string): Refused {
  const message = 'The registration is not in force, or not for this.';
  return new Refused(refusal('WORKLOAD_NOT_CURRENT', message, { metadata: { rule } }));
}

function requireInForce(draft: Draft, row: RegistrationRow): void {
  if (row.status !== 'active') throw workloadNotCurrent('status');
  if (row.expiresAt <= draft.now) throw workloadNotCurrent('expire_time');
  if (row.revocationEpoch !== draft.domain.revocationEpoch) throw workloadNotCurrent('revocation_epoch');
}

function requireNextEpoch(row: RegistrationRow, proved: ProvedRegistration): void {
  if (proved.credentialEpoch === row.credentialEpoch + 1n) return;
  const metadata = { current: row.credentialEpoch.toString() };
  const message = 'The credential epoch is not one more than the current one.';
  throw new Refused(refusal('REVISION_STALE', message, { metadata }));
}

/** What a renewal leaves as it is. */
function requireSameIdentity(row: RegistrationRow, proved: ProvedRegistration): void {
  const same: readonly (readonly [string, boolean])[] = [
    ['spiffe_id', row.spiffeId === proved.spiffeId],
    ['role', row.role === proved.role],
    ['workload_id', row.workloadId === proved.workloadId],
    ['recipient_scope', row.recipientScope === proved.recipientScope],
    ['revocation_epoch', row.revocationEpoch === proved.revocationEpoch],
    ['parent_event_id', row.parentEventId === proved.parentEventId],
    ['grant_id', row.grantId === proved.grantId],
    ['sinks', sameSinks(row.sinks, proved.sinks)],
  ];
  for (const [rule, holds] of same) if (!holds) throw possessionInvalid(rule);
}

function sameSinks(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((sink, index) => sink === b[index]);
}
