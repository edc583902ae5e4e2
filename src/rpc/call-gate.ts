import { CertificateRejected } from '../identity/certificate-rejected.js';
import type { AcceptedPeer, ConnectionPeer } from '../identity/connection-peer.js';
import type { MethodRow } from '../identity/method-table.js';
import { type FieldViolation, type Reason, refusal } from '../ledger/refusal.js';
import { Refused } from '../ledger/run-decision.js';
import type { Caller, CallerKind, Micros } from '../ledger/types.js';
import type { CallerRegistry, Standing } from './caller-registry.js';
import type { RequestDomain } from './request-domain.js';

export interface CallGateOptions {
  readonly registry: CallerRegistry;
  /** The store's clock; judges whether a certificate has expired. */
  readonly storeNow: () => Micros;
  /** The service's own SPIFFE ID. */
  readonly serviceSpiffeId: string;
}

/** What is asked of the gate for one call. */
export interface Admission {
  /** `package.Service/Method`. */
  readonly method: string;
  readonly row: MethodRow;
  readonly peer: ConnectionPeer;
  readonly domain: RequestDomain;
  /** What decoding found. */
  readonly violation?: FieldViolation | undefined;
}

/** Who calls, as what, and in which domain. */
export interface Admitted {
  readonly caller: Caller;
  readonly kind: CallerKind;
  readonly domainId: string;
}

/**
 * Whom a method is open to: default deny, by the method's row and the caller's kind (identity.md, Callers). A caller is
 * authenticated before it learns anything, and told that a method is not for it before what is wrong with its request.
 */
export class CallGate {
  readonly #options: CallGateOptions;
  #draining = false;

  constructor(options: CallGateOptions) {
    this.#options = options;
  }

  /** From now on nothing is admitted but what is answered while draining. */
  drain(): void {
    this.#draining = true;
  }

  /**
   * Admits who is remembered, without a promise: that is nearly every call.
   *
   * @returns undefined where `admit` has to ask the registry first
   * @throws {Refused | CertificateRejected}
   */
  admitRemembered(admission: Admission): Admitted | undefined {
    const accepted = this.#authenticated(admission);
    const domainId = admission.domain.named ?? accepted.trustDomain;
    const standing = this.#options.registry.remembered(accepted, domainId);
    return standing === undefined ? undefined : admitted(admission, accepted, domainId, standing);
  }

  /** @throws {Refused | CertificateRejected} */
  async admit(admission: Admission): Promise<Admitted> {
    const accepted = this.#authenticated(admission);
    const domainId = admission.domain.named ?? accepted.trustDomain;
    return admitted(admission, accepted, domainId, await this.#standingOf(accepted, domainId, admission.row));
  }

  #authenticated({ peer, row }: Admission): AcceptedPeer {
    const accepted = this.authenticate(peer);
    if (this.#draining && row.whileDraining !== true)
      throw refused('DRAINING', 'The service is shutting down.');
    return accepted;
  }

  /**
   * Asks again for a call that lives long.
   *
   * @throws {Refused | CertificateRejected} when the caller is no longer what it was admitted as
   */
  async readmit(peer: ConnectionPeer, row: MethodRow, { kind, domainId }: Admitted): Promise<void> {
    const standing = await this.#standingOf(this.authenticate(peer), domainId, row);
    if (!standing.includes(kind)) throw unknownCaller();
  }

  /** @throws {CertificateRejected} also when the certificate expired while the connection lived */
  authenticate(peer: ConnectionPeer): AcceptedPeer {
    if (peer.rejected !== undefined) throw new CertificateRejected(peer.rejected);
    if (peer.notAfterMicros < this.#options.storeNow()) throw new CertificateRejected('EXPIRED');
    return peer;
  }

  /** Never empty. */
  async #standingOf(peer: AcceptedPeer, domainId: string, row: MethodRow): Promise<Standing> {
    // The lowest of the kinds: no row that is open to the service itself asks for more.
    if (row.serviceItself === true && peer.spiffeId === this.#options.serviceSpiffeId) return ['auditor'];
    const { registry } = this.#options;
    const standing = await registry.kindsOf(peer, domainId);
    if (standing.length > 0) return standing;
    if (domainId === peer.trustDomain) throw unknownCaller();
    const atHome = await registry.kindsOf(peer, peer.trustDomain);
    if (atHome.length === 0) throw unknownCaller();
    if (!atHome.some((kind) => row.kinds.has(kind))) return atHome;
    // A caller that is known at home and nothing there: foreign and absent look alike.
    throw refused('NOT_VISIBLE', 'There is nothing here that the caller may see.');
  }
}

/** As what a caller may call the method, the strongest that its row is open to, and with what. */
function admitted(
  { method, row, domain, violation }: Admission,
  accepted: AcceptedPeer,
  domainId: string,
  standing: Standing,
): Admitted {
  const kind = standing.find((one) => row.kinds.has(one));
  if (kind === undefined) {
    const known = standing[0] as CallerKind;
    // Which method and which kind are its facts.
    throw refused('METHOD_NOT_ALLOWED', 'The method is not open to callers of this kind.', {
      method,
      kind: known,
    });
  }
  const wrong = violation ?? domain.violation(kind);
  if (wrong !== undefined) {
    const violations = [wrong];
    throw new Refused(refusal('FIELD_INVALID', 'The request breaks a rule of its fields.', { violations }));
  }
  return { caller: callerOf(accepted), kind, domainId };
}

function callerOf(peer: AcceptedPeer): Caller {
  return {
    spiffeId: peer.spiffeId,
    trustDomain: peer.trustDomain,
    leafDigest: peer.leafSha256,
    keyThumbprint: peer.publicKeyThumbprint,
    notAfter: peer.notAfterMicros,
  };
}

function refused(reason: Reason, message: string, metadata?: Readonly<Record<string, string>>): Refused {
  return new Refused(refusal(reason, message, metadata === undefined ? {} : { metadata }));
}

function unknownCaller(): Refused {
  return refused('CALLER_UNKNOWN', 'The SPIFFE ID of the certificate is not that of a current caller.');
}
