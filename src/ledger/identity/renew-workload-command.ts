import { type MutationRule, REGISTRARS, requireCurrent, requireRecord } from '../authority/mutation-rule.js';
import type { ProvedRegistration } from './registration-fields.js';
import { registrationReads } from './registration-rules.js';
import { isRenewed, renewRegistration } from './renew-registration.js';
import { appendVersion } from './workload-audit.js';

/** A renewal by an operator, with the workload's proof of possession of the new key. */
export interface RenewWorkloadCommand {
  readonly kind: 'renew_workload';
  readonly proved: ProvedRegistration;
}

const EPOCH_MOVED = "The registration's epoch is another one.";

/** Renews a registration by command; the registration need not be one that may renew itself. */
export const renewWorkloadCommand: MutationRule<RenewWorkloadCommand> = {
  roles: REGISTRARS,
  reads: ({ proved }) => registrationReads(proved),
  apply: (draft, { proved }, context) => {
    const before = requireRecord(draft.get('registrations', proved.registrationId), 'workload');
    if (!isRenewed(before, proved)) {
      requireCurrent(context.expectedEntityRevision, before.credentialEpoch, EPOCH_MOVED);
      const row = renewRegistration(draft, before, proved);
      appendVersion(draft, row, {
        actorSpiffeId: context.caller.spiffeId,
        commandId: context.commandId,
        operation: 'renew_workload',
        digest: proved.possessionDigest,
      });
    }
    return { type: 'workload', id: proved.registrationId, revision: proved.credentialEpoch };
  },
};
