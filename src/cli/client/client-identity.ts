import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { readPem } from '../../identity/pem.js';

/** A caller's own certificate and key, and the CA that it trusts for the service; all PEM. */
export interface ClientIdentity {
  readonly certificate: Buffer;
  readonly key: Buffer;
  readonly roots: Buffer;
}

/** What a caller was given cannot be used. Each of `problems` has the option in front that every command calls it by. */
export class ClientIdentityInvalid extends Error {
  override readonly name = 'ClientIdentityInvalid';
  constructor(readonly problems: readonly string[]) {
    super(problems.join('; '));
  }
}

/**
 * Looks at all three before OpenSSL does, whose words are for nobody.
 *
 * @throws {ClientIdentityInvalid} with everything that is wrong
 */
export function checkClientIdentity({ certificate, key, roots }: ClientIdentity): void {
  const problems: string[] = [];
  const leaf = certificatesOf(certificate)?.[0];
  if (leaf === undefined) problems.push('--cert: is not a certificate in PEM');
  const privateKey = privateKeyOf(key);
  if (privateKey === undefined) problems.push('--key: is not a private key in PEM without a passphrase');
  if (leaf && privateKey && !leaf.checkPrivateKey(privateKey)) {
    problems.push('--key: does not belong to the certificate of --cert');
  }
  if (certificatesOf(roots) === undefined) problems.push('--roots: is not a bundle of certificates in PEM');
  if (problems.length > 0) throw new ClientIdentityInvalid(problems);
}

function certificatesOf(pem: Buffer): readonly X509Certificate[] | undefined {
  try {
    return readPem(pem.toString('latin1'), 'CERTIFICATE').map((der) => new X509Certificate(der));
  } catch {
    return undefined;
  }
}

function privateKeyOf(pem: Buffer): KeyObject | undefined {
  try {
    return createPrivateKey(pem);
  } catch {
    return undefined;
  }
}
