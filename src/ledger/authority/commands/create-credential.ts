import { Refused } from '../../run-decision.js';
import type { CertificateBinding, Digest, Micros } from '../../types.js';
import {
  ADMIN_ONLY,
  type MutationRule,
  nextRevision,
  putCaller,
  recordExists,
  recordMissing,
  requireAhead,
  requireRecord,
  requireRevision,
} from '../mutation-rule.js';
import type { CredentialRow } from '../records.js';

/** What a harness's certificates are matched with. */
export interface CreateCredential {
  readonly kind: 'create_credential';
  readonly credentialId: string;
  readonly harnessId: string;
  /** Of the domain: the trust domain has been compared. */
  readonly spiffeId: string;
  readonly binding: CertificateBinding;
  readonly certificateDigest: Digest | null;
  /** Undefined: from now on. */
  readonly notBefore: Micros | undefined;
  readonly expiresAt: Micros;
}

/** Makes a credential of the harness's present epoch, and the SPIFFE ID a harness in this domain. */
export const createCredential: MutationRule<CreateCredential> = {
  roles: ADMIN_ONLY,
  reads: ({ credentialId, harnessId, spiffeId }) => ({
    credentials: [credentialId],
    harnesses: [harnessId],
    callers: [spiffeId],
  }),
  apply: (draft, { kind: _, ...fields }, context) => {
    const before = draft.get('credentials', fields.credentialId);
    if (before) throw new Refused(recordExists('credential', fields.credentialId));
    requireRevision(context, undefined);
    requireAhead(draft, fields.expiresAt, 'create_credential.credential.expire_time');
    const harness = requireRecord(draft.get('harnesses', fields.harnessId), 'harness');
    if (harness.status === 'revoked') throw new Refused(recordMissing('harness'));
    putCaller(draft, fields.spiffeId, 'harness', fields.harnessId);
    const row: CredentialRow = {
      ...fields,
      notBefore: fields.notBefore ?? draft.now,
      credentialEpoch: harness.credentialEpoch,
      status: 'active',
      revision: nextRevision(undefined),
    };
    draft.put('credentials', row);
    return { type: 'credential', id: row.credentialId, revision: row.revision };
  },
};
