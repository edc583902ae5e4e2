import type { Reads } from '../reads.js';
import { type Refusal, refusal } from '../refusal.js';
import type { Caller, OperatorRole } from '../types.js';
import type { Draft } from '../working-set.js';
import type { OperatorRow } from './records.js';

/** An operator who signs a command: what its rows let it do in the domain, taken together. */
export interface CurrentOperator {
  readonly roles: ReadonlySet<OperatorRole>;
  /** Has a row in the service's own domain that covers this one. */
  readonly platform: boolean;
  /** Has a row in the service's own domain that covers every domain. */
  readonly everywhere: boolean;
}

export type OperatorResult = { readonly operator: CurrentOperator } | { readonly refused: Refusal };

/** The rows that say what an operator may do. */
export function operatorReads(spiffeId: string): Reads {
  return { operators: [spiffeId], platformOperators: [spiffeId] };
}

/**
 * Whether the peer is an active operator whose registered key is the one that signed, and what it may do in this domain
 * (authority.md, Records and Bootstrap): by its row in the domain, and by its row in the service's own domain, which
 * covers every domain unless it names one.
 */
export function currentOperator(draft: Draft, caller: Caller, keyThumbprint: string): OperatorResult {
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
    (row) => row.scopeDomainId === null || row.scopeDomainId === draft.domainId,
  );
  if (covering.length === 0) return { refused: roleMissing() };
  return {
    operator: {
      roles: new Set(covering.flatMap((row) => row.roles)),
      platform: platform !== undefined && covering.includes(platform),
      everywhere: platform !== undefined && covering.includes(platform) && platform.scopeDomainId === null,
    },
  };
}

/** The refusal of a signer whose roles or scope do not cover a command. */
export function roleMissing(): Refusal {
  return refusal('ROLE_MISSING', "The signer's roles or scope do not cover the command.");
}
