import { type Refusal, refusal } from '../refusal.js';
import type { ActorKind, DataClass, Micros } from '../types.js';
import type { DomainRow, GrantRow, HarnessRow } from './records.js';

/** What is asked of a grant: one value per dimension. An empty text or a class of 0 is in no set. */
export interface GrantDimensions {
  readonly action: string;
  readonly resource: string;
  readonly inputSource: string;
  readonly outputSink: string;
  readonly dataClass: DataClass | 0;
}

/** For whom a grant is asked. */
export interface GrantHolder {
  readonly harnessId: string;
  readonly actorKind: ActorKind;
  readonly actorId: string;
}

/** Matches anything in an entitlement; never stands in a grant. */
export const WILDCARD = '*';

/**
 * Whether a grant is there, in force, this actor's, and covers the five values (effects.md, Reserve 3). Such refusals are
 * not recorded.
 *
 * @returns the first reason, or undefined
 */
export function grantShapeRefusal(
  grant: GrantRow | undefined,
  holder: GrantHolder,
  dimensions: GrantDimensions,
  now: Micros,
): Refusal | undefined {
  if (!grant) return missing();
  return endRefusal(grant, now) ?? foreignRefusal(grant, holder) ?? dimensionRefusal(grant, dimensions);
}

/**
 * Whether one more use may be consumed, on the locked row (effects.md, Reserve 6). An exhausted grant is a denial that is
 * recorded. `harness` is the one that the grant names.
 *
 * @returns the first reason, or undefined
 */
export function grantConsumptionRefusal(
  grant: GrantRow,
  domain: DomainRow,
  harness: HarnessRow,
): Refusal | undefined {
  return exhaustionRefusal(grant) ?? grantBindingRefusal(grant, domain, harness);
}

/**
 * What a policy decision asks of a grant, in the order of authority.md, Deciding.
 *
 * @param leaveUse whether the exhausted grant is left to `grantConsumptionRefusal`
 * @returns the first reason, or undefined
 */
export function grantDecisionRefusal(
  grant: GrantRow | undefined,
  harness: HarnessRow,
  dimensions: GrantDimensions,
  domain: DomainRow,
  now: Micros,
  leaveUse: boolean,
): Refusal | undefined {
  if (!grant) return missing();
  const holder = { harnessId: harness.harnessId, actorKind: harness.ownerKind, actorId: harness.ownerId };
  return (
    grantBindingRefusal(grant, domain, harness) ??
    inconsistencyRefusal(grant) ??
    foreignRefusal(grant, holder) ??
    endRefusal(grant, now) ??
    (leaveUse ? undefined : exhaustionRefusal(grant)) ??
    dimensionRefusal(grant, dimensions)
  );
}

/**
 * Whether the policy revision and the harness's credential epoch are still the ones at the grant's issuance. The epoch of
 * a grant that names another harness says nothing of this one, and is not compared.
 */
export function grantBindingRefusal(
  grant: GrantRow,
  domain: DomainRow,
  harness: HarnessRow,
): Refusal | undefined {
  const otherEpoch =
    grant.harnessId === harness.harnessId && grant.credentialEpoch !== harness.credentialEpoch;
  if (grant.policyRevision === domain.policyRevision && !otherEpoch) return undefined;
  return refusal(
    'GRANT_BINDING_STALE',
    'The policy revision or the credential epoch has changed since the grant was issued.',
  );
}

/** Whether a grant is revoked or past its time. */
export function endRefusal(grant: GrantRow, now: Micros): Refusal | undefined {
  if (grant.revokedAt !== null) return refusal('GRANT_REVOKED', 'The grant is revoked.');
  if (grant.expiresAt <= now) return refusal('GRANT_EXPIRED', "The grant's time is over.");
  return undefined;
}

/** Whether the harness and the principal or guest are the ones that a grant names. */
export function foreignRefusal(grant: GrantRow, holder: GrantHolder): Refusal | undefined {
  const own =
    grant.harnessId === holder.harnessId &&
    grant.actorKind === holder.actorKind &&
    grant.actorId === holder.actorId;
  return own ? undefined : refusal('GRANT_FOREIGN', 'The grant is for another actor.');
}

function missing(): Refusal {
  return refusal('GRANT_MISSING', 'The grant does not exist.');
}

function exhaustionRefusal(grant: GrantRow): Refusal | undefined {
  return grant.uses + 1n <= grant.maxUses
    ? undefined
    : refusal('GRANT_EXHAUSTED', 'All uses of the grant are consumed.');
}

/** A row that no command of ours could have written gives no authority. */
function inconsistencyRefusal(grant: GrantRow): Refusal | undefined {
  const texts = [grant.actions, grant.resources, grant.inputSources, grant.outputSinks];
  const consistent =
    texts.every((set) => set.length > 0 && !set.includes(WILDCARD)) &&
    grant.dataClasses.length > 0 &&
    grant.maxUses >= 1n &&
    grant.uses >= 0n &&
    grant.uses <= grant.maxUses;
  return consistent ? undefined : refusal('GRANT_INCONSISTENT', "The grant's row contradicts itself.");
}

function dimensionRefusal(grant: GrantRow, wanted: GrantDimensions): Refusal | undefined {
  if (!grant.actions.includes(wanted.action)) {
    return refusal('GRANT_ACTION_NOT_COVERED', 'The grant does not cover the action.');
  }
  if (!grant.resources.includes(wanted.resource)) {
    return refusal('GRANT_RESOURCE_NOT_COVERED', 'The grant does not cover the resource.');
  }
  if (!grant.inputSources.includes(wanted.inputSource)) {
    return refusal('GRANT_INPUT_SOURCE_NOT_COVERED', 'The grant does not cover the input source.');
  }
  if (!grant.outputSinks.includes(wanted.outputSink)) {
    return refusal('GRANT_OUTPUT_SINK_NOT_COVERED', 'The grant does not cover the output sink.');
  }
  if (!grant.dataClasses.some((dataClass) => dataClass === wanted.dataClass)) {
    return refusal('GRANT_DATA_CLASS_NOT_COVERED', 'The grant does not cover the data class.');
  }
  return undefined;
}
