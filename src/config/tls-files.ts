import { createPrivateKey, type KeyObject } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { createSecureContext } from 'node:tls';
import { inspectLeafFields } from '../identity/certificate.js';
import { authorityProblem } from '../identity/certificate-chain.js';
import { type CertificateFields, readCertificate } from '../identity/certificate-fields.js';
import { CertificateRejected } from '../identity/certificate-rejected.js';
import { CrlInvalid, readCrl } from '../identity/crl.js';
import { PemInvalid, readPem } from '../identity/pem.js';
import { isTrustDomain } from '../identity/spiffe-id.js';

/** The three variables of TLS, in the order in which they are spoken of. */
export const TLS_VARIABLES = ['SURETY_TLS_CERT_FILE', 'SURETY_TLS_KEY_FILE', 'SURETY_BUNDLES_DIR'] as const;

const [CERTIFICATE, KEY, BUNDLES] = TLS_VARIABLES;

const CRL_SUFFIX = '.crl.pem';
const PEM_SUFFIX = '.pem';
/** Nothing of TLS is longer; a device or a disk image must not be read whole, in octets. */
const MAX_FILE_OCTETS = 8 * 1024 * 1024;

/** Why a file is not what it should be, in words of ours: OpenSSL's may repeat what it held. */
class FileMistake extends Error {}

/**
 * What is wrong with the files of TLS, all at once. What a clock decides is not looked at: the store has the clock that
 * counts (architecture.md, Time).
 *
 * @param paths by variable; one that is not set is left out
 * @param depth `places`: only whether they are there; `contents`: what is in them, as well
 * @returns sentences, each with its variable in front
 */
export function tlsFileMistakes(
  paths: Readonly<Partial<Record<(typeof TLS_VARIABLES)[number], string>>>,
  depth: 'places' | 'contents',
): string[] {
  const misplaced = new Map(TLS_VARIABLES.map((name) => [name, placeMistake(name, paths[name])]));
  const mistakes = new Map<string, string[]>(
    TLS_VARIABLES.map((name) => {
      const mistake = misplaced.get(name);
      return [name, mistake === undefined ? [] : [mistake]];
    }),
  );
  const readable = (name: (typeof TLS_VARIABLES)[number]): string | undefined =>
    misplaced.get(name) === undefined ? paths[name] : undefined;
  if (depth === 'contents') {
    const take = <T>(name: string, read: () => T): T | undefined => attempt(read, mistakes.get(name) ?? []);
    const [certificate, key, bundles] = [readable(CERTIFICATE), readable(KEY), readable(BUNDLES)];
    const leaf = certificate && take(CERTIFICATE, () => readLeaf(certificate));
    const privateKey = key && take(KEY, () => readKey(key));
    if (leaf && privateKey) {
      if (!leaf.fields.x509.checkPrivateKey(privateKey)) {
        mistakes.get(KEY)?.push(`${key} is not the key of ${certificate}`);
      } else take(CERTIFICATE, () => assertServable(leaf.pem, privateKey, certificate));
    }
    if (bundles !== undefined) mistakes.get(BUNDLES)?.push(...bundleMistakes(bundles));
  }
  return TLS_VARIABLES.flatMap((name) => (mistakes.get(name) ?? []).map((text) => `${name}: ${text}`));
}

function placeMistake(name: string, file: string | undefined): string | undefined {
  if (file === undefined) return undefined;
  try {
    const isFolder = statSync(file).isDirectory();
    if (isFolder === (name === BUNDLES)) return undefined;
    return `${file} is ${isFolder ? 'a folder' : 'not a folder'}`;
  } catch (error) {
    return `${codeOf(error)} ${file}`;
  }
}

function attempt<T>(read: () => T, mistakes: string[]): T | undefined {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof FileMistake)) throw error;
    mistakes.push(error.message);
    return undefined;
  }
}

interface Leaf {
  readonly pem: string;
  readonly fields: CertificateFields;
}

function readLeaf(file: string): Leaf {
  const pem = textOf(file);
  return naming(file, () => {
    const [leaf] = readPem(pem, 'CERTIFICATE');
    const fields = readCertificate(leaf ?? Buffer.alloc(0));
    inspectLeafFields(fields);
    return { pem, fields };
  });
}

function readKey(file: string): KeyObject {
  const text = textOf(file);
  try {
    return createPrivateKey(text);
  } catch {
    throw new FileMistake(`${file} is not a private key in PEM without a passphrase`);
  }
}

/** A chain behind the leaf that does not parse is found by the one who will serve it. */
function assertServable(pem: string, key: KeyObject, file: string): void {
  try {
    createSecureContext({ cert: pem, key: key.export({ type: 'pkcs8', format: 'pem' }) });
  } catch {
    throw new FileMistake(`${file} has a chain that cannot be served`);
  }
}

function bundleMistakes(folder: string): string[] {
  const mistakes: string[] = [];
  const files = attempt(() => namesIn(folder), mistakes);
  if (files === undefined) return mistakes;
  if (!files.some((file) => !file.endsWith(CRL_SUFFIX))) {
    mistakes.push(`${folder} has no <trust-domain>.pem in it`);
  }
  for (const name of files) {
    const file = join(folder, name);
    attempt(() => (name.endsWith(CRL_SUFFIX) ? assertLists(file) : assertBundle(file, name)), mistakes);
  }
  return mistakes;
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
      .filter((name) => name.endsWith(PEM_SUFFIX))
      .sort();
  } catch (error) {
    throw new FileMistake(`${codeOf(error)} ${folder}`);
  }
}

function assertBundle(file: string, name: string): void {
  const trustDomain = name.slice(0, -PEM_SUFFIX.length);
  if (!isTrustDomain(trustDomain)) throw new FileMistake(`${file}: its name is not a trust domain`);
  const text = textOf(file);
  for (const authority of naming(file, () => readPem(text, 'CERTIFICATE').map(readCertificate))) {
    const problem = authorityProblem(authority, trustDomain);
    if (problem !== undefined) throw new FileMistake(`${file}: certificate ${authority.serial}: ${problem}`);
  }
}

function assertLists(file: string): void {
  const text = textOf(file);
  naming(file, () => readPem(text, 'X509 CRL').map(readCrl));
}

function naming<T>(file: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    const known =
      error instanceof PemInvalid || error instanceof CertificateRejected || error instanceof CrlInvalid;
    throw known ? new FileMistake(`${file}: ${error.message}`) : error;
  }
}

function textOf(file: string): string {
  try {
    if (statSync(file).size > MAX_FILE_OCTETS) throw new FileMistake(`${file} is too long`);
    return readFileSync(file, 'latin1');
  } catch (error) {
    throw error instanceof FileMistake ? error : new FileMistake(`${codeOf(error)} ${file}`);
  }
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : 'cannot be read:';
}
