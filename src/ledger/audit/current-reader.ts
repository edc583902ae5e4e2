import type { OperatorRow } from '../authority/records.js';
import { type Refusal, refusal } from '../refusal.js';
import type { Caller } from '../types.js';
import type { Draft } from '../working-set.js';

/** The kinds of caller that an operator's row can stand for (authority.md, Records: operator). */
export type ReaderKind = 'operator' | 'auditor';

/** A reader of a domain, or why the caller is none. */
export type ReaderResult =
  | { readonly operator: OperatorRow; readonly kind: ReaderKind }
  | { readonly refused: Refusal };

/**
 * Whether the peer is an active operator or auditor of the domain, by the rows of this transaction: its row lives in
 * the domain, or in the service's own domain without another scope. Whoever is none learns nothing: a domain that is
 * absent, foreign or closed to it looks the same.
 *
 * Needs the reads `operators` and `platformOperators` of the caller's SPIFFE ID.
 *
 * @param kinds what the method is open to
 */
export function currentReader(draft: Draft, caller: Caller, kinds: readonly ReaderKind[]): ReaderResult {
  if (caller.notAfter <= draft.now) {
    return { refused: refusal('CALLER_UNKNOWN', 'The certificate is past its validity.') };
  }
  const rows = [draft.get('operators', caller.spiffeId)];
  if (draft.domainId !== draft.facts.serviceDomainId) rows.push(draft.platformOperator(caller.spiffeId));
  for (const operator of rows) {
    if (!operator || operator.status !== 'active') continue;
    if (operator.scopeDomainId !== null && operator.scopeDomainId !== draft.domainId) continue;
    const kind = kindOf(operator);
    if (kinds.includes(kind)) return { operator, kind };
  }
  return { refused: notVisible() };
}

/** What an absent thing and a foreign one are answered with alike. */
export function notVisible(): Refusal {
  return refusal('NOT_VISIBLE', 'There is nothing here that the caller may see.');
}

/** An auditor is an operator whose only role is AUDITOR. */
function kindOf(operator: OperatorRow): ReaderKind {
  return operator.roles.every((role) => role === 'AUDITOR') ? 'auditor' : 'operator';
}
