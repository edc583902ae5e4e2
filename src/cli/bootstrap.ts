import { parseArgs } from 'node:util';
import { readConfiguration } from '../config/configuration.js';
import { TLS_VARIABLES } from '../config/tls-files.js';
import { inspectLeaf } from '../identity/certificate.js';
import { CertificateRejected } from '../identity/certificate-rejected.js';
import { PemInvalid, readPem } from '../identity/pem.js';
import { auditCodec } from '../lane/audit-codec.js';
import { newId } from '../rpc/new-id.js';
import { bootstrap } from '../store/bootstrap.js';
import { migrate } from '../store/migrate.js';
import { readFile } from './admin/field-value.js';
import { bootstrapInput } from './bootstrap-input.js';
import { UsageError } from './failure.js';

export const BOOTSTRAP_HELP = `surety bootstrap --operator <spiffe-id> --key <jwk> [--domain <trust-domain>]

Makes the service's own domain and its first operator, who makes everything else by signed commands. Works once, on a
database without an operator, with SURETY_MIGRATION_URL (or SURETY_DATABASE_URL), whose schema is brought up to date
first. It needs the service's SURETY_TLS_CERT_FILE, SURETY_TLS_KEY_FILE and SURETY_BUNDLES_DIR too: the service's name is
the SPIFFE ID of its certificate, and stays; every signed statement names it.

  --operator   the SPIFFE ID of the operator's certificate
  --key        the public key that the operator signs commands with: a P-256 JWK, or a file that holds one
  --domain     the service's own domain, if it is not the trust domain of its certificate`;

/** Bootstraps once. @returns the exit code */
export async function bootstrapCommand(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: { operator: { type: 'string' }, key: { type: 'string' }, domain: { type: 'string' } },
  });
  const { migrationUrl, databaseUrl, tls } = readConfiguration(process.env, 'bootstrap');
  const url = migrationUrl ?? databaseUrl;
  const missing = [
    ...(values.operator === undefined ? ['--operator'] : []),
    ...(values.key === undefined ? ['--key'] : []),
    ...(url === undefined ? ['SURETY_MIGRATION_URL or SURETY_DATABASE_URL'] : []),
    ...(tls === undefined ? TLS_VARIABLES : []),
  ];
  const { operator, key, domain } = values;
  if (operator === undefined || key === undefined || url === undefined || tls === undefined) {
    throw new UsageError(`${missing.join(', ')}: must be given`);
  }
  const input = bootstrapInput({
    url,
    audience: spiffeIdOf(tls.certificateFile),
    ...(domain === undefined ? {} : { serviceDomainId: domain }),
    operatorSpiffeId: operator,
    operatorJwk: key.trimStart().startsWith('{') ? key : readFile('--key', key),
    commandId: newId('cmd'),
    codec: auditCodec,
  });
  await migrate({ url });
  await bootstrap(input);
  process.stdout.write(
    `${input.audience} has its domain ${input.serviceDomainId} and its operator ${operator}.\n`,
  );
  return 0;
}

function spiffeIdOf(certificateFile: string): string {
  const text = readFile('SURETY_TLS_CERT_FILE', certificateFile);
  try {
    const [leaf] = readPem(text, 'CERTIFICATE');
    return inspectLeaf(leaf ?? Buffer.alloc(0)).spiffeId;
  } catch (error) {
    const rule =
      error instanceof PemInvalid || error instanceof CertificateRejected ? error.message : 'cannot be read';
    throw new UsageError(`SURETY_TLS_CERT_FILE: ${certificateFile}: ${rule}`);
  }
}
