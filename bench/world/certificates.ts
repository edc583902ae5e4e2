import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { type Minted, mintAuthority, mintLeaf } from '../../certs/mint.js';
import type { IdentityText } from '../load/messages.js';
import {
  DOMAIN,
  executorSpiffeId,
  HARNESSES,
  harnessSpiffeId,
  OPERATOR,
  SERVICE,
  SERVICE_DOMAIN,
  UNCHAINED_DOMAIN,
} from './names.js';

const HOUR_MS = 3_600_000;

/** Certificates of the run: the service's files, and everybody's identity in memory. */
export interface BenchCertificates {
  readonly service: { readonly cert: string; readonly key: string; readonly bundlesDir: string };
  /** @throws Error where the caller has none */
  identity(spiffeId: string): IdentityText;
}

/** Mints an authority for each trust domain and a leaf for each caller, as real as those of `surety start`. */
export async function mintCertificates(folder: string): Promise<BenchCertificates> {
  const validity = {
    notBefore: new Date(Date.now() - HOUR_MS),
    notAfter: new Date(Date.now() + 24 * HOUR_MS),
  };
  const bundlesDir = path.join(folder, 'bundles');
  await mkdir(bundlesDir, { recursive: true });
  const leaves = new Map<string, Minted>();
  let roots = '';
  for (const [domain, callers] of Object.entries(callersByDomain())) {
    const authority = await mintAuthority(domain, validity);
    await writeFile(path.join(bundlesDir, `${domain}.pem`), authority.certificatePem);
    if (domain === SERVICE_DOMAIN) roots = authority.certificatePem;
    for (const spiffeId of callers) {
      const names = { spiffeId, commonName: path.basename(spiffeId) };
      const extra = spiffeId === SERVICE ? { dnsNames: ['localhost'], ipAddresses: ['127.0.0.1'] } : {};
      leaves.set(spiffeId, await mintLeaf(authority, { ...names, ...extra }, validity));
    }
  }
  const leafOf = (spiffeId: string): Minted => {
    const leaf = leaves.get(spiffeId);
    if (!leaf) throw new Error(`no certificate of ${spiffeId}`);
    return leaf;
  };
  const service = {
    cert: path.join(folder, 'service.pem'),
    key: path.join(folder, 'service.key'),
    bundlesDir,
  };
  await writeFile(service.cert, leafOf(SERVICE).certificatePem);
  await writeFile(service.key, leafOf(SERVICE).keyPem, { mode: 0o600 });
  return {
    service,
    identity(spiffeId) {
      const { certificatePem, keyPem } = leafOf(spiffeId);
      return { certificate: certificatePem, key: keyPem, roots };
    },
  };
}

function callersByDomain(): Readonly<Record<string, readonly string[]>> {
  const harnesses = (domain: string): string[] =>
    HARNESSES.map((harness) => harnessSpiffeId(domain, harness));
  return {
    [SERVICE_DOMAIN]: [SERVICE, OPERATOR],
    [DOMAIN]: [...harnesses(DOMAIN), executorSpiffeId(DOMAIN)],
    [UNCHAINED_DOMAIN]: harnesses(UNCHAINED_DOMAIN),
  };
}
