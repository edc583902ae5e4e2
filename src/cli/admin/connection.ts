import { createPrivateKey } from 'node:crypto';
import { join } from 'node:path';
import { SERVICE_TRUST_DOMAIN } from '../../../certs/callers.js';
import { certificateLayout } from '../../../certs/layout.js';
import { readConfiguration } from '../../config/configuration.js';
import { inspectLeaf } from '../../identity/certificate.js';
import { CertificateRejected } from '../../identity/certificate-rejected.js';
import { JwkInvalid, publicKeyOf } from '../../identity/jwk.js';
import { readPem } from '../../identity/pem.js';
import type { SigningKey } from '../../identity/sign.js';
import { checkClientIdentity } from '../client/client-identity.js';
import { Channel } from '../client/service-client.js';
import { UsageError } from '../failure.js';
import { readTarget, TARGET_OPTIONS } from '../target.js';
import { readFile, readFileBytes } from './field-value.js';

/** The options of every subcommand that say how the service is reached, for `parseArgs`. */
export const CONNECTION_OPTIONS = {
  ...TARGET_OPTIONS,
  cert: { type: 'string' },
  key: { type: 'string' },
  roots: { type: 'string' },
  'signing-key': { type: 'string' },
  domain: { type: 'string' },
} as const;

/** Their values. */
export type ConnectionValues = { readonly [Name in keyof typeof CONNECTION_OPTIONS]?: string | undefined };

/** The development operator (identity.md, Development SPIFFE IDs). */
const DEVELOPMENT_OPERATOR = `spiffe://${SERVICE_TRUST_DOMAIN}/operator/root`;

/** An operator's way to the service. */
export interface Connection {
  readonly channel: Channel;
  /** The domain to act in: as said, or the trust domain of the operator's own certificate. */
  readonly domainId: string;
  /** Reads the key that signs commands. @throws {UsageError} */
  readonly signingKey: () => SigningKey;
}

/**
 * Opens a connection; what is not given is that of the development operator and of a service that was started here.
 *
 * @throws {UsageError | ClientIdentityInvalid} where a file is missing or is not what it should be
 */
export function openConnection(values: ConnectionValues): Connection {
  const target = readTarget(values);
  const { listen, stateDir } = readConfiguration(process.env, 'admin');
  const layout = certificateLayout(join(stateDir, 'certs'));
  if ((values.cert === undefined) !== (values.key === undefined)) {
    throw new UsageError('--cert and --key are given together');
  }
  const isDevelopment = values.cert === undefined;
  const own = layout.callers[DEVELOPMENT_OPERATOR];
  const certificate = readFileBytes('--cert', values.cert ?? own?.cert ?? '');
  const key = readFileBytes('--key', values.key ?? own?.key ?? '');
  const roots = readFileBytes('--roots', values.roots ?? layout.serviceBundle);
  const signing =
    values['signing-key'] ?? (isDevelopment ? layout.signingKeys[DEVELOPMENT_OPERATOR]?.pem : undefined);
  checkClientIdentity({ certificate, key, roots });
  return {
    domainId: values.domain ?? trustDomainOf(certificate),
    channel: new Channel(target ?? addressOf(listen), { certificate, key, roots }),
    signingKey: () => {
      if (signing === undefined) throw new UsageError('--signing-key must be given where --cert is');
      return readSigningKey(readFile('--signing-key', signing));
    },
  };
}

/** The trust domain of a leaf in PEM. @throws {UsageError} */
export function trustDomainOf(certificate: Buffer): string {
  try {
    const [leaf] = readPem(certificate.toString('latin1'), 'CERTIFICATE');
    return inspectLeaf(leaf ?? Buffer.alloc(0)).trustDomain;
  } catch (error) {
    const rule = error instanceof CertificateRejected ? error.message : 'cannot be read';
    throw new UsageError(`--cert: ${rule}`);
  }
}

/** From PKCS #8 or SEC 1 in PEM, or from a private JWK. */
function readSigningKey(text: string): SigningKey {
  try {
    const privateKey = text.trimStart().startsWith('{')
      ? createPrivateKey({ key: JSON.parse(text), format: 'jwk' })
      : createPrivateKey(text);
    return { privateKey, publicKey: publicKeyOf(privateKey) };
  } catch (error) {
    const rule = error instanceof JwkInvalid ? error.rule : 'must be a private key, in PEM or as a JWK';
    throw new UsageError(`--signing-key: ${rule}`);
  }
}

/** A wildcard address is one to listen on, not one to connect to. */
export function addressOf({ host, port }: { readonly host: string; readonly port: number }): string {
  if (host === '0.0.0.0') return `127.0.0.1:${port}`;
  if (host === '::') return `[::1]:${port}`;
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}
