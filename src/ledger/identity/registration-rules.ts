import { endRefusal } from '../authority/grant-rules.js';
import { recordMissing } from '../authority/mutation-rule.js';
import type { Reads } from '../reads.js';
import { refusal } from '../refusal.js';
import { Refused } from '../run-decision.js';
import { DAY, HOUR, MINUTE, type Micros, SECOND } from '../types.js';
import type { Draft } from '../working-set.js';
import type { RegistrationRow } from './records.js';
import type { ProvedRegistration } from './registration-fields.js';

/** A proof of possession is fresh for so long (identity.md, Workload registration). */
export const MAX_ISSUE_AGE: Micros = 5n * MINUTE;
/** A workload's clock may run ahead by so much, as a transition's may (effects.md, Transitions 3). */
export const MAX_ISSUE_AHEAD: Micros = 60n * SECOND;
/** The longest validity of one version. */
export const MAX_VALIDITY: Micros = HOUR;
/** A workload renews itself for at most so long after its first issue. */
export const MAX_RENEWABLE: Micros = DAY;

/** The rows that any registration is judged by. */
export function registrationReads(proved: ProvedRegistration): Reads {
  const { parentEventId, grantId, recipientScope } = proved;
  const bound = parentEventId !== null && grantId !== null;
  return {
    registrations: [proved.registrationId],
    callers: [proved.spiffeId],
    proofKeys: [proved.proofKeyThumbprint],
    keyHolders: [proved.proofKeyThumbprint],
    ...(recipientScope === '*' ? {} : { harnesses: [recipientScope] }),
    ...(bound ? { events: [parentEventId], grants: [grantId] } : {}),
    ...(bound ? { unsettled: [{ eventId: parentEventId, grantId }] } : {}),
    ...(proved.sinks.length === 0 ? {} : { sinks: proved.sinks }),
  };
}

/** The refusal of a proof of possession that names another value than it must. */
export function possessionInvalid(rule: string): Refused {
  const message = 'The proof of possession names another value than it must.';
  return new Refused(refusal('POSSESSION_INVALID', message, { metadata: { rule } }));
}

/**
 * What every new version of a registration must be: meant for this service, incarnation and domain, freshly issued, with
 * a key that never was another registration's with another role.
 *
 * @throws {Refused} POSSESSION_INVALID with the rule, KEY_REUSED
 */
export function requireProof(draft: Draft, proved: ProvedRegistration): void {
  if (proved.audience !== draft.facts.audience) throw possessionInvalid('audience');
  if (proved.incarnation !== draft.facts.incarnation) throw possessionInvalid('incarnation');
  if (proved.domainId !== draft.domainId) throw possessionInvalid('domain_id');
  const age = draft.now - proved.issuedAt;
  if (age > MAX_ISSUE_AGE || -age > MAX_ISSUE_AHEAD) throw possessionInvalid('issued_time');
  const { expiresAt } = proved;
  if (expiresAt <= draft.now || expiresAt - proved.issuedAt > MAX_VALIDITY)
    throw possessionInvalid('expire_time');
  const reused = draft
    .find('versionsWithKey', proved.proofKeyThumbprint)
    .some((version) => version.registrationId !== proved.registrationId && version.role !== proved.role);
  if (reused)
    throw new Refused(refusal('KEY_REUSED', "The key was another registration's with another role."));
}

/**
 * What a registration may be for: an event and a grant, or, where the domain allows it, standing for the sinks that it
 * names; workers never bind either (identity.md, Bound and standing).
 *
 * @throws {Refused} RECORD_MISSING, STANDING_NOT_ALLOWED
 */
export function requirePurpose(draft: Draft, proved: ProvedRegistration): void {
  if (proved.recipientScope !== '*' && !draft.get('harnesses', proved.recipientScope)) {
    throw new Refused(recordMissing('harness'));
  }
  if (proved.role === 'action_worker') return;
  const { parentEventId, grantId } = proved;
  if (parentEventId === null || grantId === null) {
    requireStandingAllowed(draft, proved);
    for (const sink of proved.sinks) if (!draft.get('sinks', sink)) throw new Refused(recordMissing('sink'));
    return;
  }
  if (!draft.get('events', parentEventId)) throw new Refused(recordMissing('event'));
  const grant = draft.get('grants', grantId);
  const settles =
    proved.role === 'effect_reconciler' && draft.find('unsettledOf', parentEventId, grantId).length > 0;
  if (!grant || (endRefusal(grant, draft.now) && !settles)) throw new Refused(recordMissing('grant'));
}

/**
 * How long a registration may renew itself: until 24 h after its first issue, and no longer than its grant, unless that has
 * ended before, which only a reconciler's may have.
 *
 * @throws {Refused} POSSESSION_INVALID
 */
export function requireRenewable(draft: Draft, proved: ProvedRegistration, firstIssuedAt: Micros): void {
  const { renewableUntil, grantId } = proved;
  if (renewableUntil === null) return;
  const grant = grantId === null ? undefined : draft.get('grants', grantId);
  const tooLong =
    renewableUntil > firstIssuedAt + MAX_RENEWABLE ||
    (grant && !endRefusal(grant, draft.now) && renewableUntil > grant.expiresAt);
  if (tooLong) throw possessionInvalid('renewable_until_time');
}

/** Stores a version: the current row, the append-only one, and the key under its own digest. */
export function storeVersion(draft: Draft, row: RegistrationRow, proved: ProvedRegistration): void {
  draft.put('registrations', row);
  draft.put('registration_versions', {
    registrationId: row.registrationId,
    credentialEpoch: row.credentialEpoch,
    role: row.role,
    spiffeId: row.spiffeId,
    certificateDigest: row.certificateDigest,
    proofKeyThumbprint: row.proofKeyThumbprint,
    status: row.status,
    possessionJws: proved.possessionJws,
    storedAt: draft.now,
  });
  if (draft.get('proof_keys', proved.proofKeyThumbprint)) return;
  draft.put('proof_keys', {
    thumbprint: proved.proofKeyThumbprint,
    publicJwk: proved.proofKeyJwk,
    firstSeenAt: draft.now,
  });
}

/** @throws {Refused} STANDING_NOT_ALLOWED where a registration for effects is bound to nothing and the domain forbids that */
export function requireStandingAllowed(draft: Draft, proved: ProvedRegistration): void {
  const standing = proved.role !== 'action_worker' && proved.grantId === null;
  if (!standing || draft.domain.allowStanding) return;
  throw new Refused(
    refusal('STANDING_NOT_ALLOWED', 'The domain allows no registration without an event and a grant.'),
  );
}
