import { sameDigest } from '../../encoding.js';
import { type Refusal, refusal } from '../../refusal.js';
import type { Draft } from '../../working-set.js';
import type { ReconciliationEvidence } from '../evidence.js';
import type { TransitionCase } from '../transition-command.js';

/** A reconciler's workload id is this and its authority system. */
export const RECONCILER_PREFIX = 'effect-system:';

/**
 * Transition rule 9 (effects.md): a reconciler shares nothing with the executor: not the registration, and none of its
 * SPIFFE ID, certificate and proof key is or ever was one of the executor's. It speaks for a system that the domain names
 * for the sink. Needs the executor's versions and the effect's receipts.
 */
export function independenceRefusal(draft: Draft, at: TransitionCase): Refusal | undefined {
  if (at.kind.rpc !== 'reconcile') return undefined;
  const { effect, registration, command } = at;
  const { authoritySystemId } = command.evidence.fields as ReconciliationEvidence;
  if (registration.workloadId !== `${RECONCILER_PREFIX}${authoritySystemId}`)
    return notIndependent('workload_id');
  const sink = draft.get('sinks', effect.sink);
  if (!sink?.authoritySystems.includes(authoritySystemId)) return notIndependent('authority_system');
  const shared = sharedIdentity(draft, at);
  return shared === undefined ? undefined : notIndependent(shared);
}

function sharedIdentity(draft: Draft, { effect, registration, command }: TransitionCase): string | undefined {
  const executorId = effect.executorRegistrationId;
  // After a restore nobody is known to have sent it, and there is no executor to differ from.
  if (executorId === null) return undefined;
  if (executorId === registration.registrationId) return 'registration';
  const certificates = [registration.certificateDigest ?? undefined, command.caller.leafDigest];
  for (const version of draft.find('versionsOfRegistration', executorId)) {
    if (version.spiffeId === registration.spiffeId) return 'spiffe_id';
    if (version.proofKeyThumbprint === registration.proofKeyThumbprint) return 'proof_key';
    const certificate = version.certificateDigest ?? undefined;
    if (certificates.some((digest) => sameDigest(digest, certificate))) return 'certificate';
  }
  // Bound by SPIFFE ID, an executor's certificates stand only in its receipts.
  for (const receipt of draft.find('transitionsOfEffect', effect.effectId)) {
    if (receipt.role !== 'effect_executor') continue;
    if (receipt.spiffeId === registration.spiffeId) return 'spiffe_id';
    if (receipt.keyThumbprint === registration.proofKeyThumbprint) return 'proof_key';
    if (certificates.some((digest) => sameDigest(digest, receipt.leafDigest))) return 'certificate';
  }
  return undefined;
}

function notIndependent(rule: string): Refusal {
  return refusal(
    'RECONCILER_NOT_INDEPENDENT',
    'The reconciler is not independent of the executor, or not named.',
    {
      metadata: { rule },
    },
  );
}
