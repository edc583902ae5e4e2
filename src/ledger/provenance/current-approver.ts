import type { OperatorRow, OwnerRow } from '../authority/records.js';
import type { Draft } from '../working-set.js';

/**
 * Why a SPIFFE ID with this signing key may not clear content here: `approver` where it is no active owner or operator of
 * the domain, `key` where it is one with another key. An auditor only looks (authority.md, Records: operator). Undefined
 * where it may.
 *
 * Needs the reads `owners`, `operators` and `platformOperators` of the SPIFFE ID.
 */
export function approverFault(
  draft: Draft,
  spiffeId: string,
  keyThumbprint: string,
): 'approver' | 'key' | undefined {
  const rows: (OwnerRow | OperatorRow)[] = [];
  const owner = draft.get('owners', spiffeId);
  if (owner?.status === 'active') rows.push(owner);
  const operators = [draft.get('operators', spiffeId)];
  if (draft.domainId !== draft.facts.serviceDomainId) operators.push(draft.platformOperator(spiffeId));
  for (const operator of operators) {
    if (operator && approves(operator, draft.domainId)) rows.push(operator);
  }
  if (rows.length === 0) return 'approver';
  return rows.some((row) => row.signingKeyThumbprint === keyThumbprint) ? undefined : 'key';
}

function approves(operator: OperatorRow, domainId: string): boolean {
  return (
    operator.status === 'active' &&
    (operator.scopeDomainId === null || operator.scopeDomainId === domainId) &&
    operator.roles.some((role) => role !== 'AUDITOR')
  );
}
