import { DEFAULT_LIMITS } from '../admission/limits.js';
import { canonicalDigest } from '../encoding.js';
import type { Draft } from '../working-set.js';
import type { DomainRow, OperatorRow } from './records.js';

/** The first operator of the platform, as an administrator of the database names it. */
export interface FirstOperator {
  readonly spiffeId: string;
  /** The canonical public JWK of its signing key. */
  readonly signingKeyJwk: string;
  /** RFC 7638. */
  readonly signingKeyThumbprint: string;
}

/** The service's own domain as it begins. */
export function firstDomain(createdAt: bigint): DomainRow {
  return {
    status: 'active',
    policyRevision: 1n,
    revocationEpoch: 1n,
    frozen: false,
    freezeReason: null,
    allowStanding: false,
    limits: DEFAULT_LIMITS,
    revision: 1n,
    createdAt,
  };
}

/**
 * Puts the first operator into the service's own domain, and entry 1 of its log (authority.md, Bootstrap). No signature
 * stands behind it: whoever may migrate the database may do it, once.
 */
export function bootstrapDomain(draft: Draft, operator: FirstOperator, commandId: string): OperatorRow {
  const row: OperatorRow = {
    ...operator,
    roles: ['ADMIN'],
    scopeDomainId: null,
    status: 'active',
    revision: 1n,
  };
  draft.put('operators', row);
  draft.put('callers', { spiffeId: row.spiffeId, kind: 'operator', refId: row.spiffeId });
  draft.append({
    kind: 'bootstrap',
    commandId,
    record: {
      type: 'operator',
      id: row.spiffeId,
      revision: row.revision,
      operation: 'bootstrap',
      digest: canonicalDigest('surety-bootstrap-v1', [
        draft.facts.audience,
        draft.domainId,
        row.spiffeId,
        operator.signingKeyThumbprint,
      ]),
    },
  });
  return row;
}
