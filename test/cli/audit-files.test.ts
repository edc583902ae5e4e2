import { createHash } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type ArchiveHeader, encodeExportLine } from '../../src/cli/audit-export-format.js';
import { auditVerify } from '../../src/cli/audit-verify.js';
import { auditCodec } from '../../src/lane/audit-codec.js';
import { genesisHash } from '../../src/ledger/audit/chain.js';
import type { AuditRow } from '../../src/ledger/audit/records.js';
import { sha256 } from '../../src/ledger/encoding.js';
import type { WorkingSet } from '../../src/ledger/working-set.js';
import { Draft } from '../../src/ledger/working-set.js';
import { FIXTURE_DOMAIN, workingSet } from '../support/ledger-fixture.js';

// provenance-audit-replay.md, Audit; docs/retention.md, Reading an archive: what several files of one log say of each other.

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'surety-files-'));
});
afterAll(() => rm(folder, { recursive: true }));

/** A log that is written entry by entry, and the parts of it that go into files. */
class Log {
  private readonly set: WorkingSet = workingSet({ codec: auditCodec, head: { incarnation: 0n } });

  get rows(): AuditRow[] {
    const { rows } = this.set.changes();
    return rows.flatMap((row) => (row.table === 'audit_entries' ? [row.after as AuditRow] : []));
  }

  /** The step of an effect. */
  step(step: bigint, effectId = 'eff_1'): this {
    const said = { toState: 'PREPARED', source: 'reservation', fence: 5n, sink: 'bank' } as const;
    const effect = { ...said, effectId, step, identityDigest: sha256('x') };
    return this.append({ kind: 'effect_step', commandId: `cmd-${step}`, effect });
  }

  /** What says that a file is an archive. */
  archived({ archiveId, digest }: ArchiveFile): this {
    const record = { type: 'archive', id: archiveId, revision: 1n, operation: 'archive_effects', digest };
    return this.append({ kind: 'archival', commandId: `cmd-${archiveId}`, record });
  }

  /** What was appended since an archive, or from the beginning, as the next one. */
  async archive(name: string, after?: ArchiveFile): Promise<ArchiveFile> {
    const last = after?.last ?? { seq: 0n, chainHash: genesisHash(FIXTURE_DOMAIN) };
    const archiveId = `archive_${name}`;
    const archive = { archiveNumber: 1n, archiveId, afterSeq: last.seq, afterChainHash: last.chainHash };
    const rows = this.rows.filter(({ seq }) => seq > last.seq);
    const file = await written(name, rows, archive);
    return { ...file, archiveId, last: rows.at(-1) as AuditRow };
  }

  /** All of it, as `surety audit export` writes it. */
  async whole(name: string): Promise<string> {
    return (await written(name, this.rows)).file;
  }

  private append(entry: Parameters<Draft['append']>[0]): this {
    const draft = new Draft(this.set);
    draft.append(entry);
    this.set.apply(draft);
    return this;
  }
}

interface ArchiveFile {
  readonly file: string;
  readonly archiveId: string;
  readonly digest: Buffer;
  readonly last: Pick<AuditRow, 'seq' | 'chainHash'>;
}

async function written(name: string, rows: readonly AuditRow[], archive?: ArchiveHeader) {
  const end = rows.at(-1) as AuditRow;
  const lines = [
    encodeExportLine({ kind: 'header', domainId: FIXTURE_DOMAIN, ...(archive && { archive }) }),
    ...rows.map((entry) => encodeExportLine({ kind: 'entry', entry })),
    encodeExportLine({ kind: 'end', seq: end.seq, chainHash: end.chainHash }),
  ];
  const text = lines.map((line) => `${line}\n`).join('');
  const file = path.join(folder, name);
  await writeFile(file, text);
  return { file, digest: createHash('sha256').update(text).digest() };
}

/** What is found, without the lines that say what was read. */
async function found(...files: readonly string[]): Promise<string[]> {
  const printed: string[] = [];
  const status = await auditVerify({ files, print: (line) => printed.push(line) });
  const findings = printed.slice(0, -1 - files.length);
  expect(status).toBe(findings.length === 0 ? 0 : 1);
  return findings.map((line) => line.replaceAll(`${folder}/`, ''));
}

describe('an archive and the one behind it', () => {
  test('verify where that goes on where this ends, and names it', async () => {
    const log = new Log().step(1n);
    const first = await log.archive('1');
    const second = await log.archived(first).step(2n).archive('2', first);
    const third = await log.archived(second).step(3n).archive('3', second);
    expect(await found(first.file, second.file, third.file)).toEqual([]);
    // One that comes later proves less, and is not wrong for it; the last one is named by nothing yet.
    expect(await found(second.file, third.file)).toEqual([]);
    expect(await found(first.file, third.file)).toEqual([
      '1: entry 5: STEP_GAP',
      '1: the file: OTHER_FILE',
      '1: entry 1: NOT_CONTINUED',
    ]);
  });

  test('that names none, or another one, is told', async () => {
    const log = new Log().step(1n);
    const first = await log.archive('1');
    const silent = await new Log().step(1n).step(2n).archive('silent', first);
    expect(await found(first.file, silent.file)).toEqual(['1: the file: OTHER_FILE']);
    const behind = await log.archived({ ...first, digest: sha256('another') }).archive('behind', first);
    expect(await found(first.file, behind.file)).toEqual(['1: the file: OTHER_FILE']);
  });

  test('are of one log, with each step of an effect behind the one before it', async () => {
    const log = new Log().step(1n).step(1n, 'eff_2');
    const first = await log.archive('1');
    const second = await log.archived(first).step(2n, 'eff_2').archive('2', first);
    const third = await log
      .archived(second)
      .step(3n)
      .step(3n, 'eff_2')
      .step(2n, 'eff_3')
      .archive('3', second);
    expect(await found(first.file, second.file, third.file)).toEqual([
      '1: entry 6: STEP_GAP',
      '1: entry 8: STEP_GAP',
    ]);
    // What stands before the first file that is given is taken on trust.
    expect(await found(second.file, third.file)).toEqual([]);
  });
});

describe('a whole log behind an archive', () => {
  test('has at its end what the archive ends with, and names it', async () => {
    const log = new Log().step(1n).step(2n);
    const first = await log.archive('1');
    const whole = await log.archived(first).step(3n).whole('whole');
    expect(await found(first.file, whole)).toEqual([]);
    expect(await found(whole, whole)).toEqual([]);
  });

  test('that is another one, or ends before it, is told', async () => {
    const first = await new Log().step(1n).step(2n).archive('1');
    const other = await new Log().step(1n).step(1n, 'eff_2').archived(first).whole('other');
    expect(await found(first.file, other)).toEqual(['1: entry 2: NOT_CONTINUED']);
    const short = await new Log().step(1n).whole('short');
    expect(await found(first.file, short)).toEqual(['1: the file: OTHER_FILE', '1: entry 2: NOT_CONTINUED']);
  });

  test('stands before none: it would be read for the archive that was there', async () => {
    const log = new Log().step(1n);
    const first = await log.archive('1');
    const whole = await log.whole('whole');
    const second = await log.archived(first).archive('2', first);
    expect(await found(whole, second.file)).toEqual(['whole: entry 1: NOT_CONTINUED']);
  });
});
