import { once } from 'node:events';
import { access } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { AuditService } from '../gen/surety/audit/v1/audit_service_pb.js';
import { openConnection } from './admin/connection.js';
import { exportLog } from './audit-export.js';
import { type ExportFile, openExportFile } from './audit-export-file.js';
import { auditVerify } from './audit-verify.js';
import { fileSentence, UsageError } from './failure.js';
import { TARGET_OPTIONS } from './target.js';

export const AUDIT_HELP = `surety audit export --domain <domain> [--out <file>] [options]
surety audit verify <file>... [--domain <domain>]

export reads the log of a domain, as it stands, with the certificate of an auditor or operator, and writes it to a file
or the standard output, one line an entry, exactly as it is stored.

verify recomputes an export offline, with neither the service nor its database: each leaf, the chain, and the steps of
each effect. It names every entry that does not match, and exits 0 only where all do. An archive (surety archive) is such a
file too, with a part of the log and the effects that left: several are given oldest first, and one that stands before
another is also held against what the later one's log says of it.

  --domain        whose log; verify takes the one that the export names unless it is given
  --out           the file to write; it is replaced only once the export is whole

  --target        where the service listens; that of SURETY_LISTEN unless given
  --cert, --key   the caller's certificate and its key, PEM; those of the development operator unless given
  --roots         the bundle that the service is trusted by; that of the development certificates unless given`;

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
  if (positionals.length === 0) throw new UsageError('verify takes a file, or several of one domain');
  for (const file of positionals) await usable('verify', file, access(file));
  return auditVerify({
    files: positionals,
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
      ...TARGET_OPTIONS,
      out: { type: 'string' },
    },
  });
  const { domain, out, ...service } = values;
  if (domain === undefined) throw new UsageError('--domain must be given');
  const { channel } = openConnection({ domain, ...service });
  try {
    const file = out === undefined ? STANDARD_OUTPUT : await usable('--out', out, openExportFile(out));
    const where = out ?? 'the standard output';
    const write = (line: string): Promise<void> => usable('--out', where, file.write(line));
    try {
      const audit = channel.service(AuditService);
      const { entries } = await exportLog({ audit, domainId: domain, write });
      await usable('--out', where, file.finish());
      process.stderr.write(`${entries} entries of ${domain}\n`);
      return 0;
    } catch (error) {
      await file.abandon();
      throw error;
    }
  } finally {
    channel.close();
  }
}

/** It is not ours to end. */
const STANDARD_OUTPUT: ExportFile = {
  write: async (line) => {
    if (!process.stdout.write(`${line}\n`)) await once(process.stdout, 'drain');
  },
  finish: async () => {},
  abandon: async () => {},
};

/** @throws UsageError where a file that was named is not there, or may not be used */
function usable<T>(option: string, file: string, use: Promise<T>): Promise<T> {
  return use.catch((error: NodeJS.ErrnoException) => {
    const isNew = option === '--out' && error.code === 'ENOENT';
    throw new UsageError(
      `${option}: ${isNew ? `${file} is not in a folder that is there` : fileSentence(file, error)}`,
    );
  });
}
