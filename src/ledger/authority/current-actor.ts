import { sameDigest } from '../encoding.js';
import { type Reason, type Refusal, refusal } from '../refusal.js';
import type { ActorKind, Caller, Micros } from '../types.js';
import type { Draft } from '../working-set.js';
import type { CredentialRow, HarnessRow } from './records.js';

/** The actor of a call: a harness, current, with the principal or guest that it acts for. */
export interface Actor {
  readonly harness: HarnessRow;
  readonly kind: ActorKind;
  /** The principal or guest. */
  readonly id: string;
  readonly credential: CredentialRow;
}

/** What a caller may say that it rests on; each is compared where it is given (authority.md, Deciding). */
export interface ActorExpectation {
  readonly assurance?: string;
  readonly credentialEpoch?: bigint;
}

/** An actor, or why the caller is none. */
export type ActorResult = { readonly actor: Actor } | { readonly refused: Refusal };

/**
 * Who the peer acts as, judged by the rows of this transaction; the first reason of authority.md, Deciding, wins.
 * Needs the reads `callerHarness: [caller.spiffeId]`.
 */
export function currentActor(draft: Draft, caller: Caller, expectation: ActorExpectation = {}): ActorResult {
  const reason = (name: Reason, message: string): ActorResult => ({ refused: refusal(name, message) });
  if (draft.domain.status !== 'active') return reason('DOMAIN_INACTIVE', 'The domain is not active.');
  if (caller.trustDomain !== draft.domainId || caller.notAfter <= draft.now) {
    return reason('CALLER_UNKNOWN', 'The certificate is not one of a caller of this domain.');
  }
  const row = draft.get('callers', caller.spiffeId);
  if (!row) return reason('CALLER_UNKNOWN', 'The SPIFFE ID is not registered in the domain.');
  if (row.kind !== 'harness') {
    return reason('CALLER_KIND_WITHOUT_AUTHORITY', 'Only a harness has authority to act.');
  }
  const harness = draft.get('harnesses', row.refId);
  if (!harness) return reason('HARNESS_MISSING', 'The harness does not exist.');
  const refused = harnessRefusal(harness, expectation) ?? ownerRefusal(draft, harness, draft.now);
  if (refused) return { refused };
  const credential = matchingCredential(draft, harness, caller);
  if ('refused' in credential) return credential;
  return {
    actor: { harness, kind: harness.ownerKind, id: harness.ownerId, credential: credential.credential },
  };
}

/** Whether the harness itself is in force, and as the caller says. */
export function harnessRefusal(harness: HarnessRow, expectation: ActorExpectation = {}): Refusal | undefined {
  if (harness.status !== 'active') return refusal('HARNESS_INACTIVE', 'The harness is not active.');
  if (expectation.assurance !== undefined && expectation.assurance !== harness.assurance) {
    return refusal('HARNESS_ASSURANCE_MISMATCH', 'The harness has another binding assurance.');
  }
  if (expectation.credentialEpoch !== undefined && expectation.credentialEpoch !== harness.credentialEpoch) {
    return refusal('CREDENTIAL_EPOCH_STALE', 'The credential epoch is not the current one.');
  }
  return undefined;
}

/** Whether the principal or guest that a harness acts for is in force. */
export function ownerRefusal(draft: Draft, harness: HarnessRow, now: Micros): Refusal | undefined {
  if (harness.ownerKind === 'principal') {
    const principal = draft.get('principals', harness.ownerId);
    if (!principal) return refusal('PRINCIPAL_MISSING', 'The principal does not exist.');
    if (principal.status !== 'active') return refusal('PRINCIPAL_INACTIVE', 'The principal is not active.');
    return undefined;
  }
  const guest = draft.get('guests', harness.ownerId);
  if (!guest) return refusal('GUEST_MISSING', 'The guest does not exist.');
  if (guest.status !== 'active') return refusal('GUEST_INACTIVE', 'The guest is not active.');
  if (guest.expiresAt <= now) return refusal('GUEST_EXPIRED', "The guest's time is over.");
  return undefined;
}

/** From the least to the most that a credential has. */
const CREDENTIAL_REASONS = [
  ['CREDENTIAL_MISSING', 'The harness has no credential of this SPIFFE ID and its current epoch.'],
  ['CREDENTIAL_UNBOUND', 'The credential is bound to another certificate.'],
  ['CREDENTIAL_INACTIVE', 'The credential is not active.'],
  ['CREDENTIAL_OUTSIDE_VALIDITY', 'The credential is outside of its validity.'],
] as const;

/** The credential that fits best; where none is good, the reason of the one that came furthest. */
function matchingCredential(
  draft: Draft,
  harness: HarnessRow,
  caller: Caller,
): { credential: CredentialRow } | { refused: Refusal } {
  let furthest = 0;
  for (const credential of draft.find('credentialsOfSpiffeId', caller.spiffeId)) {
    if (credential.harnessId !== harness.harnessId) continue;
    if (credential.credentialEpoch !== harness.credentialEpoch) continue;
    const bound =
      credential.binding === 'spiffe_id' ||
      sameDigest(credential.certificateDigest ?? undefined, caller.leafDigest);
    const valid = credential.notBefore <= draft.now && draft.now < credential.expiresAt;
    if (bound && credential.status === 'active' && valid) return { credential };
    furthest = Math.max(furthest, !bound ? 1 : credential.status !== 'active' ? 2 : 3);
  }
  const [reason, message] = CREDENTIAL_REASONS[furthest as 0 | 1 | 2 | 3];
  return { refused: refusal(reason, message) };
}
