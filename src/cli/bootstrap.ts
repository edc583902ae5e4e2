import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { readConfiguration } from '../config/configuration.js';
import { inspectLeaf } from '../identity/certificate.js';
import { readPem } from '../identity/pem.js';
import { auditCodec } from '../lane/audit-codec.js';
import { newId } from '../rpc/new-id.js';
import { bootstrap } from '../store/bootstrap.js';
import { migrate } from '../store/migrate.js';
import { bootstrapInput } from './bootstrap-input.js';
import { UsageError } from './failure.js';

export const BOOTSTRAP_HELP = `surety bootstrap --operator <spiffe-id> --key <jwk> [--domain <trust-domain>]

Makes the service's own domain and its first operator, who makes everything else by signed commands. Works once, on a
database without an operator, with SURETY_MIGRATION_URL (or SURETY_DATABASE_URL), whose schema is brought up to date
first. The service's name is the SPIFFE ID of SURETY_TLS_CERT_FILE, and stays: every signed statement names it.

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
    ...(tls === undefined ? ['SURETY_TLS_CERT_FILE'] : []),
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
    operatorJwk: key.trimStart().startsWith('{') ? key : readText(key),
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
  const [leaf] = readPem(readText(certificateFile), 'CERTIFICATE');
  return inspectLeaf(leaf ?? Buffer.alloc(0)).spiffeId;
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'cannot be read';
    throw new UsageError(`${file}: ${code}`);
  }
}
