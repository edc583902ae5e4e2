import { generateKeyPairSync } from 'node:crypto';
import { allThere, writePublic, writeSecret } from './files.js';
import type { SigningKeyFiles } from './layout.js';

/**
 * Makes one P-256 signing key where there is none.
 *
 * Unlike certificates these are never made again: an operator's and an owner's public key is a row of the
 * database from bootstrap on, and with another one nobody could command the domain any more.
 */
export async function ensureSigningKey(files: SigningKeyFiles): Promise<void> {
  // The public one is written last: where it is, the others are.
  if (await allThere([files.pem, files.jwk, files.publicJwk])) return;
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  await writeSecret(files.pem, privateKey.export({ type: 'pkcs8', format: 'pem' }).toString());
  await writeSecret(files.jwk, `${JSON.stringify(privateKey.export({ format: 'jwk' }))}\n`);
  await writePublic(files.publicJwk, `${JSON.stringify(publicKey.export({ format: 'jwk' }))}\n`);
}
