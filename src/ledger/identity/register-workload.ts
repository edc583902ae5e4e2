import {
  type MutationRule,
  putCaller,
  REGISTRARS,
  recordExists,
  requireCurrent,
  requireRevision,
} from '../authority/mutation-rule.js';
import { Refused } from '../run-decision.js';
import type { CallerKind, WorkloadRole } from '../types.js';
import type { RegistrationRow } from './records.js';
import type { ProvedRegistration } from './registration-fields.js';
import {
  possessionInvalid,
  registrationReads,
  requireProof,
  requirePurpose,
  requireRenewable,
  storeVersion,
} from './registration-rules.js';
import { appendVersion } from './workload-audit.js';

/** A new workload, by an operator, with the workload's own proof of possession. */
export interface RegisterWorkload {
  readonly kind: 'register_workload';
  readonly proved: ProvedRegistration;
}

const KINDS: Readonly<Record<WorkloadRole, CallerKind>> = {
  effect_executor: 'executor',
  effect_reconciler: 'reconciler',
  action_worker: 'worker',
};

/** Registers a workload (identity.md, Workload registration): its first version. */
export const registerWorkload: MutationRule<RegisterWorkload> = {
  roles: REGISTRARS,
  reads: ({ proved }) => registrationReads(proved),
  apply: (draft, { proved }, context) => {
    requireRevision(context, undefined);
    requireProof(draft, proved);
    if (draft.get('registrations', proved.registrationId)) {
      throw new Refused(recordExists('workload', proved.registrationId));
    }
    if (proved.credentialEpoch !== 1n) throw possessionInvalid('credential_epoch');
    requireCurrent(
      proved.revocationEpoch,
      draft.domain.revocationEpoch,
      "The revocation epoch is not the domain's current one.",
    );
    requirePurpose(draft, proved);
    requireRenewable(draft, proved, proved.issuedAt);
    putCaller(draft, proved.spiffeId, KINDS[proved.role], proved.spiffeId);
    const row = firstVersion(proved, draft.now);
    storeVersion(draft, row, proved);
    appendVersion(draft, row, {
      actorSpiffeId: context.caller.spiffeId,
      commandId: context.commandId,
      operation: 'register_workload',
      digest: proved.possessionDigest,
    });
    return { type: 'workload', id: row.registrationId, revision: row.credentialEpoch };
  },
};

function firstVersion(proved: ProvedRegistration, now: bigint): RegistrationRow {
  const {
    audience: _a,
    incarnation: _i,
    domainId: _d,
    proofKeyJwk: _k,
    possessionJws: _p,
    ...fields
  } = proved;
  return { ...fields, status: 'active', firstIssuedAt: proved.issuedAt, updatedAt: now };
}
