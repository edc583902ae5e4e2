import { join } from 'node:path';
import {
  CALLERS,
  type DevelopmentCaller,
  SERVICE,
  SERVICE_TRUST_DOMAIN,
  spiffeIdOf,
  TRUST_DOMAINS,
} from './callers.js';

/** A certificate and its key, PEM files. */
export interface CertificateFiles {
  readonly cert: string;
  readonly key: string;
}

/** One P-256 key for ES256 in the forms that tools ask for. It signs statements, never TLS. */
export interface SigningKeyFiles {
  /** PKCS #8. */
  readonly pem: string;
  /** The private key as a JWK. */
  readonly jwk: string;
  /** The public key as a JWK: what bootstrap and registrations take. */
  readonly publicJwk: string;
}

/** Where the development certificates are. All paths begin with `directory`. */
export interface CertificateLayout {
  readonly directory: string;
  /** `<trust-domain>.pem` for each domain: what the service trusts. */
  readonly bundlesDir: string;
  /** The bundle that a client of the service trusts. */
  readonly serviceBundle: string;
  readonly service: CertificateFiles & { readonly spiffeId: string };
  /** By SPIFFE ID. */
  readonly callers: Readonly<Record<string, CertificateFiles>>;
  /** By SPIFFE ID, for those who sign. */
  readonly signingKeys: Readonly<Record<string, SigningKeyFiles>>;
}

/** Where everything goes unless told otherwise. Relative to the working directory; git ignores it. */
export const DEFAULT_DIRECTORY = '.surety/certs';

/** Says when the set was minted; see `development-certificates.ts`. */
export const MANIFEST_FILE = 'minted.json';

/** The layout of a folder, whether or not anything is in it yet. */
export function certificateLayout(directory: string): CertificateLayout {
  const bundlesDir = join(directory, 'bundles');
  return {
    directory,
    bundlesDir,
    serviceBundle: bundleFile(bundlesDir, SERVICE_TRUST_DOMAIN),
    service: { spiffeId: spiffeIdOf(SERVICE), ...certificateFiles(directory, SERVICE) },
    callers: Object.fromEntries(CALLERS.map((each) => [spiffeIdOf(each), certificateFiles(directory, each)])),
    signingKeys: Object.fromEntries(
      CALLERS.filter(({ signs }) => signs).map((each) => [
        spiffeIdOf(each),
        signingKeyFiles(directory, each),
      ]),
    ),
  };
}

/** The bundle of one trust domain. */
export function bundleFile(bundlesDir: string, trustDomain: string): string {
  return join(bundlesDir, `${trustDomain}.pem`);
}

/** Every file that a minted set has. */
export function filesOf(layout: CertificateLayout): string[] {
  return [
    ...TRUST_DOMAINS.map((trustDomain) => bundleFile(layout.bundlesDir, trustDomain)),
    ...[layout.service, ...Object.values(layout.callers)].flatMap(({ cert, key }) => [cert, key]),
    ...Object.values(layout.signingKeys).flatMap(({ pem, jwk, publicJwk }) => [pem, jwk, publicJwk]),
  ];
}

function certificateFiles(directory: string, { trustDomain, path }: DevelopmentCaller): CertificateFiles {
  const base = join(directory, trustDomain, path);
  return { cert: `${base}.crt.pem`, key: `${base}.key.pem` };
}

function signingKeyFiles(directory: string, { trustDomain, path }: DevelopmentCaller): SigningKeyFiles {
  const base = join(directory, trustDomain, path);
  return {
    pem: `${base}.signing.pem`,
    jwk: `${base}.signing.jwk.json`,
    publicJwk: `${base}.signing.public.jwk.json`,
  };
}
