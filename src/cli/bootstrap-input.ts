import { JwkInvalid, type PublicKey, parsePublicJwk } from '../identity/jwk.js';
import { isTrustDomain, parseSpiffeId, type SpiffeId, SpiffeIdInvalid } from '../identity/spiffe-id.js';
import type { AuditCodec } from '../ledger/audit/records.js';
import type { BootstrapInput } from '../store/bootstrap.js';

/** What `surety bootstrap` is told (authority.md, Bootstrap). */
export interface BootstrapArguments {
  /** Of the migrating role. */
  readonly url: string;
  /** The service's SPIFFE ID, the one of its certificate. */
  readonly audience: string;
  /** The service's own domain; undefined: the trust domain of `audience`. */
  readonly serviceDomainId?: string;
  readonly operatorSpiffeId: string;
  /** The public JWK of the operator's signing key, as text. */
  readonly operatorJwk: string;
  /** Minted by the caller, for the log. */
  readonly commandId: string;
  readonly codec: AuditCodec;
}

/** Arguments that are wrong; every mistake at once, each with its option, or variable, in front. */
export class BootstrapInvalid extends Error {
  override readonly name = 'BootstrapInvalid';
  constructor(readonly mistakes: readonly string[]) {
    super(mistakes.join('; '));
  }
}

/**
 * Checks what a bootstrap is told.
 *
 * @throws {BootstrapInvalid}
 */
export function bootstrapInput(given: BootstrapArguments): BootstrapInput {
  const mistakes: string[] = [];
  const audience = spiffeId(mistakes, 'SURETY_TLS_CERT_FILE: its SPIFFE ID', given.audience);
  spiffeId(mistakes, '--operator:', given.operatorSpiffeId);
  const key = publicKey(mistakes, given.operatorJwk);
  const serviceDomainId = given.serviceDomainId ?? audience?.trustDomain ?? '';
  if (given.serviceDomainId !== undefined && !isTrustDomain(given.serviceDomainId)) {
    mistakes.push('--domain: must be the name of a trust domain');
  }
  if (mistakes.length > 0 || key === undefined) throw new BootstrapInvalid(mistakes);
  return {
    url: given.url,
    audience: given.audience,
    serviceDomainId,
    operator: {
      spiffeId: given.operatorSpiffeId,
      signingKeyJwk: key.jwk,
      signingKeyThumbprint: key.thumbprint,
    },
    commandId: given.commandId,
    codec: given.codec,
  };
}

function spiffeId(mistakes: string[], what: string, value: string): SpiffeId | undefined {
  try {
    return parseSpiffeId(value);
  } catch (error) {
    if (!(error instanceof SpiffeIdInvalid)) throw error;
    mistakes.push(`${what} must be a SPIFFE ID with a path`);
    return undefined;
  }
}

function publicKey(mistakes: string[], jwk: string): PublicKey | undefined {
  try {
    return parsePublicJwk(jwk);
  } catch (error) {
    if (!(error instanceof JwkInvalid)) throw error;
    mistakes.push(`--key: must be a public P-256 JWK; ${error.rule}`);
    return undefined;
  }
}
