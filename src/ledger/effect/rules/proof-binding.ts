import { sameDigest } from '../../encoding.js';
import { type Refusal, refusal } from '../../refusal.js';
import type { Draft } from '../../working-set.js';
import { PROOF_MAX_AGE, PROOF_MAX_AHEAD } from '../limits.js';
import type { EffectRow } from '../records.js';
import type { StatementFields } from '../statement.js';
import type { TransitionCase } from '../transition-command.js';

type Bound = Omit<StatementFields, 'fromState' | 'toState' | 'issuedAt' | 'nonce' | 'evidenceDigest'>;

/** The wire's names of the bound values, for the refusal. */
const FIELD_NAMES: { readonly [Field in keyof Bound]: string } = {
  audience: 'audience',
  incarnation: 'incarnation',
  domainId: 'domain_id',
  registrationId: 'registration_id',
  workloadId: 'workload_id',
  role: 'role',
  processId: 'process_id',
  processStart: 'process_start_time',
  sessionId: 'session_id',
  credentialEpoch: 'credential_epoch',
  revocationEpoch: 'revocation_epoch',
  parentEventId: 'parent_event_id',
  grantId: 'grant_id',
  effectId: 'effect_id',
  fence: 'fence',
};

/** As much of a transition as the rule looks at: of an effect, or of its tombstone. */
export interface ProofCase extends Pick<TransitionCase, 'kind' | 'command' | 'registration'> {
  readonly effect: Pick<EffectRow, 'effectId' | 'eventId' | 'grantId' | 'fence'>;
}

/**
 * Transition rule 3 (effects.md): the peer and the key are the registration's own and current ones, every bound value
 * equals the row's, the states are an edge of this RPC, the issue time is inside its window. Peer and key come first:
 * who is neither must not learn from the field that is named how far a guess was right.
 */
export function proofBindingRefusal(draft: Draft, at: ProofCase): Refusal | undefined {
  const { statement, keyThumbprint } = at.command.proof;
  const peer = peerMismatch(at);
  if (peer !== undefined) return mismatch(peer);
  if (keyThumbprint !== at.registration.proofKeyThumbprint) return mismatch('kid');
  const expected = boundValues(draft, at);
  for (const [field, name] of Object.entries(FIELD_NAMES) as [keyof Bound, string][]) {
    if (statement[field] !== expected[field]) return mismatch(name);
  }
  if (!sameDigest(statement.evidenceDigest, at.command.evidence.digest)) return mismatch('evidence_digest');
  if (statement.fromState !== at.kind.from) return mismatch('from_state');
  if (!at.kind.to.includes(statement.toState)) return mismatch('to_state');
  if (statement.issuedAt < draft.now - PROOF_MAX_AGE || statement.issuedAt > draft.now + PROOF_MAX_AHEAD) {
    return refusal('PROOF_EXPIRED', 'The proof was issued too long ago, or in the future.');
  }
  return undefined;
}

function boundValues(draft: Draft, { effect, registration }: ProofCase): Bound {
  return {
    audience: draft.facts.audience,
    incarnation: draft.facts.incarnation,
    domainId: draft.domainId,
    registrationId: registration.registrationId,
    workloadId: registration.workloadId,
    role: registration.role,
    processId: registration.processId,
    processStart: registration.processStartTime,
    sessionId: registration.sessionId,
    credentialEpoch: registration.credentialEpoch,
    revocationEpoch: registration.revocationEpoch,
    parentEventId: effect.eventId,
    grantId: effect.grantId,
    effectId: effect.effectId,
    fence: effect.fence,
  };
}

/** A token sent by any other certificate proves nothing. */
function peerMismatch({ command, registration }: ProofCase): string | undefined {
  if (command.caller.spiffeId !== registration.spiffeId) return 'spiffe_id';
  const bound = registration.certificateBinding === 'certificate';
  if (bound && !sameDigest(registration.certificateDigest ?? undefined, command.caller.leafDigest)) {
    return 'certificate';
  }
  return undefined;
}

function mismatch(field: string): Refusal {
  return refusal('PROOF_BINDING_MISMATCH', 'A value that the proof binds is not the stored one.', {
    metadata: { field },
  });
}
