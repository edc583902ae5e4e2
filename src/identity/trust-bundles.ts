import { createHash } from 'node:crypto';
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { spiffeIdOf } from './certificate.js';
import { authorityProblem, type TrustBundle, type VerifiedChain, verifyChain } from './certificate-chain.js';
import { type CertificateFields, readCertificate } from './certificate-fields.js';
import { CertificateRejected } from './certificate-rejected.js';
import { type Crl, CrlInvalid, isCrlSignedBy, readCrl } from './crl.js';
import { PemInvalid, readPem, writePem } from './pem.js';
import { isTrustDomain } from './spiffe-id.js';

/** A file of the bundle folder that could not be used. */
export interface BundleProblem {
  readonly file: string;
  readonly problem: string;
}

/** What {@link readTrustBundles} found. */
export interface BundleReading {
  readonly bundles: TrustBundles;
  /** One for each file that could not be used; for its domain, what held before still holds. */
  readonly problems: readonly BundleProblem[];
}

/** A file of one domain larger than this is a mistake, and reading it would stall every call. */
export const MAX_BUNDLE_FILE_BYTES = 2 * 1024 * 1024;

/** Authorities of one domain: current, next, and some more of both. Each is tried on each connection. */
export const MAX_AUTHORITIES_PER_DOMAIN = 32;

const CERTIFICATES_SUFFIX = '.pem';
const CRL_SUFFIX = '.crl.pem';

/**
 * The authorities of every trust domain, as the files said at one moment. Immutable: a reload makes another,
 * so that a chain is never checked against half of a change.
 */
export class TrustBundles {
  readonly #byDomain: ReadonlyMap<string, LoadedBundle>;
  /** Changes exactly when any bundle or revocation list does. */
  readonly fingerprint: string;

  /** @param loaded one per trust domain, of {@link readTrustBundles}. */
  constructor(loaded: Iterable<LoadedBundle>) {
    this.#byDomain = new Map([...loaded].map((bundle) => [bundle.trustDomain, bundle]));
    const digest = createHash('sha256');
    for (const domain of this.domains)
      digest.update(`${domain}\n${this.#byDomain.get(domain)?.fingerprint}\n`);
    this.fingerprint = digest.digest('hex');
  }

  /** Trust domains that have a bundle, sorted. */
  get domains(): readonly string[] {
    return [...this.#byDomain.keys()].sort();
  }

  /** Every authority as PEM, for the handshake, which cannot tell domains apart. */
  get authoritiesPem(): readonly string[] {
    const all = [...this.#byDomain.values()].flatMap(({ authorities }) => authorities);
    return [...new Set(all.map(({ der }) => writePem(der, 'CERTIFICATE')))];
  }

  /** @internal What a reload keeps of a domain whose new files are bad. */
  loaded(trustDomain: string): LoadedBundle | undefined {
    return this.#byDomain.get(trustDomain);
  }

  /**
   * Checks a leaf's chain with the bundle of its own trust domain and nothing else.
   *
   * @param leafDer one certificate; `intermediatesDer` what the peer sent along, in any order.
   * @param nowMicros microseconds since the epoch.
   * @throws {CertificateRejected}
   */
  verifyChain(leafDer: Buffer, intermediatesDer: readonly Buffer[], nowMicros: bigint): VerifiedChain {
    return this.verifyFields(readCertificate(leafDer), readIntermediates(intermediatesDer), nowMicros);
  }

  /** {@link verifyChain} for certificates that have been read already. */
  verifyFields(
    leaf: CertificateFields,
    intermediates: readonly CertificateFields[],
    nowMicros: bigint,
  ): VerifiedChain {
    const bundle = this.#byDomain.get(spiffeIdOf(leaf).trustDomain);
    if (bundle === undefined) throw new CertificateRejected('TRUST_DOMAIN_UNKNOWN');
    return verifyChain(leaf, intermediates, bundle, nowMicros);
  }

  /**
   * Whether any domain vouches for a leaf that names no domain of its own (two URI SANs, say). It never makes
   * such a leaf anybody; it only decides between an answer on each call and an end at TLS.
   */
  isVouchedForByAny(
    leaf: CertificateFields,
    intermediates: readonly CertificateFields[],
    nowMicros: bigint,
  ): boolean {
    return [...this.#byDomain.values()].some((bundle) => {
      try {
        return verifyChain(leaf, intermediates, bundle, nowMicros).length > 0;
      } catch (error) {
        if (error instanceof CertificateRejected) return false;
        throw error;
      }
    });
  }
}

/** A bundle with the hash of the files it came from. */
export interface LoadedBundle extends TrustBundle {
  readonly fingerprint: string;
}

/** Certificates that a peer sent along; those that cannot be read cannot be part of a chain either. */
export function readIntermediates(intermediatesDer: readonly Buffer[]): CertificateFields[] {
  return intermediatesDer.flatMap((der) => {
    try {
      return [readCertificate(der)];
    } catch (error) {
      if (error instanceof CertificateRejected) return [];
      throw error;
    }
  });
}

/**
 * Reads the folder of bundles: `<trust-domain>.pem` and optionally `<trust-domain>.crl.pem`.
 *
 * A bad file keeps what its domain had in `previous` and is reported; other domains are not held up by it, or
 * one broken file would keep another domain's revocation from being heard. A domain whose file is gone is
 * gone.
 *
 * @throws when the folder itself cannot be listed: that is a lost mount, not the removal of every domain.
 */
export async function readTrustBundles(directory: string, previous?: TrustBundles): Promise<BundleReading> {
  const files = (await readdir(directory)).filter((file) => file.endsWith(CERTIFICATES_SUFFIX)).sort();
  const lists = files.filter((file) => file.endsWith(CRL_SUFFIX));
  const loaded: LoadedBundle[] = [];
  const problems: BundleProblem[] = [];
  for (const file of files.filter((name) => !lists.includes(name))) {
    const trustDomain = file.slice(0, -CERTIFICATES_SUFFIX.length);
    const list = `${trustDomain}${CRL_SUFFIX}`;
    const kept = previous?.loaded(trustDomain);
    try {
      loaded.push(await readBundle(directory, file, lists.includes(list) ? list : undefined, kept));
    } catch (error) {
      problems.push(problemOf(error, file));
      if (kept !== undefined) loaded.push(kept);
    }
  }
  for (const list of lists) {
    const certificates = `${list.slice(0, -CRL_SUFFIX.length)}${CERTIFICATES_SUFFIX}`;
    if (!files.includes(certificates))
      problems.push({ file: list, problem: `there is no ${certificates} for it` });
  }
  return { bundles: new TrustBundles(loaded), problems };
}

/** Thrown inside a reading with the file's name, so that the report says which of the two was bad. */
class BundleFileInvalid extends Error {
  constructor(
    readonly file: string,
    message: string,
  ) {
    super(message);
  }
}

async function readBundle(
  directory: string,
  file: string,
  listFile: string | undefined,
  kept: LoadedBundle | undefined,
): Promise<LoadedBundle> {
  const trustDomain = file.slice(0, -CERTIFICATES_SUFFIX.length);
  if (!isTrustDomain(trustDomain)) throw new BundleFileInvalid(file, 'its name is not a trust domain');
  const certificates = await readBounded(directory, file);
  const list = listFile === undefined ? undefined : await readBounded(directory, listFile);
  const fingerprint = createHash('sha256')
    .update(`${certificates.length} ${list?.length ?? 'none'}\n`)
    .update(certificates)
    .update(list ?? '')
    .digest('hex');
  if (kept?.fingerprint === fingerprint) return kept;
  const authorities = readAuthorities(certificates, trustDomain, file);
  const crls = listFile === undefined || list === undefined ? [] : readCrls(list, authorities, listFile);
  return { trustDomain, authorities, crls, fingerprint };
}

async function readBounded(directory: string, file: string): Promise<string> {
  const path = join(directory, file);
  const { size } = await stat(path);
  if (size > MAX_BUNDLE_FILE_BYTES)
    throw new BundleFileInvalid(file, `larger than ${MAX_BUNDLE_FILE_BYTES} bytes`);
  return readFile(path, 'latin1');
}

function readAuthorities(text: string, trustDomain: string, file: string): CertificateFields[] {
  const authorities = naming(file, () => readPem(text, 'CERTIFICATE').map(readCertificate));
  if (authorities.length > MAX_AUTHORITIES_PER_DOMAIN) {
    throw new BundleFileInvalid(file, `more than ${MAX_AUTHORITIES_PER_DOMAIN} certificates`);
  }
  for (const authority of authorities) {
    const problem = authorityProblem(authority, trustDomain);
    if (problem !== undefined)
      throw new BundleFileInvalid(file, `certificate ${authority.serial}: ${problem}`);
  }
  return authorities;
}

function readCrls(text: string, authorities: readonly CertificateFields[], file: string): Crl[] {
  const crls = naming(file, () => readPem(text, 'X509 CRL').map(readCrl));
  for (const crl of crls) {
    const named = authorities.filter(({ subject }) => subject.equals(crl.issuer));
    // An intermediate's list can only be checked when a chain brings that intermediate along.
    if (named.length > 0 && !named.some((authority) => isCrlSignedBy(crl, authority))) {
      throw new BundleFileInvalid(file, 'a list is not signed by the authority that it names');
    }
  }
  return crls;
}

function naming<T>(file: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof PemInvalid || error instanceof CrlInvalid || error instanceof CertificateRejected) {
      throw new BundleFileInvalid(file, error.message);
    }
    throw error;
  }
}

function problemOf(error: unknown, file: string): BundleProblem {
  if (error instanceof BundleFileInvalid) return { file: error.file, problem: error.message };
  if (error instanceof Error && 'code' in error)
    return { file, problem: `cannot be read: ${String(error.code)}` };
  throw error;
}
