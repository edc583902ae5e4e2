import { type MutationRule, REGISTRARS, requireCurrent, requireRecord } from '../authority/mutation-rule.js';
import type { RegistrationRow } from './records.js';
import { appendVersion } from './workload-audit.js';

export interface RevokeWorkload {
  readonly kind: 'revoke_workload';
  readonly registrationId: string;
}

/** Ends a registration for ever: its epoch goes up, so that no proof of the old one is current (identity.md, Revoke). */
export const revokeWorkload: MutationRule<RevokeWorkload> = {
  roles: REGISTRARS,
  reads: ({ registrationId }) => ({ registrations: [registrationId] }),
  apply: (draft, { registrationId }, context) => {
    const before = requireRecord(draft.get('registrations', registrationId), 'workload');
    requireCurrent(
      context.expectedEntityRevision,
      before.credentialEpoch,
      "The registration's epoch is another one.",
    );
    if (before.status === 'revoked') {
      return { type: 'workload', id: registrationId, revision: before.credentialEpoch };
    }
    const row: RegistrationRow = {
      ...before,
      status: 'revoked',
      credentialEpoch: before.credentialEpoch + 1n,
      updatedAt: draft.now,
    };
    draft.put('registrations', row);
    draft.put('registration_versions', {
      registrationId,
      credentialEpoch: row.credentialEpoch,
      role: row.role,
      spiffeId: row.spiffeId,
      certificateDigest: row.certificateDigest,
      proofKeyThumbprint: row.proofKeyThumbprint,
      status: row.status,
      possessionJws: null,
      storedAt: draft.now,
    });
    appendVersion(draft, row, {
      actorSpiffeId: context.caller.spiffeId,
      commandId: context.commandId,
      operation: 'revoke_workload',
      digest: context.payloadDigest,
    });
    return { type: 'workload', id: registrationId, revision: row.credentialEpoch };
  },
};
