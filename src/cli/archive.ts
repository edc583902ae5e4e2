import { stat } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { type Configuration, readConfiguration } from '../config/configuration.js';
import { auditCodec } from '../lane/audit-codec.js';
import { Faults } from '../lane/faults.js';
import { SILENT_OBSERVER } from '../lane/lane-observer.js';
import { Lanes } from '../lane/lanes.js';
import { MIN_RETENTION } from '../ledger/effect/archive-effects.js';
import { Refused } from '../ledger/run-decision.js';
import type { Micros } from '../ledger/types.js';
import { newId } from '../rpc/new-id.js';
import { ConnectionPool } from '../store/connection-pool.js';
import { PgReader } from '../store/pg-reader.js';
import { prepareArchive } from '../store/prepare-archive.js';
import type { Reader } from '../store/reader.js';
import { StoreError } from '../store/store-error.js';
import { readDuration } from './admin/field-value.js';
import {
  type ArchiveOptions,
  type ArchiveSummary,
  archiveDomain,
  countArchivable,
} from './archive/archive-domain.js';
import { ArchiveError } from './archive/export-archive.js';
import { EXIT_FAILED, reportFailure, UsageError } from './failure.js';

export const ARCHIVE_HELP = `surety archive --older-than <duration> --out <folder> [--domain <domain>] [--json]
surety archive --older-than <duration> --dry-run [--domain <domain>] [--json]

Archives effects that were settled at least so long ago, with SURETY_ARCHIVE_URL (or SURETY_MIGRATION_URL, or
SURETY_DATABASE_URL): writes them to a file with their receipts and the part of the log that no archive has yet, reads the
file back and verifies it, and only then removes them, a few at a time. Tombstones stay for ever and answer duplicates;
nothing is removed from the log. What is disputed stays. Callers go on meanwhile. Wherever it ends, run it again. An effect
whose row contradicts the log stays too, is named, and makes the exit code 1.

  --older-than   such as 90d; at least 1h
  --out          the folder for the files, which is there; one file an archive, never replaced. They are the only copy of
                 what left: keep them as you keep backups. surety audit verify checks them, oldest first
  --domain       one domain; all of them unless it is given
  --dry-run      counts, and changes nothing
  --json         says it as JSON, one line a domain`;

const MICROS_PER_MS = 1000n;
const DOMAINS_PAGE = 500n;
/** Effects that one line names: more than that is not looked after by hand. */
const MAX_NAMED = 20;
/** The reads and the batches each need one at a time. */
const CONNECTIONS = 1;

interface Asked {
  readonly retention: Micros;
  readonly folder: string | undefined;
  readonly domainId: string | undefined;
  readonly json: boolean;
}

/** Archives, domain after domain. @returns the exit code */
export async function archive(args: readonly string[]): Promise<number> {
  const asked = await readArguments(args);
  const configuration = readConfiguration(process.env, 'archive');
  const { reader, lanes, close } = await open(configuration);
  let code = 0;
  try {
    for await (const domainId of domains(reader, asked.domainId)) {
      try {
        await archiveOne(asked, { reader, commands: lanes, domainId, retention: asked.retention, newId });
      } catch (error) {
        // One domain does not keep the others.
        code = reportFailure('archive', sentence(domainId, error)) || EXIT_FAILED;
      }
    }
  } catch (error) {
    throw sentence(undefined, error);
  } finally {
    await close();
  }
  return code;
}

async function readArguments(args: readonly string[]): Promise<Asked> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      'older-than': { type: 'string' },
      out: { type: 'string' },
      domain: { type: 'string' },
      'dry-run': { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
    },
  });
  const { 'older-than': olderThan, out, domain, 'dry-run': dryRun, json } = values;
  if (olderThan === undefined) throw new UsageError('--older-than must be given');
  const retention = BigInt(readDuration('--older-than', olderThan)) * MICROS_PER_MS;
  if (retention < MIN_RETENTION) throw new UsageError('--older-than: must be at least 1h');
  if (dryRun && out !== undefined) throw new UsageError('--dry-run writes nothing: leave out --out');
  if (!dryRun && out === undefined) throw new UsageError('--out must be given');
  if (out !== undefined && (await stat(out).catch(() => undefined))?.isDirectory() !== true) {
    throw new UsageError(`--out: ${out} is not a folder`);
  }
  return { retention, folder: out, domainId: domain, json };
}

interface Opened {
  readonly reader: Reader;
  readonly lanes: Lanes;
  readonly close: () => Promise<void>;
}

async function open(configuration: Configuration): Promise<Opened> {
  const { archiveUrl, migrationUrl, databaseUrl } = configuration;
  const url = archiveUrl ?? migrationUrl ?? databaseUrl;
  if (url === undefined) {
    throw new UsageError('SURETY_ARCHIVE_URL, SURETY_MIGRATION_URL or SURETY_DATABASE_URL: must be set');
  }
  const { settings, testDatabase } = await prepareArchive(url, archiveUrl === undefined);
  const { fault } = configuration;
  if (fault !== undefined && !testDatabase) {
    throw new UsageError('SURETY_FAULT: this database is not marked for tests');
  }
  const pool = new ConnectionPool(settings, CONNECTIONS);
  const reader = new PgReader(settings, CONNECTIONS, auditCodec);
  const lanes = new Lanes({
    pool,
    codec: auditCodec,
    faults: new Faults(fault),
    observer: SILENT_OBSERVER,
    laneId: newId('lane'),
    queueLimit: 1,
    batchLimit: 1,
  });
  const close = async (): Promise<void> => {
    await lanes.drain();
    await pool.close();
    await reader.close();
  };
  return { reader, lanes, close };
}

async function* domains(reader: Reader, only: string | undefined): AsyncGenerator<string> {
  if (only !== undefined) return yield only;
  for (let after = ''; ; ) {
    const rows = await reader.query<{ domainId: string }>('archive_domains', [after, DOMAINS_PAGE]);
    for (const { domainId } of rows) yield domainId;
    const last = rows.at(-1);
    if (!last || BigInt(rows.length) < DOMAINS_PAGE) return;
    after = last.domainId;
  }
}

async function archiveOne({ folder, json }: Asked, options: Omit<ArchiveOptions, 'folder'>): Promise<void> {
  const { domainId } = options;
  if (folder === undefined) {
    const count = await countArchivable(options);
    return say(
      json ? JSON.stringify({ domain_id: domainId, archivable: count }) : `${domainId}: ${count} effects`,
    );
  }
  const corrupt: string[] = [];
  const onCorrupt = (effectIds: readonly string[]): void => void corrupt.push(...effectIds);
  const archives = await archiveDomain({ ...options, folder, onCorrupt });
  if (json) say(JSON.stringify({ domain_id: domainId, archives: archives.map(jsonOf) }));
  else sayArchives(domainId, archives);
  if (corrupt.length > 0) throw corruptEffects(corrupt);
}

function sayArchives(domainId: string, archives: readonly ArchiveSummary[]): void {
  if (archives.length === 0) say(`${domainId}: nothing to archive`);
  for (const one of archives) {
    const left = Object.entries(one.left).map(([why, count]) => `, ${count} left (${why})`);
    say(`${domainId}: ${one.archived} effects archived${left.join('')}; ${one.file}`);
  }
}

/** They stay, run after run, until a person has looked: so it is a failure each time. */
function corruptEffects(effectIds: readonly string[]): ArchiveError {
  const named = effectIds.slice(0, MAX_NAMED).join(', ');
  const more = effectIds.length > MAX_NAMED ? ` and ${effectIds.length - MAX_NAMED} more` : '';
  return new ArchiveError(
    `DATA_CORRUPT: ${named}${more}: the row contradicts the log or itself, and the effect stays where it is`,
  );
}

function jsonOf({ archiveNumber, file, exportDigest, exported, archived, left }: ArchiveSummary): object {
  return {
    archive_number: archiveNumber.toString(),
    file,
    sha256: exportDigest.toString('hex'),
    exported,
    archived,
    left,
  };
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** What the store says stays in the log of whoever asks for it; here it is one sentence. */
function sentence(domainId: string | undefined, error: unknown): unknown {
  const of = domainId === undefined ? '' : `${domainId}: `;
  if (error instanceof StoreError) {
    return new ArchiveError(`${of}the database failed; what was archived stays archived, run it again`);
  }
  if (error instanceof Refused) {
    return new ArchiveError(`${of}${error.refusal.reason}: ${error.refusal.message}`);
  }
  return error instanceof ArchiveError ? new ArchiveError(`${of}${error.message}`) : error;
}
