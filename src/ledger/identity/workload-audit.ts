import type { Digest } from '../types.js';
import type { AuditPosition, Draft } from '../working-set.js';
import type { RegistrationRow } from './records.js';

/** What is kept in the log of each version of a registration. */
export function appendVersion(
  draft: Draft,
  row: RegistrationRow,
  act: {
    readonly actorSpiffeId: string;
    readonly commandId: string;
    readonly operation: string;
    /** Of what was signed. */
    readonly digest: Digest;
  },
): AuditPosition {
  const { operation, digest, ...by } = act;
  return draft.append({
    kind: 'workload',
    ...by,
    record: { type: 'workload', id: row.registrationId, revision: row.credentialEpoch, operation, digest },
  });
}
