import { lstat, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { create } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { exportLog } from '../../src/cli/audit-export.js';
import { openExportFile } from '../../src/cli/audit-export-file.js';
import { encodeExportLine, parseExportLine } from '../../src/cli/audit-export-format.js';
import { auditVerify, linesOf, verifyExport } from '../../src/cli/audit-verify.js';
import { ListEntriesResponseSchema } from '../../src/gen/surety/audit/v1/audit_service_pb.js';
import { auditCodec } from '../../src/lane/audit-codec.js';
import { genesisHash } from '../../src/ledger/audit/chain.js';
import type { AuditRow } from '../../src/ledger/audit/records.js';
import { sha256 } from '../../src/ledger/encoding.js';
import { Draft } from '../../src/ledger/working-set.js';
import { FIXTURE_DOMAIN, workingSet } from '../support/ledger-fixture.js';

/** A log of some entries, as rows. */
function makeRows(count: number): AuditRow[] {
  const set = workingSet({ codec: auditCodec, head: { incarnation: 0n } });
  for (let i = 1; i <= count; i += 1) {
    const draft = new Draft(set);
    const record = {
      type: 'grant',
      id: `g-${i}`,
      revision: 1n,
      operation: 'create_grant',
      digest: sha256(`g-${i}`),
    };
    draft.append({ kind: 'command', commandId: `cmd-${i}`, record });
    set.apply(draft);
  }
  return set.changes().rows.flatMap((row) => (row.table === 'audit_entries' ? [row.after as AuditRow] : []));
}

/** A service that has these rows, of which so many fit into an answer; more are appended while it is asked. */
function serviceWith(rows: readonly AuditRow[], growing: readonly AuditRow[] = [], fitting = 1000) {
  let asked = 0;
  return {
    listEntries: async ({ afterSeq = 0n, pageSize = 0 }: { afterSeq?: bigint; pageSize?: number }) => {
      const all = asked === 0 ? rows : [...rows, ...growing];
      asked += 1;
      const page = all.filter((row) => row.seq > afterSeq).slice(0, Math.min(pageSize, fitting));
      const entries = page.map(({ seq, entry, leafHash, chainHash }) => ({
        seq,
        entry: Uint8Array.from(entry),
        leafHash: Uint8Array.from(leafHash),
        chainHash: Uint8Array.from(chainHash),
      }));
      return create(ListEntriesResponseSchema, { entries, headSeq: all.at(-1)?.seq ?? 0n });
    },
  };
}

async function exported(
  rows: readonly AuditRow[],
  pageSize = 3,
  growing: readonly AuditRow[] = [],
  fitting?: number,
): Promise<string[]> {
  const lines: string[] = [];
  const write = async (line: string) => void lines.push(line);
  const audit = serviceWith(rows, growing, fitting);
  await exportLog({ audit, domainId: FIXTURE_DOMAIN, write, pageSize });
  return lines;
}

async function* each(lines: readonly string[]): AsyncGenerator<string> {
  yield* lines;
}

const findingsOf = async (lines: readonly string[], domainId?: string) =>
  (await verifyExport(each(lines), domainId)).findings.map(({ seq, finding }) => [
    Number(seq ?? 0n),
    finding,
  ]);

describe('an export of a log, verified offline (provenance-audit-replay.md, Audit)', () => {
  test.each([0, 1, 2, 3, 4, 7])('of %i entries verifies', async (count) => {
    const rows = makeRows(count);
    const report = await verifyExport(each(await exported(rows)), FIXTURE_DOMAIN);
    expect(report).toMatchObject({ entries: BigInt(count), lastSeq: BigInt(count), findings: [] });
    if (count > 0) expect(report.lastChainHash).toEqual(rows.at(-1)?.chainHash);
  });

  test('ends where the log ended when it began', async () => {
    const rows = makeRows(9);
    const lines = await exported(rows.slice(0, 5), 3, rows.slice(5));
    expect(await findingsOf(lines)).toEqual([]);
    expect(lines).toHaveLength(7);
  });

  test('of an archive ends no earlier than what its effects say, which were written first', async () => {
    const rows = makeRows(5);
    const lines: string[] = [];
    const archive = {
      archiveNumber: 1n,
      archiveId: 'archive-1',
      afterSeq: 0n,
      afterChainHash: genesisHash(FIXTURE_DOMAIN),
    };
    // Late evidence for one of them comes while they are read.
    await exportLog({
      audit: serviceWith(rows.slice(0, 3), rows.slice(3)),
      domainId: FIXTURE_DOMAIN,
      write: async (line) => void lines.push(line),
      part: { archive, writeEffects: async () => {} },
    });
    expect(await verifyExport(each(lines))).toMatchObject({ lastSeq: 5n, findings: [] });
  });

  test('goes on where a page is shorter than asked for, because its entries are large', async () => {
    const lines = await exported(makeRows(7), 5, [], 2);
    expect(lines).toHaveLength(9);
    expect(await findingsOf(lines)).toEqual([]);
  });

  test('a changed entry is named', async () => {
    const lines = await exported(makeRows(5));
    const line = parseExportLine(lines[3] as string);
    if (line?.kind !== 'entry') throw new Error('no entry');
    const entry = Buffer.from(line.entry.entry);
    entry[entry.length - 1] = (entry.at(-1) ?? 0) ^ 1;
    lines[3] = encodeExportLine({ kind: 'entry', entry: { ...line.entry, entry } });
    expect(await findingsOf(lines)).toEqual([[3, 'LEAF_MISMATCH']]);
  });

  test('dropped, doubled and swapped entries are named', async () => {
    const lines = await exported(makeRows(5));
    expect(await findingsOf(lines.toSpliced(2, 1))).toEqual([[2, 'MISSING']]);
    expect(await findingsOf(lines.toSpliced(2, 0, lines[2] as string))).toEqual([[2, 'CHAIN_MISMATCH']]);
    const swapped = lines.toSpliced(2, 2, lines[3] as string, lines[2] as string);
    expect(await findingsOf(swapped)).toContainEqual([2, 'MISSING']);
  });

  test('an end that is missing, early or continued is named', async () => {
    const lines = await exported(makeRows(5));
    expect(await findingsOf(lines.slice(0, -1))).toEqual([[5, 'CUT_OFF']]);
    expect(await findingsOf(lines.toSpliced(4, 2))).toEqual([
      [4, 'MISSING'],
      [5, 'MISSING'],
    ]);
    expect(await findingsOf([...lines, lines[2] as string])).toEqual([[2, 'BEHIND_END']]);
  });

  test('of another domain passes for none', async () => {
    const lines = await exported(makeRows(2));
    expect(await findingsOf(lines, 'globex.test')).toContainEqual([0, 'OTHER_DOMAIN']);
    const renamed = [encodeExportLine({ kind: 'header', domainId: 'globex.test' }), ...lines.slice(1)];
    expect((await findingsOf(renamed)).length).toBeGreaterThan(0);
  });

  test('a file that is none is named', async () => {
    expect(await findingsOf([])).toEqual([[0, 'NO_EXPORT']]);
    expect(await findingsOf(['{}'])).toContainEqual([0, 'NO_EXPORT']);
  });

  test('any single edit of the file is found', async () => {
    const lines = await exported(makeRows(6));
    const edit = fc.record({
      kind: fc.constantFrom('drop', 'double', 'swap', 'character'),
      at: fc.nat(),
      to: fc.nat(),
      character: fc.constantFrom(...Array.from('0123456789abcdefABC"{}:,+/=')),
    });
    await fc.assert(
      fc.asyncProperty(edit, async ({ kind, at, to, character }) => {
        const i = at % lines.length;
        const j = to % lines.length;
        const line = lines[i] as string;
        const edited = [...lines];
        if (kind === 'drop') edited.splice(i, 1);
        if (kind === 'double') edited.splice(j, 0, line);
        if (kind === 'swap') [edited[i], edited[j]] = [edited[j] as string, line];
        const place = to % line.length;
        if (kind === 'character') edited[i] = line.slice(0, place) + character + line.slice(place + 1);
        fc.pre(edited.join('\n') !== lines.join('\n'));
        expect((await findingsOf(edited, FIXTURE_DOMAIN)).length).toBeGreaterThan(0);
      }),
      { numRuns: 500 },
    );
  });
});

describe('the command', () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(path.join(os.tmpdir(), 'surety-test-'));
  });
  afterAll(() => rm(folder, { recursive: true }));

  const run = async (lines: readonly string[]) => {
    const file = path.join(folder, 'log.jsonl');
    await writeFile(file, lines.map((line) => `${line}\n`).join(''));
    const printed: string[] = [];
    const status = await auditVerify({ files: [file], print: (line) => printed.push(line) });
    return { status, printed };
  };

  test('exits 0 where everything matches, 1 with the positions where anything does not', async () => {
    const lines = await exported(makeRows(4));
    expect(await run(lines)).toMatchObject({
      status: 0,
      printed: [expect.stringContaining('4 entries'), 'verified'],
    });
    const broken = await run(lines.toSpliced(2, 1));
    expect(broken.status).toBe(1);
    expect(broken.printed[0]).toBe('entry 2 (line 3): MISSING');
  });

  test('reads lines that come in pieces, and none that is endless', async () => {
    const collect = async (pieces: string[]) => {
      const found: string[] = [];
      for await (const line of linesOf(each(pieces))) found.push(line);
      return found;
    };
    expect(await collect(['a', 'b\nc', '\n', 'd'])).toEqual(['ab', 'c', 'd']);
    await expect(collect(['x'.repeat(2 ** 23)])).rejects.toThrow(RangeError);
  });
});

describe('the file of an export', () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(path.join(os.tmpdir(), 'surety-test-'));
  });
  afterAll(() => rm(folder, { recursive: true }));

  test('is the former one until it is whole', async () => {
    const out = path.join(folder, 'log.jsonl');
    await writeFile(out, 'good');
    const failing = await openExportFile(out);
    await failing.write('x'.repeat(100_000));
    expect(await readFile(out, 'utf8')).toBe('good');
    await failing.abandon();
    expect(await readdir(folder)).toEqual(['log.jsonl']);
    expect(await readFile(out, 'utf8')).toBe('good');

    const whole = await openExportFile(out);
    for (const line of ['a', 'b'.repeat(100_000), 'c']) await whole.write(line);
    await whole.finish();
    expect(await readdir(folder)).toEqual(['log.jsonl']);
    expect(await readFile(out, 'utf8')).toBe(`a\n${'b'.repeat(100_000)}\nc\n`);
  });

  test('through a link replaces what it names; a device is written, not replaced', async () => {
    const named = path.join(folder, 'log.jsonl');
    const link = path.join(folder, 'link.jsonl');
    await writeFile(named, 'good');
    await symlink(named, link);
    for (const out of [link, '/dev/null']) {
      const file = await openExportFile(out);
      await file.write('new');
      await file.finish();
    }
    expect((await lstat(link)).isSymbolicLink()).toBe(true);
    expect(await readFile(named, 'utf8')).toBe('new\n');
    expect((await lstat('/dev/null')).isCharacterDevice()).toBe(true);
  });

  test('of a log that cannot be read has no line', async () => {
    const lines: string[] = [];
    const audit = { listEntries: () => Promise.reject(new Error('not for you')) };
    const write = async (line: string) => void lines.push(line);
    await expect(exportLog({ audit, domainId: FIXTURE_DOMAIN, write })).rejects.toThrow('not for you');
    expect(lines).toEqual([]);
  });
});
