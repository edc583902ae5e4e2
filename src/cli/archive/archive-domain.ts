import type { CommandRunner } from '../../lane/lanes.js';
import {
  type ArchiveEffectsReply,
  archiveEffects,
  type ExportedEffect,
  type WhyLeft,
} from '../../ledger/effect/archive-effects.js';
import type { Reason } from '../../ledger/refusal.js';
import { Refused } from '../../ledger/run-decision.js';
import type { Micros } from '../../ledger/types.js';
import type { Reader } from '../../store/reader.js';
import { ArchiveError, type ExportedArchive, exportArchive } from './export-archive.js';

/** Effects of one archive: a file of some ten megabytes that is written, read back and handled as one. */
export const MAX_EFFECTS_PER_ARCHIVE = 5_000;
/** Effects of one transaction: it holds the domain's lock for some milliseconds. */
export const EFFECTS_PER_BATCH = 25;
/**
 * The domain is left to its callers for so many times as long as a batch took, and at least so long, in milliseconds: the
 * archival has a fifth of a domain's time at most.
 */
const PAUSE_FACTOR = 4;
const MIN_PAUSE_MS = 10;
const CANDIDATES_PAGE = 1_000n;

/** Nothing was done, or it is not known; the batch is submitted again, since what went leaves no second trace. */
const AGAIN: ReadonlySet<Reason> = new Set(['STORE_UNAVAILABLE', 'OUTCOME_UNKNOWN', 'BACKPRESSURE']);
const MAX_TRIES = 5;
const RETRY_PAUSE_MS = 500;

/** What the archival of a domain needs. */
export interface ArchiveOptions {
  readonly reader: Reader;
  readonly commands: CommandRunner;
  readonly domainId: string;
  /** How long ago an effect must have been settled. */
  readonly retention: Micros;
  /** Where the files go; it is there. */
  readonly folder: string;
  readonly newId: (prefix: string) => string;
  /** Called with each archive, before anything of it is removed. */
  readonly onExported?: (exported: ExportedArchive) => void | Promise<void>;
  /** Called with effects whose rows contradict the log or themselves: they stay, for a person to look at. */
  readonly onCorrupt?: (effectIds: readonly string[]) => void;
  /** Effects of one archive and of one transaction, for tests. */
  readonly archiveSize?: number;
  readonly batchSize?: number;
}

/** What became of one archive's effects. */
export interface ArchiveSummary {
  readonly archiveNumber: bigint;
  readonly file: string;
  readonly exportDigest: Buffer;
  readonly exported: number;
  readonly archived: number;
  /** Effects that stay, by the reason. */
  readonly left: Readonly<Partial<Record<WhyLeft, number>>>;
}

/**
 * Archives what was settled long enough ago (effects.md, Archival): exports it, reads the export back, and only then removes
 * it, in small batches with pauses, each an ordinary transaction of the domain. Wherever it ends, it can be run again.
 *
 * @returns one summary per archive, in order
 * @throws ArchiveError where there is no such domain, or a file is not what was written
 * @throws Refused, StoreError, the file system's errors; what was archived stays archived
 */
export async function archiveDomain(options: ArchiveOptions): Promise<ArchiveSummary[]> {
  await requireDomain(options);
  const summaries: ArchiveSummary[] = [];
  for await (const effectIds of candidates(options)) {
    const { exported, corrupt } = await exportArchive(options.reader, {
      domainId: options.domainId,
      folder: options.folder,
      archiveId: options.newId('archive'),
      effectIds,
    });
    if (corrupt.length > 0) options.onCorrupt?.(corrupt);
    if (exported === undefined) continue;
    await options.onExported?.(exported);
    summaries.push(await remove(options, exported, corrupt.length));
  }
  return summaries;
}

/**
 * How many effects of a domain could be archived now.
 *
 * @throws ArchiveError where there is no such domain
 */
export async function countArchivable(
  options: Pick<ArchiveOptions, 'reader' | 'domainId' | 'retention'>,
): Promise<number> {
  await requireDomain(options);
  let count = 0;
  for await (const effectIds of candidates(options)) count += effectIds.length;
  return count;
}

/** A domain that nobody has has nothing to archive either: whoever mistypes its name would learn that all is well. */
async function requireDomain({
  reader,
  domainId,
}: Pick<ArchiveOptions, 'reader' | 'domainId'>): Promise<void> {
  if ((await reader.gather(domainId, {})) === undefined) throw new ArchiveError('there is no such domain');
}

/** Effects that are due, oldest settlement first, in portions of one archive; each is named once. */
async function* candidates({
  reader,
  domainId,
  retention,
  archiveSize = MAX_EFFECTS_PER_ARCHIVE,
}: Pick<ArchiveOptions, 'reader' | 'domainId' | 'retention' | 'archiveSize'>): AsyncGenerator<string[]> {
  let after = { settledAt: 0n, effectId: '' };
  let portion: string[] = [];
  for (;;) {
    const wanted = BigInt(archiveSize - portion.length);
    const limit = wanted < CANDIDATES_PAGE ? wanted : CANDIDATES_PAGE;
    const rows = await reader.query<{ effectId: string; settledAt: bigint }>('archivable_effects', [
      domainId,
      retention,
      after.settledAt,
      after.effectId,
      limit,
    ]);
    portion.push(...rows.map(({ effectId }) => effectId));
    after = rows.at(-1) ?? after;
    const exhausted = BigInt(rows.length) < limit;
    if (portion.length > 0 && (exhausted || portion.length >= archiveSize)) {
      yield portion;
      portion = [];
    }
    if (exhausted) return;
  }
}

async function remove(
  options: ArchiveOptions,
  exported: ExportedArchive,
  notExported: number,
): Promise<ArchiveSummary> {
  const { batchSize = EFFECTS_PER_BATCH } = options;
  const { archive, effects, file } = exported;
  const left = new Map<WhyLeft, number>(notExported === 0 ? [] : [['corrupt', notExported]]);
  let archived = 0;
  for (let at = 0; at < effects.length; at += batchSize) {
    const started = performance.now();
    const reply = await submit(options, exported, effects.slice(at, at + batchSize));
    archived += reply.archived.length;
    for (const { why } of reply.left) left.set(why, (left.get(why) ?? 0) + 1);
    const corrupt = reply.left.filter(({ why }) => why === 'corrupt').map(({ effectId }) => effectId);
    if (corrupt.length > 0) options.onCorrupt?.(corrupt);
    await pause(Math.max(MIN_PAUSE_MS, PAUSE_FACTOR * (performance.now() - started)));
  }
  const { archiveNumber, exportDigest } = archive;
  return {
    archiveNumber,
    file,
    exportDigest,
    exported: effects.length,
    archived,
    left: Object.fromEntries(left),
  };
}

async function submit(
  { commands, domainId, retention, newId }: ArchiveOptions,
  { archive }: ExportedArchive,
  effects: readonly ExportedEffect[],
): Promise<ArchiveEffectsReply> {
  for (let tries = 1; ; tries += 1) {
    const commandId = newId('cmd');
    const outcome = await commands.submit(archiveEffects, {
      domainId,
      commandId,
      archive,
      retention,
      effects,
    });
    if (outcome.ok) return outcome.reply;
    const { refusal } = outcome;
    if (!AGAIN.has(refusal.reason) || tries === MAX_TRIES) throw new Refused(refusal);
    await pause(RETRY_PAUSE_MS * tries);
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
