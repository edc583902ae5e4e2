import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { archiveDomain } from '../../src/cli/archive/archive-domain.js';
import {
  type ArchivedRecord,
  encodeArchivedRecord,
  parseArchivedRecord,
  type RecordedEntry,
} from '../../src/cli/archive/archived-record.js';
import { auditVerify } from '../../src/cli/audit-verify.js';
import { type AuditEntry, AuditEntrySchema } from '../../src/gen/surety/audit/v1/entry_pb.js';
import { EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { leafHash } from '../../src/ledger/audit/chain.js';
import { reserveEffect } from '../../src/ledger/effect/reserve-effect.js';
import { effectRecordDigest } from '../../src/ledger/effect/tombstone.js';
import { DAY } from '../../src/ledger/types.js';
import { acknowledgeCall, done, seedWorkers, startCall, submit } from '../fault/effect-life.js';
import { advanceClock, archiver } from '../support/archive-world.js';
import { DOMAIN, freshId, openWorld, publish, reservation } from '../support/effect-world.js';

// docs/retention.md, Reading an archive: an archive whose forger made every digest and every copy of an entry anew.

let folder: string;
let text: string;

beforeAll(async () => {
  const world = await openWorld();
  try {
    folder = await mkdtemp(path.join(os.tmpdir(), 'surety-archive-'));
    const replica = world.replica();
    const { reader, lanes } = archiver(world);
    const workers = await seedWorkers(world);
    for (const state of ['FAILED', 'SUCCEEDED'] as const) {
      const command = reservation(await publish(replica), workers.grantId);
      const prepared = await done(replica.lanes.submit(reserveEffect, command) as never);
      const executing = await done(submit(replica, startCall(workers.executor, prepared)));
      await done(submit(replica, acknowledgeCall(workers.executor, executing, state)));
    }
    await advanceClock(world, DAY + 3_600_000_000n);
    const asked = { domainId: DOMAIN, retention: DAY, folder, newId: freshId };
    await archiveDomain({ reader, commands: lanes, ...asked });
    const [file] = await readdir(folder);
    text = await readFile(path.join(folder, file as string), 'utf8');
  } finally {
    await world.close();
  }
});
afterAll(() => rm(folder, { recursive: true, force: true }));

async function verify(lines: readonly string[]): Promise<{ status: number; printed: string }> {
  const forged = path.join(folder, freshId('forged'));
  await writeFile(forged, lines.join('\n'));
  const printed: string[] = [];
  const status = await auditVerify({ files: [forged], print: (line) => printed.push(line) });
  return { status, printed: printed.join('\n') };
}

function recordOf(line: string): ArchivedRecord {
  return parseArchivedRecord((JSON.parse(line) as { record: string }).record) as ArchivedRecord;
}

const lineOf = (state: string): number =>
  text.split('\n').findIndex((line) => line.includes(`\\"state\\":\\"${state}\\"`));

/**
 * The effect that failed, as one that succeeded: in its row, in its receipt and in its own copies of the entries.
 *
 * @param place where a copy says that it stands
 * @param said changes what the bytes of a copy say
 */
function succeeded(
  place: (entry: RecordedEntry, index: number) => bigint,
  said: (entry: AuditEntry) => void = () => {},
): string {
  const line = text.split('\n')[lineOf('FAILED')] as string;
  const record = recordOf(line);
  const last = record.entries.length - 1;
  const entries = record.entries.map((one, index) => {
    const seq = place(one, index);
    const decoded = fromBinary(AuditEntrySchema, one.entry);
    decoded.seq = seq;
    if (index === last && decoded.effect) decoded.effect.toState = EffectState.SUCCEEDED;
    said(decoded);
    const entry = Buffer.from(toBinary(AuditEntrySchema, decoded));
    return { seq, entry, leafHash: leafHash(entry) };
  });
  const [first, end] = [entries[0] as RecordedEntry, entries[last] as RecordedEntry];
  const receipts = record.receipts.map((receipt) =>
    receipt.toState === 'FAILED' ? { ...receipt, toState: 'SUCCEEDED' as const } : receipt,
  );
  const effect = {
    ...record.effect,
    state: 'SUCCEEDED' as const,
    reserveSeq: first.seq,
    reserveLeaf: first.leafHash,
    lastSeq: end.seq,
    stateSeq: end.seq,
    stateLeaf: end.leafHash,
  };
  return JSON.stringify({
    ...(JSON.parse(line) as object),
    record: encodeArchivedRecord({ ...record, effect, receipts, entries }),
    record_digest: effectRecordDigest(effect, receipts).toString('hex'),
  });
}

const withFailed = (line: string): string[] => text.split('\n').with(lineOf('FAILED'), line);

test('the archive verifies as it was written', async () => {
  expect(await verify(text.split('\n'))).toMatchObject({ status: 0 });
});

test('an effect whose entries say otherwise than the log is found at its positions', async () => {
  const { status, printed } = await verify(withFailed(succeeded(({ seq }) => seq)));
  expect(status).toBe(1);
  expect(printed).toMatch(/^entry \d+ \(line \d+\): NOT_IN_LOG/);
});

test('an effect whose entries claim positions behind the end of the log is named', async () => {
  const { status, printed } = await verify(withFailed(succeeded(({ seq }) => seq + 1_000_000n)));
  const { effectId } = recordOf(text.split('\n')[lineOf('FAILED')] as string).effect;
  expect(status).toBe(1);
  expect(printed).toMatch(new RegExp(`^effect ${effectId}, entry 10000\\d\\d: NOT_IN_LOG`));
});

test('an effect whose entries claim positions before the beginning of the log is named', async () => {
  const { status, printed } = await verify(withFailed(succeeded((_, index) => BigInt(index) - 7n)));
  expect(status).toBe(1);
  expect(printed).toMatch(/^effect \S+, entry -7: NOT_IN_LOG/);
});

test('an effect whose entries claim the positions of another one is found, whichever stands first', async () => {
  const others = recordOf(text.split('\n')[lineOf('SUCCEEDED')] as string).entries;
  const forged = succeeded((_, index) => (others[index] as RecordedEntry).seq);
  const [header, ...rest] = text.split('\n').toSpliced(lineOf('FAILED'), 1);
  const orders = [
    [header as string, forged, ...rest],
    [header as string, rest[0] as string, forged, ...rest.slice(1)],
  ];
  for (const lines of orders) {
    const { status, printed } = await verify(lines);
    expect(status).toBe(1);
    expect(printed).toMatch(/^effect \S+, entry \d+ \(line 3\): NOT_IN_LOG/);
  }
});

test.each<[string, (entry: AuditEntry) => void]>([
  ['another position', (entry) => (entry.seq += 1n)],
  ['another domain', (entry) => (entry.domainId = 'globex.test')],
])('an effect whose entries say %s than that where they stand is no record', async (_, said) => {
  // Behind the end, where no entry of the log is held against them.
  const { printed } = await verify(withFailed(succeeded(({ seq }) => seq + 1_000_000n, said)));
  expect(printed).toMatch(/^effect \S+ \(line \d+\): RECORD_MISMATCH/);
});
