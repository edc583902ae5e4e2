import { relative } from 'node:path';
import { parseArgs } from 'node:util';
import { ensureDevelopmentCertificates } from './development-certificates.js';
import { DEFAULT_DIRECTORY } from './layout.js';

const HELP = `Development certificates: an authority per trust domain, the service, and everybody who calls it.
They hold for a day and are minted again after sixteen hours. Never for production.

  npm run certs                     mint them where they are missing or old
  npm run certs -- --renew          mint them now
  npm run certs -- --out <folder>   somewhere else than ${DEFAULT_DIRECTORY}
`;

async function run(): Promise<void> {
  const { values } = parseArgs({
    options: {
      out: { type: 'string', default: DEFAULT_DIRECTORY },
      renew: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) {
    process.stdout.write(HELP);
    return;
  }
  const made = await ensureDevelopmentCertificates({ directory: values.out, renew: values.renew });
  const show = (path: string): string => relative(process.cwd(), path) || path;
  const lines = [
    made.minted ? 'Minted development certificates.' : 'Development certificates are there and still hold.',
    `They expire at ${made.expiresAt.toISOString()}; run this again from ${made.renewAt.toISOString()} on.`,
    '',
    `service   ${made.service.spiffeId}  ${show(made.service.cert)}`,
    ...Object.entries(made.callers).map(([spiffeId, { cert }]) => `caller    ${spiffeId}  ${show(cert)}`),
    `bundles   ${show(made.bundlesDir)}`,
  ];
  process.stdout.write(`${lines.join('\n')}\n`);
}

run().catch((error: unknown) => {
  const message = error instanceof Error ? error.message : String(error);
  process.stderr.write(`certs: ${message}\n`);
  process.exitCode = 2;
});
