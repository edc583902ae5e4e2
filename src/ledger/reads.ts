/**
 * What a decision needs to have read, as plain data. Each name is one gather statement, or a few that are joined in the
 * database (`src/store/gather.ts`); the values are its keys.
 */
export interface Reads {
  /** Caller's row, harness, owner, what the harness is counted by, and the credentials of the SPIFFE ID. Keys: SPIFFE IDs. */
  readonly callerHarness?: readonly string[];
  /** The caller's row alone. Keys: SPIFFE IDs. */
  readonly callers?: readonly string[];
  /** Harness with its owner. Keys: harness ids. */
  readonly harnesses?: readonly string[];
  readonly principals?: readonly string[];
  readonly guests?: readonly string[];
  readonly credentials?: readonly string[];
  /** Sinks with their counters. */
  readonly sinks?: readonly string[];
  readonly grants?: readonly string[];
  /** By id. */
  readonly entitlementsById?: readonly string[];
  /** Entitlements of one principal for one action: the exact resource and `*`. */
  readonly entitlements?: readonly EntitlementKey[];
  /** The same for the owner of the harness that a SPIFFE ID belongs to. */
  readonly entitlementsOfCaller?: readonly CallerEntitlementKey[];
  /** Event with its provenance record. Keys: event ids. */
  readonly events?: readonly string[];
  /** Decision with its use, entitlement and grant. Keys: decision ids. */
  readonly decisions?: readonly string[];
  /** The newest decision under a denial key (32 bytes), and those within the 300 s before it, at most 32. */
  readonly denials?: readonly Buffer[];
  readonly registrations?: readonly string[];
  /**
   * Registrations of a SPIFFE ID: active, of the current revocation epoch and not expired, all of them, and the one that lasts
   * longest, whatever it is. Keys: SPIFFE IDs.
   */
  readonly registrationsOfSpiffeId?: readonly string[];
  /**
   * The same, of which only those are complete that are bound to the effect's event and grant, stand for its sink, or started or
   * settled it; of the others there is one of each role, certificate and way of being bound.
   */
  readonly registrationsForEffect?: readonly EffectWorkloadKey[];
  /** All versions of a registration. Keys: registration ids. */
  readonly registrationVersions?: readonly string[];
  /** All versions that ever held a proof key. Keys: thumbprints. */
  readonly keyHolders?: readonly string[];
  readonly proofKeys?: readonly string[];
  /** Effect alone or its tombstone, with the audit entry of its last step. Keys: effect ids. */
  readonly effects?: readonly string[];
  /**
   * Effect or its tombstone, its event with provenance record, grant, sink with its counters, reserving harness with owner
   * and what it is counted by, pending-work entry, and the output's provenance record with its parents and steps. Keys: effect
   * ids.
   */
  readonly effectContext?: readonly string[];
  /** All versions of the registration that executes an effect. Keys: effect ids, each also of `effectContext`. */
  readonly effectExecutors?: readonly string[];
  /** Who holds the key of an effect, live or archived. Keys: effect ids, each also of `effectContext`. */
  readonly keysOfEffects?: readonly string[];
  /**
   * The effects of a sink that are UNKNOWN for longest: one more than the batch could settle, so that the oldest of those
   * that are left is always among them.
   */
  readonly oldestUnknown?: readonly string[];
  /** Effect or tombstone by (event, sink, request digest). */
  readonly effectIdentities?: readonly IdentityKey[];
  /** One effect of an event and a grant that is not terminal, if there is one. */
  readonly unsettled?: readonly BindingKey[];
  /** Who holds an effect key, and who succeeded under it, of the live and of the archived. */
  readonly effectKeys?: readonly EffectKey[];
  /** Archives of the domain by their numbers. */
  readonly archives?: readonly bigint[];
  /** The receipts of one step. */
  readonly transitions?: readonly TransitionKey[];
  /** All receipts of an effect, oldest first. Keys: effect ids. */
  readonly transitionsOf?: readonly string[];
  readonly transitionNonces?: readonly TransitionNonceKey[];
  /** Keys: 32-byte digests of scope and nonce. */
  readonly replayNonces?: readonly Buffer[];
  /** How many live nonces a caller has. Keys: SPIFFE IDs. */
  readonly replayCallers?: readonly string[];
  /** Records with their parents, steps and clearance receipts. */
  readonly provenance?: readonly ProvenanceKey[];
  /** Receipts by approver and receipt id. */
  readonly clearanceReceipts?: readonly ClearanceKey[];
  readonly operators?: readonly string[];
  readonly owners?: readonly string[];
  /** The service's own domain's operators, locked against change. Keys: SPIFFE IDs. */
  readonly platformOperators?: readonly string[];
  readonly adminCommands?: readonly string[];
  /** Shapes of gates by id. */
  readonly gateShapes?: readonly string[];
  /** Every shape of gates of the domain, at most 64. The key is {@link EVERY_SHAPE}. */
  readonly allGateShapes?: readonly (typeof EVERY_SHAPE)[];
  /** Keys: types of actions. */
  readonly actionConditions?: readonly string[];
  /** Keys: names of tools. */
  readonly tools?: readonly string[];
  /** What actors that are no harness are counted by (`callerActor`). */
  readonly actorCounters?: readonly string[];
  /** The service's limit, locked against change, and the shares of the other domains: only to change a share. */
  readonly shares?: readonly 'all'[];
  /** Governed actions alone. Keys: action ids. */
  readonly actions?: readonly string[];
  /** By the proposer's key. */
  readonly actionKeys?: readonly string[];
  /** By the effect that they carry. Keys: effect ids. */
  readonly effectActions?: readonly string[];
  /**
   * The next actions of a scope that nobody holds and whose time has come, in the order in which they are handed out: one
   * for each time that a batch names a scope at all, and some more.
   */
  readonly readyActions?: readonly ReadyKey[];
  /** The first 20 leases that ran out, with the recovery contracts and journals of their actions. The key is {@link ANY_ACTION}. */
  readonly expiredLeases?: readonly (typeof ANY_ACTION)[];
  /** One receipt. */
  readonly actionReceipts?: readonly ReceiptKey[];
  /** All receipts of one class of an action. */
  readonly receiptsOf?: readonly ReceiptsKey[];
  /** Tool, condition of the type, owners and bounded grants that the gates of an action rest on. Keys: action ids. */
  readonly gateContext?: readonly string[];
  /** Gates by approval id, and by decision id. */
  readonly approvals?: readonly string[];
  readonly gateDecisions?: readonly string[];
  /** The event that an exact request has caused. */
  readonly requestEvents?: readonly RequestEventKey[];
  /** One lease that somebody ever held of an action, if there is one. */
  readonly leaseHolders?: readonly LeaseHolderKey[];
  /** The lease that a request got, with its action. */
  readonly leaseRequests?: readonly LeaseRequestKey[];
  /** Keys: action ids. */
  readonly deadLetters?: readonly string[];
  /** With their owners. Keys: bounded grant ids. */
  readonly boundedGrants?: readonly string[];
  /** Another domain's row (only to create it). Keys: domain ids. */
  readonly otherDomains?: readonly string[];
}

/** The one key of `allGateShapes`. */
export const EVERY_SHAPE = '';

/** The one key of `expiredLeases`, and of the indexes of actions that anybody or nobody holds. */
export const ANY_ACTION = '';

/** A scope of `readyActions`: what is null or empty does not narrow. */
export interface ReadyKey {
  readonly source: string | null;
  readonly sourcePrefix: string | null;
  readonly types: readonly string[];
  readonly actionIds: readonly string[];
  readonly states: readonly string[];
}

export interface EffectWorkloadKey {
  readonly spiffeId: string;
  readonly effectId: string;
}

export interface ReceiptKey {
  readonly actionId: string;
  readonly receiptClass: string;
  readonly receiptKey: string;
}

export interface ReceiptsKey {
  readonly actionId: string;
  readonly receiptClass: string;
}

export interface RequestEventKey {
  readonly actionId: string;
  readonly requestDigest: Buffer;
}

export interface LeaseHolderKey {
  readonly actionId: string;
  readonly spiffeId: string;
}

export interface LeaseRequestKey {
  readonly spiffeId: string;
  readonly requestId: string;
}

export interface EntitlementKey {
  readonly principalId: string;
  readonly action: string;
  readonly resource: string;
}

export interface CallerEntitlementKey {
  readonly spiffeId: string;
  readonly action: string;
  readonly resource: string;
}

export interface IdentityKey {
  /** Part of the identity; the index of live effects begins with it. */
  readonly eventId: string;
  readonly identityDigest: Buffer;
}

export interface BindingKey {
  readonly eventId: string;
  readonly grantId: string;
}

export interface EffectKey {
  readonly sink: string;
  readonly keyDigest: Buffer;
}

export interface TransitionKey {
  readonly effectId: string;
  readonly step: bigint;
}

export interface TransitionNonceKey {
  readonly registrationId: string;
  readonly nonceDigest: Buffer;
}

export interface ProvenanceKey {
  readonly objectType: string;
  readonly objectId: string;
  readonly version: bigint;
}

export interface ClearanceKey {
  readonly approverSpiffeId: string;
  readonly receiptId: string;
}

/** One set of reads: what several name of a kind, together. */
export function mergeReads(all: readonly Reads[]): Reads {
  const merged: Record<string, unknown[]> = {};
  for (const reads of all) {
    for (const [name, keys] of Object.entries(reads)) (merged[name] ??= []).push(...keys);
  }
  return merged;
}
