import { countSafetyCall } from '../admission/admit-call.js';
import { accept, type CommandBase, type Decision } from '../decision.js';
import { sameDigest } from '../encoding.js';
import { refusal } from '../refusal.js';
import { Refused } from '../run-decision.js';
import type { Caller } from '../types.js';
import type { Draft } from '../working-set.js';
import type { RegistrationRow } from './records.js';
import type { ProvedRegistration } from './registration-fields.js';
import { possessionInvalid, registrationReads } from './registration-rules.js';
import { isRenewed, renewRegistration, workloadNotCurrent } from './renew-registration.js';
import { appendVersion } from './workload-audit.js';

/** A workload renews its own registration. */
export interface RenewWorkload extends CommandBase {
  readonly caller: Caller;
  readonly proved: ProvedRegistration;
  /** Of the key that signed the authorization: it must be the registration's current one. */
  readonly authorizationKeyThumbprint: string;
}

export interface RenewedWorkload {
  readonly registration: RegistrationRow;
  readonly proofKeyJwk: string;
  /** Whether an earlier call stored it. */
  readonly duplicate: boolean;
}

/**
 * `WorkloadService.RenewWorkload` (identity.md, Renew): by the current key of a registration that allows it, over the
 * caller's own connection, never beyond the time that an operator set, and never off the binding to a certificate.
 */
export const renewWorkload: Decision<RenewWorkload, RenewedWorkload> = {
  kind: 'renew_workload',
  reads: ({ proved }) => registrationReads(proved),
  decide: (draft, { caller, proved, authorizationKeyThumbprint, commandId }) => {
    const row = requireOwn(draft, caller, proved);
    const reply = (registration: RegistrationRow, duplicate: boolean) =>
      accept({ registration, proofKeyJwk: proved.proofKeyJwk, duplicate });
    if (isRenewed(row, proved)) return reply(row, true);
    if (authorizationKeyThumbprint !== row.proofKeyThumbprint) {
      const message = "The authorization is not by the registration's current key.";
      throw new Refused(refusal('PROOF_SIGNATURE_INVALID', message, { metadata: { rule: 'key' } }));
    }
    requireSelfRenewable(draft, row, proved);
    requireBindingKept(row, proved);
    countSafetyCall(draft, undefined);
    const renewed = renewRegistration(draft, row, proved);
    appendVersion(draft, renewed, {
      actorSpiffeId: caller.spiffeId,
      commandId,
      operation: 'renew_workload',
      digest: proved.possessionDigest,
    });
    return reply(renewed, false);
  },
};

/** The registration, if it is the peer's; an absent and a foreign one look alike. */
function requireOwn(draft: Draft, caller: Caller, proved: ProvedRegistration): RegistrationRow {
  if (caller.trustDomain !== draft.domainId || caller.notAfter <= draft.now) {
    throw new Refused(refusal('CALLER_UNKNOWN', 'The certificate is not one of a caller of this domain.'));
  }
  if (draft.domain.status !== 'active') {
    throw new Refused(refusal('DOMAIN_INACTIVE', 'The domain is not active.'));
  }
  const row = draft.get('registrations', proved.registrationId);
  if (row?.spiffeId !== caller.spiffeId) {
    throw new Refused(refusal('NOT_VISIBLE', 'There is nothing here that the caller may see.'));
  }
  const bound =
    row.certificateBinding === 'spiffe_id' ||
    sameDigest(row.certificateDigest ?? undefined, caller.leafDigest);
  // A repeat may come over the certificate that it renewed away from: it is the peer's by name.
  if (bound || isRenewed(row, proved)) return row;
  const message = 'The registration is bound to another certificate.';
  throw new Refused(refusal('PROOF_BINDING_MISMATCH', message, { metadata: { field: 'certificate' } }));
}

function requireSelfRenewable(draft: Draft, row: RegistrationRow, proved: ProvedRegistration): void {
  if (row.renewableUntil === null || row.renewableUntil <= draft.now) {
    throw workloadNotCurrent('renewable_until_time');
  }
  if (proved.expiresAt > row.renewableUntil) throw possessionInvalid('expire_time');
  if (proved.renewableUntil !== null && proved.renewableUntil > row.renewableUntil) {
    throw possessionInvalid('renewable_until_time');
  }
}

/**
 * One certificate may follow another, but that it is one and no other was decided by who registered it: whoever has the
 * key alone could else use it over any certificate of the name. Only an operator takes that off.
 */
function requireBindingKept(row: RegistrationRow, proved: ProvedRegistration): void {
  if (row.certificateBinding === 'certificate' && proved.certificateBinding !== 'certificate') {
    throw possessionInvalid('certificate_binding');
  }
}
