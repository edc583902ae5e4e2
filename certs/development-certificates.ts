import { X509Certificate } from 'node:crypto';
import { join, resolve } from 'node:path';
import {
  CALLERS,
  type DevelopmentCaller,
  SERVICE,
  SERVICE_DNS_NAMES,
  SERVICE_IP_ADDRESSES,
  spiffeIdOf,
  TRUST_DOMAINS,
} from './callers.js';
import { allThere, readIfThere, withLock, writePublic, writeSecret } from './files.js';
import { bundleFile, type CertificateLayout, certificateLayout, filesOf, MANIFEST_FILE } from './layout.js';
import { type MintedAuthority, mintAuthority, mintLeaf, type Validity } from './mint.js';
import { ensureSigningKey } from './signing-keys.js';

const HOUR_MS = 3_600_000;

/** How long a development certificate holds (identity.md, Certificates for development). */
export const LIFE_MS = 24 * HOUR_MS;

/** All of them are minted again from here on, so that a process started now has eight hours at least. */
export const RENEW_AFTER_MS = (LIFE_MS / 3) * 2;

/** Certificates begin in the past, so that a clock that is an hour off changes nothing. */
export const BACKDATE_MS = 2 * HOUR_MS;

/** Raised when the set or its layout changes, so that an older folder is minted again. */
const LAYOUT_VERSION = 1;

/** What was minted, and when its time is up. */
export interface DevelopmentCertificates extends CertificateLayout {
  readonly mintedAt: Date;
  readonly renewAt: Date;
  readonly expiresAt: Date;
  /** Whether this call minted them. */
  readonly minted: boolean;
}

export interface EnsureOptions {
  /** Where they are, or are to be. */
  readonly directory: string;
  /** For tests; the machine's clock unless given. */
  readonly now?: Date;
  /** Mint even though those that are there still hold. */
  readonly renew?: boolean;
}

interface Manifest {
  readonly version: number;
  readonly mintedAt: string;
}

/**
 * Makes sure that the folder has development certificates with time left, and says where they are.
 *
 * One authority per trust domain, all minted together, again at two thirds of their life. An authority's key
 * is never written: whoever finds the folder can use these callers for a day and make no others. A bundle
 * keeps the former authority until it expires, so that open connections and running clients outlast a change.
 * Safe to call from several processes at once.
 */
export async function ensureDevelopmentCertificates(
  options: EnsureOptions,
): Promise<DevelopmentCertificates> {
  const layout = certificateLayout(resolve(options.directory));
  const now = options.now ?? new Date();
  const found = options.renew === true ? undefined : await whatIsThere(layout, now);
  if (found !== undefined) return describe(layout, found, false);
  return withLock(layout.directory, async () => {
    // Somebody else may have minted while we waited.
    const meanwhile = options.renew === true ? undefined : await whatIsThere(layout, now);
    if (meanwhile !== undefined) return describe(layout, meanwhile, false);
    await mintAll(layout, now);
    return describe(layout, now, true);
  });
}

function describe(layout: CertificateLayout, mintedAt: Date, minted: boolean): DevelopmentCertificates {
  const after = (ms: number): Date => new Date(mintedAt.getTime() + ms);
  return { ...layout, mintedAt, renewAt: after(RENEW_AFTER_MS), expiresAt: after(LIFE_MS), minted };
}

/** When the set that is there was minted, if it is whole and has time left. */
async function whatIsThere(layout: CertificateLayout, now: Date): Promise<Date | undefined> {
  const text = await readIfThere(join(layout.directory, MANIFEST_FILE));
  const mintedAt = text === undefined ? undefined : mintedAtOf(text);
  if (mintedAt === undefined) return undefined;
  const age = now.getTime() - mintedAt.getTime();
  // A set from the future is one that a clock has since left behind.
  const holds = age > -BACKDATE_MS && age < RENEW_AFTER_MS;
  return holds && (await allThere(filesOf(layout))) ? mintedAt : undefined;
}

function mintedAtOf(text: string): Date | undefined {
  try {
    const { version, mintedAt } = JSON.parse(text) as Manifest;
    const date = new Date(mintedAt);
    return version === LAYOUT_VERSION && Number.isFinite(date.getTime()) ? date : undefined;
  } catch {
    return undefined;
  }
}

async function mintAll(layout: CertificateLayout, now: Date): Promise<void> {
  const validity = {
    notBefore: new Date(now.getTime() - BACKDATE_MS),
    notAfter: new Date(now.getTime() + LIFE_MS),
  };
  const authorities = new Map(
    await Promise.all(
      TRUST_DOMAINS.map(async (domain) => [domain, await mintAuthority(domain, validity)] as const),
    ),
  );
  // Bundles first: a certificate must not be shown before its authority is known.
  for (const [trustDomain, authority] of authorities) await writeBundle(layout, trustDomain, authority, now);
  await Promise.all([SERVICE, ...CALLERS].map((caller) => writeLeaf(layout, caller, authorities, validity)));
  await Promise.all(Object.values(layout.signingKeys).map(ensureSigningKey));
  const manifest: Manifest = { version: LAYOUT_VERSION, mintedAt: now.toISOString() };
  await writePublic(join(layout.directory, MANIFEST_FILE), `${JSON.stringify(manifest)}\n`);
}

async function writeBundle(
  layout: CertificateLayout,
  trustDomain: string,
  authority: MintedAuthority,
  now: Date,
): Promise<void> {
  const file = bundleFile(layout.bundlesDir, trustDomain);
  const former = stillValid((await readIfThere(file)) ?? '', now);
  await writePublic(file, [authority.certificatePem, ...former].join(''));
}

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----\n/g;

/** More former authorities than a day of ordinary renewals leaves; `--renew` in a loop must not grow it. */
const MAX_FORMER = 4;

function stillValid(bundle: string, now: Date): string[] {
  const former = (bundle.match(CERTIFICATE) ?? []).filter((pem) => {
    try {
      return Date.parse(new X509Certificate(pem).validTo) > now.getTime();
    } catch {
      return false;
    }
  });
  return former.slice(0, MAX_FORMER);
}

async function writeLeaf(
  layout: CertificateLayout,
  caller: DevelopmentCaller,
  authorities: ReadonlyMap<string, MintedAuthority>,
  validity: Validity,
): Promise<void> {
  const authority = authorities.get(caller.trustDomain);
  const spiffeId = spiffeIdOf(caller);
  const files = caller === SERVICE ? layout.service : layout.callers[spiffeId];
  if (authority === undefined || files === undefined)
    throw new Error(`${spiffeId} has no place in the layout`);
  const names = {
    spiffeId,
    commonName: caller.path,
    ...(caller === SERVICE ? { dnsNames: SERVICE_DNS_NAMES, ipAddresses: SERVICE_IP_ADDRESSES } : {}),
  };
  const { certificatePem, keyPem } = await mintLeaf(authority, names, validity);
  await writeSecret(files.key, keyPem);
  await writePublic(files.cert, certificatePem);
}
