import type { DomainLimits } from '../admission/records.js';
import type {
  ActorKind,
  CallerKind,
  CertificateBinding,
  DataClass,
  Digest,
  Micros,
  OperatorRole,
  RecordStatus,
} from '../types.js';

/** authority.md, Records. Every record lives in one domain; `domainId` is implied by the lane and not repeated here. */

export interface DomainRow {
  readonly status: RecordStatus;
  readonly policyRevision: bigint;
  readonly revocationEpoch: bigint;
  readonly frozen: boolean;
  readonly freezeReason: string | null;
  readonly allowStanding: boolean;
  readonly limits: DomainLimits;
  readonly revision: bigint;
  readonly createdAt: Micros;
}

export interface SinkRow {
  readonly sink: string;
  /** The systems whose word settles an UNKNOWN effect. */
  readonly authoritySystems: readonly string[];
  readonly sendWindow: Micros;
  readonly settleTime: Micros;
  /** So many executions that fail in a row open the circuit breaker. */
  readonly breakerThreshold: number;
  /** How long it stays open before one execution may try. */
  readonly breakerReset: Micros;
  /** So many UNKNOWN effects stop new ones. */
  readonly unknownCeiling: number;
  /** An effect that is UNKNOWN for longer stops new ones. */
  readonly unknownAge: Micros;
  readonly frozen: boolean;
  readonly freezeReason: string | null;
  readonly revision: bigint;
}

/** (domain, SPIFFE ID) → exactly one kind; `refId` is the harness of a harness, the SPIFFE ID itself otherwise. */
export interface CallerRow {
  readonly spiffeId: string;
  readonly kind: CallerKind;
  readonly refId: string;
}

export interface PrincipalRow {
  readonly principalId: string;
  readonly status: RecordStatus;
  readonly revision: bigint;
}

export interface GuestRow {
  readonly guestId: string;
  readonly status: RecordStatus;
  readonly expiresAt: Micros;
  readonly revision: bigint;
}

export interface HarnessRow {
  readonly harnessId: string;
  readonly ownerKind: ActorKind;
  readonly ownerId: string;
  readonly assurance: string;
  readonly credentialEpoch: bigint;
  readonly status: RecordStatus;
  readonly revision: bigint;
}

export interface CredentialRow {
  readonly credentialId: string;
  readonly harnessId: string;
  readonly credentialEpoch: bigint;
  readonly spiffeId: string;
  readonly binding: CertificateBinding;
  /** SHA-256 of the leaf, with binding `certificate`. */
  readonly certificateDigest: Digest | null;
  readonly notBefore: Micros;
  readonly expiresAt: Micros;
  readonly status: RecordStatus;
  readonly revision: bigint;
}

export interface EntitlementRow {
  readonly entitlementId: string;
  readonly principalId: string;
  readonly action: string;
  /** One exact name, or `*`. */
  readonly resource: string;
  readonly policyRevision: bigint;
  readonly expiresAt: Micros;
  readonly revokedAt: Micros | null;
  readonly revision: bigint;
}

export interface GrantRow {
  readonly grantId: string;
  readonly actorKind: ActorKind;
  readonly actorId: string;
  readonly harnessId: string;
  readonly actions: readonly string[];
  readonly resources: readonly string[];
  readonly inputSources: readonly string[];
  readonly outputSinks: readonly string[];
  readonly dataClasses: readonly DataClass[];
  readonly maxUses: bigint;
  readonly uses: bigint;
  readonly repeatable: boolean;
  readonly expiresAt: Micros;
  readonly revokedAt: Micros | null;
  /** At issuance. */
  readonly policyRevision: bigint;
  /** Of the harness, at issuance. */
  readonly credentialEpoch: bigint;
  readonly revision: bigint;
}

/** A recorded decision; immutable. Its use is another row (`DecisionUseRow`). */
export interface DecisionRow {
  readonly decisionId: string;
  readonly harnessId: string;
  readonly actorKind: ActorKind;
  readonly actorId: string;
  readonly action: string;
  readonly resource: string;
  readonly requestDigest: Digest;
  readonly contextDigest: Digest;
  readonly allowed: boolean;
  /** The denial's reason, null where it is allowed. */
  readonly reason: string | null;
  readonly entitlementId: string | null;
  readonly grantId: string | null;
  readonly policyRevision: bigint;
  readonly decidedAt: Micros;
  /**
   * Under what the decision is found again: a digest of everything that a denial rests on, so that the same one is not recorded
   * twice in 60 s; of the effect, where it allows a cancel that its actor could make. Null of any other allowance.
   */
  readonly denialKey: Digest | null;
  readonly auditSeq: bigint;
}

/** One decision backs one mutation. */
export interface DecisionUseRow {
  readonly decisionId: string;
  /** What used it, for example `effect.cancel:<effect id>`. */
  readonly usedBy: string;
  readonly usedAt: Micros;
}

export interface OperatorRow {
  readonly spiffeId: string;
  /** A public P-256 JWK; null for one who only audits. */
  readonly signingKeyJwk: string | null;
  readonly signingKeyThumbprint: string | null;
  readonly roles: readonly OperatorRole[];
  /** Only this domain; null: in the service's own domain, every domain. */
  readonly scopeDomainId: string | null;
  readonly status: RecordStatus;
  readonly revision: bigint;
}

export interface OwnerRow {
  readonly spiffeId: string;
  readonly signingKeyJwk: string;
  readonly signingKeyThumbprint: string;
  readonly sourceScopes: readonly string[];
  readonly typeScopes: readonly string[];
  readonly status: RecordStatus;
  readonly revision: bigint;
}

/** A signed command that was executed. */
export interface AdminCommandRow {
  readonly adminCommandId: string;
  readonly payloadDigest: Digest;
  readonly signerSpiffeId: string;
  readonly executedAt: Micros;
  /** Where its completion stands in the log. */
  readonly auditSeq: bigint;
  readonly entityRevision: bigint;
  readonly policyRevision: bigint;
  readonly revocationEpoch: bigint;
  /** The exact JWS, so that it verifies years later. */
  readonly jws: Buffer;
}
