import { join, relative } from 'node:path';
import { parseArgs } from 'node:util';
import { ensureDevelopmentCertificates } from '../../certs/development-certificates.js';
import { readConfiguration } from '../config/configuration.js';

export const CERTS_HELP = `surety certs [--renew]

Makes development certificates in SURETY_STATE_DIR/certs, where they are missing or two thirds of their day are over:
an authority per trust domain, the service, and everybody who calls it. Never for production. surety start does it too.

  --renew   makes them anew even though they still hold`;

/** Makes them once. @returns the exit code */
export async function certs(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({ args: [...args], options: { renew: { type: 'boolean', default: false } } });
  const { stateDir } = readConfiguration(process.env, 'start');
  const made = await ensureDevelopmentCertificates({
    directory: join(stateDir, 'certs'),
    renew: values.renew,
  });
  const show = (path: string): string => relative(process.cwd(), path) || path;
  const lines = [
    `${made.minted ? 'Made' : 'There already, and good'} until ${made.expiresAt.toISOString()}:`,
    `  ${made.service.spiffeId}  ${show(made.service.cert)}`,
    ...Object.entries(made.callers).map(([spiffeId, { cert }]) => `  ${spiffeId}  ${show(cert)}`),
    `  bundles  ${show(made.bundlesDir)}`,
  ];
  process.stdout.write(`${lines.join('\n')}\n`);
  return 0;
}
