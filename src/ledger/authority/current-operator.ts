import type { Reads } from '../reads.js';
import { type Refusal, refusal } from '../refusal.js';
import type { Caller, OperatorRole } from '../types.js';
import type { Draft } from '../working-set.js';
import type { OperatorRow } from './records.js';

/**
 * An operator who signs a command, by those of its rows that let it: a row that has none of the command's roles says nothing
 * of it. Who may only freeze from above, and is an administrator here, administers here alone.
 */
export interface CurrentOperator {
  /** By a row in the service's own domain that covers this one. */
  readonly platform: boolean;
  /** By a row in the service's own domain that covers every domain. */
  readonly everywhere: boolean;
}

export type OperatorResult = { readonly operator: CurrentOperator } | { readonly refused: Refusal };

/** The rows that say what an operator may do. */
export function operatorReads(spiffeId: string): Reads {
  return { operators: [spiffeId], platformOperators: [spiffeId] };
}

/**
 * Whether the peer is an active operator whose registered key is the one that signed, and may in this domain what takes one
 * of the roles (authority.md, Records and Bootstrap): by its row in the domain, or by its row in the service's own domain,
 * which covers every domain unless it names one.
 */
export function currentOperator(
  draft: Draft,
  caller: Caller,
  keyThumbprint: string,
  roles: readonly OperatorRole[],
): OperatorResult {
  const signature = (rule: string): OperatorResult => {
    const message = 'The signer is not an active operator whose key signed the command.';
    return { refused: refusal('COMMAND_SIGNATURE_INVALID', message, { metadata: { rule } }) };
  };
  if (caller.notAfter <= draft.now) {
    return { refused: refusal('CALLER_UNKNOWN', 'The certificate is past its validity.') };
  }
  const inService = draft.domainId === draft.facts.serviceDomainId;
  const own = inService ? undefined : draft.get('operators', caller.spiffeId);
  const platform = inService
    ? draft.get('operators', caller.spiffeId)
    : draft.platformOperator(caller.spiffeId);
  const active = [own, platform].filter((row): row is OperatorRow => row?.status === 'active');
  if (active.length === 0) return signature('signer');
  const signing = active.filter((row) => row.signingKeyThumbprint === keyThumbprint);
  if (signing.length === 0) return signature('key');
  const covering = signing.filter(
    (row) =>
      (row.scopeDomainId === null || row.scopeDomainId === draft.domainId) &&
      row.roles.some((role) => roles.includes(role)),
  );
  if (covering.length === 0) return { refused: roleMissing() };
  const fromAbove = covering.find((row) => row === platform);
  return {
    operator: { platform: fromAbove !== undefined, everywhere: fromAbove?.scopeDomainId === null },
  };
}

/** The refusal of a signer whose roles or scope do not cover a command. */
export function roleMissing(): Refusal {
  return refusal('ROLE_MISSING', "The signer's roles or scope do not cover the command.");
}
