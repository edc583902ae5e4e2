import type { KeyObject } from 'node:crypto';
import { parsePublicJwk } from './jwk.js';

/** Finds the public key that a thumbprint names in a domain. */
export interface ProofKeys {
  find(domainId: string, thumbprint: string): Promise<KeyObject | undefined>;
}

/** Reads a public JWK by its thumbprint; undefined where the domain has none such. */
export type LoadPublicJwk = (domainId: string, thumbprint: string) => Promise<string | undefined>;

/** Limits of a {@link ProofKeyCache}; the defaults are those of the service. */
export interface ProofKeyCacheOptions {
  readonly maxKeys?: number;
  readonly maxMisses?: number;
  readonly missMs?: number;
  /** Milliseconds of a clock that never goes back. */
  readonly now?: () => number;
}

// A KeyObject of P-256 holds about 1 KiB outside of the heap, so 10,000 keys are some 10 MiB.
const DEFAULT_MAX_KEYS = 10_000;
// Unknown thumbprints cost a caller nothing to make up, and must not push out more than each other.
const DEFAULT_MAX_MISSES = 10_000;
// Long enough to absorb a burst of repeats, short enough that a key registered elsewhere works at once for a person.
const DEFAULT_MISS_MS = 2_000;

/** A stored key does not have the thumbprint that it is stored under. */
export class ProofKeyCorrupt extends Error {
  override readonly name = 'ProofKeyCorrupt';
}

/**
 * (domain, thumbprint) → public key, as parsed once: parsing costs twice as much as verifying (bench.md).
 *
 * The name of a key is the digest of its content, so an entry can never be wrong and never expires; whether the key is still
 * somebody's is decided in the transaction, never here (identity.md, Transition proof). The least recently used goes when
 * the cache is full. A miss is one read, however many ask at once; that there is no such key is remembered briefly. A read
 * that failed is not remembered.
 */
export class ProofKeyCache implements ProofKeys {
  private readonly keys = new Map<string, KeyObject>();
  /** When each miss was found. Oldest first. */
  private readonly misses = new Map<string, number>();
  private readonly loading = new Map<string, Promise<KeyObject | undefined>>();
  private readonly maxKeys: number;
  private readonly maxMisses: number;
  private readonly missMs: number;
  private readonly now: () => number;

  constructor(
    private readonly load: LoadPublicJwk,
    options: ProofKeyCacheOptions = {},
  ) {
    this.maxKeys = options.maxKeys ?? DEFAULT_MAX_KEYS;
    this.maxMisses = options.maxMisses ?? DEFAULT_MAX_MISSES;
    this.missMs = options.missMs ?? DEFAULT_MISS_MS;
    this.now = options.now ?? (() => performance.now());
  }

  /**
   * @param thumbprint RFC 7638, of the form that `parseCompactJws` has checked
   * @throws {ProofKeyCorrupt} where what is stored is not the key that was asked for
   * @throws whatever the read throws
   */
  async find(domainId: string, thumbprint: string): Promise<KeyObject | undefined> {
    // A thumbprint has no slash and a fixed length, so no two pairs are one name.
    const name = `${thumbprint}/${domainId}`;
    const key = this.keys.get(name);
    if (key !== undefined) {
      remember(this.keys, name, key, this.maxKeys);
      return key;
    }
    if (this.missedLately(name)) return undefined;
    return this.loading.get(name) ?? this.loadOnce(name, domainId, thumbprint);
  }

  /** Forgets that a key was missing: for whoever has just stored it. */
  forgetMiss(domainId: string, thumbprint: string): void {
    const name = `${thumbprint}/${domainId}`;
    this.misses.delete(name);
    // A read that is under way may have looked before the key was there; the next one must look again.
    this.loading.delete(name);
  }

  private missedLately(name: string): boolean {
    const missedAt = this.misses.get(name);
    return missedAt !== undefined && this.now() - missedAt < this.missMs;
  }

  private loadOnce(name: string, domainId: string, thumbprint: string): Promise<KeyObject | undefined> {
    const loading = this.read(domainId, thumbprint).then((key) => {
      if (key !== undefined) {
        this.misses.delete(name);
        remember(this.keys, name, key, this.maxKeys);
      } else if (this.loading.get(name) === loading) {
        remember(this.misses, name, this.now(), this.maxMisses);
      }
      return key;
    });
    this.loading.set(name, loading);
    const done = () => {
      if (this.loading.get(name) === loading) this.loading.delete(name);
    };
    loading.then(done, done);
    return loading;
  }

  private async read(domainId: string, thumbprint: string): Promise<KeyObject | undefined> {
    const jwk = await this.load(domainId, thumbprint);
    if (jwk === undefined) return undefined;
    const parsed = parsePublicJwk(jwk);
    if (parsed.thumbprint !== thumbprint) {
      throw new ProofKeyCorrupt('a stored proof key is not the one that its thumbprint names');
    }
    return parsed.key;
  }
}

/** Puts an entry last and drops the first ones above `limit`: a Map keeps the order of insertion. */
function remember<Value>(entries: Map<string, Value>, name: string, value: Value, limit: number): void {
  entries.delete(name);
  entries.set(name, value);
  for (const oldest of entries.keys()) {
    if (entries.size <= limit) break;
    entries.delete(oldest);
  }
}
