import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { mintAuthority, mintLeaf } from '../../certs/mint.js';
import { AdminSession } from '../../src/cli/client/admin-session.js';
import { Channel } from '../../src/cli/client/service-client.js';
import type { IdentityText } from '../load/messages.js';
import type { BenchWorld } from '../world/bench-world.js';
import { HARNESSES, harnessSpiffeId, OPERATOR } from '../world/names.js';
import { publishEvents, setUpDomain } from '../world/set-up-domain.js';

/** So many domains share the load of S3 and S4. */
export const EVEN_DOMAINS: readonly string[] = Array.from(
  { length: 16 },
  (_, i) => `even-${String(i + 1).padStart(2, '0')}.test`,
);
/** Of each of them, requests per minute: with the two domains of the world they fit into the service's limit. */
const SHARE = 10_000_000;
/** Of each harness: with sixteen domains there are as many in all as the hot domain has. */
const EVENTS = 1;
const HOUR_MS = 3_600_000;

/** A domain's harnesses, and what they reserve for. */
export interface ScaleParties {
  readonly identities: readonly IdentityText[];
  readonly events: readonly (readonly string[])[];
}

/** Mints a trust domain for each; a service that starts afterwards takes its callers. */
export async function mintEvenDomains(world: BenchWorld): Promise<Map<string, IdentityText[]>> {
  const { bundlesDir } = world.certificates.service;
  const { roots } = world.certificates.identity(OPERATOR);
  const validity = {
    notBefore: new Date(Date.now() - HOUR_MS),
    notAfter: new Date(Date.now() + 24 * HOUR_MS),
  };
  const identities = new Map<string, IdentityText[]>();
  for (const domainId of EVEN_DOMAINS) {
    const authority = await mintAuthority(domainId, validity);
    await writeFile(path.join(bundlesDir, `${domainId}.pem`), authority.certificatePem);
    const leaves = HARNESSES.map(async (harness): Promise<IdentityText> => {
      const spiffeId = harnessSpiffeId(domainId, harness);
      const leaf = await mintLeaf(authority, { spiffeId, commonName: harness }, validity);
      return { certificate: leaf.certificatePem, key: leaf.keyPem, roots };
    });
    identities.set(domainId, await Promise.all(leaves));
  }
  return identities;
}

/** Makes the domains by signed commands, and their events. @param target a service that knows their trust domains */
export async function setUpEvenDomains(
  world: BenchWorld,
  target: string,
  minted: ReadonlyMap<string, readonly IdentityText[]>,
): Promise<Map<string, ScaleParties>> {
  const parties = new Map<string, ScaleParties>();
  const operator = new Channel(target, buffersOf(world.certificates.identity(OPERATOR)));
  const admin = new AdminSession(operator, world.operatorKey);
  try {
    for (const [domainId, identities] of minted) {
      await setUpDomain(admin, domainId, SHARE);
      const published = identities.map(async (identity, i) => {
        const channel = new Channel(target, buffersOf(identity));
        const events = await publishEvents(channel, HARNESSES[i] ?? '', EVENTS);
        channel.close();
        return events;
      });
      parties.set(domainId, { identities, events: await Promise.all(published) });
    }
  } finally {
    operator.close();
  }
  return parties;
}

function buffersOf({ certificate, key, roots }: IdentityText) {
  return { certificate: Buffer.from(certificate), key: Buffer.from(key), roots: Buffer.from(roots) };
}
