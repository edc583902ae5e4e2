import { notVisible } from '../audit/current-reader.js';
import { sameDigest } from '../encoding.js';
import type { Reads } from '../reads.js';
import { type Reason, type Refusal, refusal } from '../refusal.js';
import { Refused } from '../run-decision.js';
import type { Caller, CallerKind, WorkloadRole } from '../types.js';
import type { Draft } from '../working-set.js';
import type { RegistrationRow } from './records.js';
import { MAX_ISSUE_AHEAD } from './registration-rules.js';

/** A workload that asks for something without a proof. */
export interface WorkloadRequest {
  readonly caller: Caller;
  /** What the caller was admitted as; its row must still say so. */
  readonly kind: CallerKind;
  /** The registration that it speaks as, a selector that is checked against the peer; undefined: any in force. */
  readonly registrationId?: string | undefined;
}

/**
 * No effect has this id: for what is asked of no effect and under any registration, one in force of each kind is read, which
 * says as well as all of them whether the workload is current.
 */
export const NO_EFFECT = '';

/**
 * The rows that say who a workload is.
 *
 * @param effectId the one effect that it asks for: registrations for others need not be read; or {@link NO_EFFECT}
 */
export function workloadReads({ caller, registrationId }: WorkloadRequest, effectId?: string): Reads {
  const { spiffeId } = caller;
  const callers = [spiffeId];
  if (registrationId !== undefined) return { callers, registrations: [registrationId] };
  return effectId === undefined
    ? { callers, registrationsOfSpiffeId: [spiffeId] }
    : { callers, registrationsForEffect: [{ spiffeId, effectId }] };
}

/**
 * The registrations under which a workload acts now, one at least (identity.md, Callers). Needs {@link workloadReads}.
 *
 * @throws {Refused} CALLER_UNKNOWN, METHOD_NOT_ALLOWED, NOT_VISIBLE where the selected registration is not the peer's,
 *   WORKLOAD_NOT_CURRENT where none is in force
 */
export function currentRegistrations(
  draft: Draft,
  request: WorkloadRequest,
  role: WorkloadRole,
): readonly RegistrationRow[] {
  const { caller, kind } = request;
  const row = draft.get('callers', caller.spiffeId);
  if (!row || caller.trustDomain !== draft.domainId || caller.notAfter <= draft.now) {
    throw refused('CALLER_UNKNOWN', 'The caller is not registered in the domain.');
  }
  if (row.kind !== kind) {
    throw refused('METHOD_NOT_ALLOWED', 'The caller is of another kind by now.', { kind: row.kind });
  }
  const judged = ownRegistrations(draft, request).map((registration) => ({
    registration,
    rule: lapse(draft, caller, role, registration),
  }));
  const registrations = judged
    .filter(({ rule }) => rule === undefined)
    .map(({ registration }) => registration);
  if (registrations.length > 0) return registrations;
  throw refused('WORKLOAD_NOT_CURRENT', 'The caller has no registration in force.', {
    rule: judged[0]?.rule ?? 'registration',
  });
}

/** A registration of somebody else looks like one that is not there. */
function ownRegistrations(draft: Draft, { caller, registrationId }: WorkloadRequest): RegistrationRow[] {
  if (registrationId === undefined) return draft.find('registrationsOfSpiffeId', caller.spiffeId);
  const registration = draft.get('registrations', registrationId);
  if (registration?.spiffeId !== caller.spiffeId) throw new Refused(notVisible());
  return [registration];
}

/** Why a registration is not in force for its peer (effects.md, Transitions 2 and 3); undefined: it is. */
function lapse(
  draft: Draft,
  caller: Caller,
  role: WorkloadRole,
  registration: RegistrationRow,
): string | undefined {
  const { domain, now } = draft;
  if (registration.status !== 'active') return 'status';
  if (registration.issuedAt > now + MAX_ISSUE_AHEAD) return 'issue_time';
  if (registration.expiresAt <= now) return 'expiry';
  if (registration.role !== role) return 'role';
  // Workers never bind an event and a grant (identity.md, Bound and standing).
  const standing = role !== 'action_worker' && registration.parentEventId === null;
  if (standing && !domain.allowStanding) return 'standing';
  if (domain.status !== 'active') return 'domain';
  if (registration.revocationEpoch !== domain.revocationEpoch) return 'revocation_epoch';
  const bound = registration.certificateBinding === 'certificate';
  if (bound && !sameDigest(registration.certificateDigest ?? undefined, caller.leafDigest)) {
    return 'certificate';
  }
  return undefined;
}

function refused(reason: Reason, message: string, metadata: Refusal['metadata'] = {}): Refused {
  return new Refused(refusal(reason, message, { metadata }));
}
