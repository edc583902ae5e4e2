import type { AcceptedPeer } from '../identity/connection-peer.js';
import type { OperatorRow } from '../ledger/authority/records.js';
import type { CallerKind, Micros } from '../ledger/types.js';
import type { WorkingSet } from '../ledger/working-set.js';
import type { Reader } from '../store/reader.js';

/** How long what a caller is may be remembered (identity.md, Callers), in milliseconds. */
export const REMEMBER_MS = 5_000;

/** Who is unknown may be registered at any moment; remembered only so long that nobody makes the store work for each call. */
export const REMEMBER_UNKNOWN_MS = 250;

/** Domains that one connection may have in mind at a time; an operator names a few, a stranger may name many. */
const MAX_DOMAINS_PER_CONNECTION = 16;

/**
 * What the registry says of a caller in a domain, the strongest first; empty: nothing. Of a domain's own rows it is one kind.
 * A platform operator's row counts beside it: nobody in a domain could otherwise be watched from above.
 */
export type Standing = readonly CallerKind[];

const NOTHING: Standing = [];

interface Remembered {
  until: number;
  readonly standing: Promise<Standing>;
  /** What was read, once it is there. */
  known: Standing | undefined;
}

export interface CallerRegistryOptions {
  readonly reader: Reader;
  /** The service's own domain, where platform operators are. */
  readonly serviceDomainId: string;
  /** Told of the store's clock whenever the store was read. */
  readonly onStoreTime?: (now: Micros) => void;
  /** Milliseconds that only go forward; `performance.now` unless a test brings its own. */
  readonly monotonicMs?: () => number;
}

/**
 * (domain, SPIFFE ID) → kinds, to choose the method's row (identity.md, Callers). Remembered per connection for a few
 * seconds; it opens and closes methods and decides nothing else: the transaction reads the row again.
 */
export class CallerRegistry {
  readonly #options: CallerRegistryOptions;
  readonly #now: () => number;
  readonly #remembered = new WeakMap<AcceptedPeer, Map<string, Remembered>>();

  constructor(options: CallerRegistryOptions) {
    this.#options = options;
    this.#now = options.monotonicMs ?? (() => performance.now());
  }

  /** What the peer is remembered as in a domain; undefined where `kindsOf` has to be asked. */
  remembered(peer: AcceptedPeer, domainId: string): Standing | undefined {
    const remembered = this.#remembered.get(peer)?.get(domainId);
    return remembered !== undefined && remembered.until > this.#now() ? remembered.known : undefined;
  }

  /**
   * What the peer is in a domain; empty where it is nothing there, or there is no such domain.
   *
   * @param domainId a well-formed trust domain
   * @throws what the reader throws when the store is away
   */
  kindsOf(peer: AcceptedPeer, domainId: string): Promise<Standing> {
    const domains = this.#domainsOf(peer);
    const known = domains.get(domainId);
    if (known !== undefined && known.until > this.#now()) return known.standing;
    domains.delete(domainId);
    if (domains.size >= MAX_DOMAINS_PER_CONNECTION) domains.delete(domains.keys().next().value as string);
    const standing = this.#read(peer, domainId);
    // Calls that come while it is read share the one reading.
    const remembered: Remembered = { until: this.#now() + REMEMBER_MS, standing, known: undefined };
    domains.set(domainId, remembered);
    void standing.then(
      (kinds) => {
        if (kinds.length === 0) remembered.until = this.#now() + REMEMBER_UNKNOWN_MS;
        else remembered.known = kinds;
      },
      () => {
        if (domains.get(domainId) === remembered) domains.delete(domainId);
      },
    );
    return standing;
  }

  #domainsOf(peer: AcceptedPeer): Map<string, Remembered> {
    let domains = this.#remembered.get(peer);
    if (domains === undefined) this.#remembered.set(peer, (domains = new Map()));
    return domains;
  }

  async #read(peer: AcceptedPeer, domainId: string): Promise<Standing> {
    const { reader, serviceDomainId, onStoreTime } = this.#options;
    const ids = [peer.spiffeId];
    const set = await reader.gather(domainId, {
      callers: ids,
      operators: ids,
      owners: ids,
      platformOperators: ids,
    });
    if (set !== undefined) {
      onStoreTime?.(set.now);
      return standingIn(set, peer);
    }
    // A platform operator may name a domain that is not there, and is told so by the method.
    const home = await reader.gather(serviceDomainId, { operators: ids });
    if (home === undefined) return NOTHING;
    onStoreTime?.(home.now);
    const kind = operatorKind(home.get('operators', peer.spiffeId), domainId);
    return kind === undefined ? NOTHING : [kind];
  }
}

/**
 * Both that the domain's own row says and that the platform's does: an administrator of the domain may enter a platform
 * operator there as anything, also as revoked, and takes nothing from it.
 */
function standingIn(set: WorkingSet, peer: AcceptedPeer): Standing {
  const own = ownKind(set, peer);
  const platform = operatorKind(set.platformOperator(peer.spiffeId), set.domainId);
  const byStrength = own === 'operator' ? [own, platform] : [platform, own];
  return [...new Set(byStrength.filter((kind) => kind !== undefined))];
}

function ownKind(set: WorkingSet, peer: AcceptedPeer): CallerKind | undefined {
  const row = set.get('callers', peer.spiffeId);
  switch (row?.kind) {
    case undefined:
      return undefined;
    case 'operator':
    case 'auditor':
      return operatorKind(set.get('operators', peer.spiffeId), set.domainId);
    case 'owner':
      return set.get('owners', peer.spiffeId)?.status === 'active' ? 'owner' : undefined;
    case 'harness':
    case 'executor':
    case 'reconciler':
    case 'worker':
      // The domain of these is the trust domain of their SPIFFE ID, before any read (identity.md, Callers).
      return peer.trustDomain === set.domainId ? row.kind : undefined;
  }
}

/** An auditor is an operator whose only role is AUDITOR (authority.md, Records). */
function operatorKind(operator: OperatorRow | undefined, domainId: string): CallerKind | undefined {
  if (operator?.status !== 'active') return undefined;
  if (operator.scopeDomainId !== null && operator.scopeDomainId !== domainId) return undefined;
  return operator.roles.every((role) => role === 'AUDITOR') ? 'auditor' : 'operator';
}
