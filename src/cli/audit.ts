import { access, open, readFile } from 'node:fs/promises';
import { once } from 'node:events';
import { parseArgs } from 'node:util';
import { AuditService } from '../gen/surety/audit/v1/audit_service_pb.js';
import { exportLog } from './audit-export.js';
import { auditVerify } from './audit-verify.js';
import { Channel } from './client/service-client.js';
import { UsageError } from './failure.js';

export const AUDIT_HELP = `surety audit export --domain <domain> --cert <file> --key <file> --roots <file> [--address <host:port>] [--out <file>]
surety audit verify <file> [--domain <domain>]

export reads the log of a domain, as it stands, with the certificate of an auditor or operator, and writes it to a file
or the standard output, one line an entry, exactly as it is stored.

verify recomputes an export offline, with neither the service nor its database: each leaf, the chain, and the steps of
each effect. It names every entry that does not match, and exits 0 only where all do.

  --domain    whose log; verify takes the one that the export names unless it is given
  --cert      the caller's certificate, PEM; --key its key, --roots the bundle that the service is trusted by
  --address   where the service listens; localhost:7480 unless given
  --out       the file to write`;

/** Exports or verifies. @returns the exit code */
export async function audit([verb, ...args]: readonly string[]): Promise<number> {
  if (verb === 'export') return exportTo(args);
  if (verb === 'verify') return verify(args);
  throw new UsageError('say export or verify; surety audit --help says more');
}

async function verify(args: readonly string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    options: { domain: { type: 'string' } },
    allowPositionals: true,
  });
  const [file, ...more] = positionals;
  if (file === undefined || more.length > 0) throw new UsageError('verify takes one file');
  await usable(file, access(file));
  return auditVerify({
    file,
    ...(values.domain === undefined ? {} : { domainId: values.domain }),
    print: (line) => process.stdout.write(`${line}\n`),
  });
}

async function exportTo(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      domain: { type: 'string' },
      cert: { type: 'string' },
      key: { type: 'string' },
      roots: { type: 'string' },
      address: { type: 'string', default: 'localhost:7480' },
      out: { type: 'string' },
    },
  });
  const { domain, cert, key, roots, address, out } = values;
  if (domain === undefined || cert === undefined || key === undefined || roots === undefined) {
    throw new UsageError('--domain, --cert, --key and --roots must be given');
  }
  const read = (file: string): Promise<Buffer> => usable(file, readFile(file));
  const [certificate, keyPem, rootsPem] = await Promise.all([read(cert), read(key), read(roots)]);
  const channel = new Channel(address, { certificate, key: keyPem, roots: rootsPem });
  try {
    const sink =
      out === undefined ? process.stdout : (await usable(out, open(out, 'w', 0o600))).createWriteStream();
    const { entries } = await exportLog({
      audit: channel.service(AuditService),
      domainId: domain,
      write: async (line) => {
        if (!sink.write(`${line}\n`)) await once(sink, 'drain');
      },
    });
    if (out !== undefined) await closed(sink);
    process.stderr.write(`${entries} entries of ${domain}\n`);
    return 0;
  } finally {
    channel.close();
  }
}

/** @throws UsageError where a file that was named is not there, or may not be used */
function usable<T>(file: string, use: Promise<T>): Promise<T> {
  return use.catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(`${file}: ${error.code ?? 'cannot be used'}`);
  });
}

async function closed(sink: NodeJS.WritableStream): Promise<void> {
  sink.end();
  await once(sink, 'finish');
}
