import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { archiveDomain } from '../../src/cli/archive/archive-domain.js';
import {
  type ArchivedRecord,
  encodeArchivedRecord,
  parseArchivedRecord,
} from '../../src/cli/archive/archived-record.js';
import { auditVerify } from '../../src/cli/audit-verify.js';
import { expireEffect } from '../../src/ledger/effect/expire-effect.js';
import { reserveEffect, type ReserveEffectCommand } from '../../src/ledger/effect/reserve-effect.js';
import type { EffectRow, TransitionRow } from '../../src/ledger/effect/records.js';
import { effectRecordDigest } from '../../src/ledger/effect/tombstone.js';
import { sha256 } from '../../src/ledger/encoding.js';
import { DAY } from '../../src/ledger/types.js';
import {
  acknowledgeCall,
  type Call,
  done,
  reconcileCall,
  seedWorkers,
  startCall,
  submit,
  unknownCall,
  type Workers,
} from '../fault/effect-life.js';
import { advanceClock, archiver } from '../support/archive-world.js';
import {
  DOMAIN,
  type EffectWorld,
  EXECUTOR_A,
  freshId,
  openWorld,
  publish,
  type Replica,
  reservation,
  seedRegistration,
} from '../support/effect-world.js';

// effects.md, Archival, on a real Postgres: under callers, across crashes, and held against an offline check.

let world: EffectWorld;
let replica: Replica;
let archive: Replica;
let workers: Workers & { grantId: string };
let folder: string;

beforeAll(async () => {
  world = await openWorld();
  replica = world.replica();
  archive = archiver(world);
  workers = await seedWorkers(world);
  folder = await mkdtemp(path.join(os.tmpdir(), 'surety-archive-'));
});
afterAll(async () => {
  await world.close();
  await rm(folder, { recursive: true, force: true });
});

type Mutable<Row> = { -readonly [Column in keyof Row]: Row[Column] };

/** A record in the hands of somebody who changes it. */
interface ChangedRecord extends Omit<ArchivedRecord, 'effect' | 'receipts'> {
  readonly effect: Mutable<EffectRow>;
  readonly receipts: Mutable<TransitionRow>[];
}

interface Settled {
  readonly command: ReserveEffectCommand;
  readonly effect: EffectRow;
}

/** An effect that was acknowledged. Proofs are of today: the clock is moved on behind all of them. */
async function settled(state: 'SUCCEEDED' | 'FAILED' | 'CANCELLED' = 'SUCCEEDED'): Promise<Settled> {
  const command = reservation(await publish(replica), workers.grantId);
  const prepared = await done(replica.lanes.submit(reserveEffect, command) as never);
  const executing = await done(submit(replica, startCall(workers.executor, prepared)));
  return {
    command,
    effect: await done(submit(replica, acknowledgeCall(workers.executor, executing, state))),
  };
}

function again(command: ReserveEffectCommand, overrides: Partial<ReserveEffectCommand> = {}) {
  const fresh = { commandId: freshId('cmd'), effectId: freshId('eff'), decisionId: freshId('dec') };
  return replica.lanes.submit(reserveEffect, { ...command, ...fresh, ...overrides });
}

function run(lanes: Replica = archive, options: Partial<Parameters<typeof archiveDomain>[0]> = {}) {
  return archiveDomain({
    reader: lanes.reader,
    commands: lanes.lanes,
    domainId: DOMAIN,
    retention: DAY,
    folder,
    newId: freshId,
    ...options,
  });
}

async function verify(files: readonly string[]): Promise<{ status: number; printed: string[] }> {
  const printed: string[] = [];
  const status = await auditVerify({ files, print: (line) => printed.push(line) });
  return { status, printed };
}

async function files(): Promise<string[]> {
  return (await readdir(folder)).sort().map((name) => path.join(folder, name));
}

async function count(table: string): Promise<number> {
  const { rows } = await world.admin.query(`SELECT count(*)::int AS n FROM ${table} WHERE domain_id = $1`, [
    DOMAIN,
  ]);
  return rows[0].n as number;
}

async function tomorrow(): Promise<void> {
  await advanceClock(world, DAY + 3_600_000_000n);
}

describe('the archival', () => {
  let before: Settled[];
  let outcome: Awaited<ReturnType<typeof run>>;

  beforeAll(async () => {
    before = [await settled(), await settled('FAILED'), await settled('CANCELLED')];
    const command = reservation(await publish(replica), workers.grantId);
    const prepared = await done(replica.lanes.submit(reserveEffect, command) as never);
    const unknown = await done(
      submit(
        replica,
        unknownCall(workers.executor, await done(submit(replica, startCall(workers.executor, prepared)))),
      ),
    );
    before.push({ command, effect: await done(submit(replica, reconcileCall(workers.reconciler, unknown))) });
  });

  test('leaves what was settled within its time', async () => {
    expect(await run()).toEqual([]);
    expect(await files()).toEqual([]);
    expect(await count('effects')).toBe(4);
  });

  test('removes effects and receipts behind their export, a few at a time, and nothing of the log', async () => {
    await tomorrow();
    const log = await count('audit_entries');
    outcome = await run(archive, { batchSize: 3 });
    expect(outcome).toMatchObject([{ archiveNumber: 1n, exported: 4, archived: 4, left: {} }]);
    expect([await count('effects'), await count('transitions')]).toEqual([0, 0]);
    expect(await count('effect_tombstones')).toBe(4);
    // One entry a batch.
    expect(await count('audit_entries')).toBe(log + 2);
    expect((await files()).map((file) => path.basename(file))).toEqual([
      path.basename(outcome[0]?.file ?? ''),
    ]);
    const { rows } = await world.admin.query('SELECT export_digest FROM archives');
    expect(rows).toEqual([{ export_digest: outcome[0]?.exportDigest }]);
  });

  test('the tombstone answers an exact repeat as the row did', async () => {
    for (const { command, effect } of before) {
      const reply = await again(command);
      expect(reply).toMatchObject({
        ok: true,
        reply: {
          duplicate: true,
          currentState: effect.state,
          effect: {
            effectId: effect.effectId,
            fence: effect.fence,
            decisionId: effect.decisionId,
            reserveSeq: effect.reserveSeq,
            reserveLeaf: effect.reserveLeaf,
            startBefore: effect.startBefore,
            keyDigest: effect.keyDigest,
          },
        },
      });
    }
  });

  test('other content under the identity is a conflict still', async () => {
    const [one] = before;
    const conflict = async (overrides: Partial<ReserveEffectCommand>) => {
      const answer = await again((one as Settled).command, overrides);
      return answer.ok ? 'ok' : [answer.refusal.reason, answer.refusal.metadata];
    };
    expect(await conflict({ grantId: 'another' })).toEqual([
      'EFFECT_IDENTITY_CONFLICT',
      { field: 'grant_id' },
    ]);
    expect(await conflict({ effectKey: 'another' })).toEqual([
      'EFFECT_IDENTITY_CONFLICT',
      { field: 'effect_key' },
    ]);
    for (const other of [
      { action: 'other' },
      { reservationTtl: 5n },
      { repeatable: true },
      { resource: 'order-2' },
    ]) {
      expect(await conflict(other)).toEqual(['EFFECT_IDENTITY_CONFLICT', {}]);
    }
  });

  /** The same call by the store's clock, which was moved on; with some values changed. */
  async function soon(call: Call, statement: object = {}): Promise<Call> {
    const { rows } = await world.admin.query('SELECT surety_now()::text AS now');
    const { proof } = call.command as never as { proof: { statement: object } };
    const said = { ...proof.statement, issuedAt: BigInt(rows[0].now as string), ...statement };
    return { ...call, command: { ...call.command, proof: { ...proof, statement: said } } as never };
  }
  const told = async (call: Call): Promise<unknown> => {
    const answer = await submit(replica, call);
    return answer.ok ? answer : [answer.refusal.reason, answer.refusal.metadata ?? {}];
  };

  test.each([0, 1, 2, 3])(
    'what comes late for archived effect %i learns its state, and writes nothing',
    async (i) => {
      const { effect } = before[i] as Settled;
      const as = (state: EffectRow['state']): EffectRow => ({ ...effect, state });
      for (const call of [
        startCall(workers.executor, as('PREPARED')),
        unknownCall(workers.executor, as('EXECUTING')),
        acknowledgeCall(workers.executor, as('EXECUTING'), 'FAILED'),
        reconcileCall(workers.reconciler, as('UNKNOWN')),
      ]) {
        expect(await told(await soon(call))).toEqual(['EFFECT_ARCHIVED', { state: effect.state }]);
      }
      expect(await count('audit_entries')).toBe(Number((await head()).seq));
    },
  );

  test('but only who may see it and proves so: others learn what an absent effect tells, or why not', async () => {
    const { effect } = before[0] as Settled;
    const executing: EffectRow = { ...effect, state: 'EXECUTING' };
    const bound = { parentEventId: 'another event', grantId: 'another grant' };
    const stranger = await seedRegistration(world, EXECUTOR_A, bound);
    const [foreign, absent] = [executing, { ...executing, effectId: 'eff_of_nobody' }].map((one) =>
      acknowledgeCall(stranger, one),
    ) as [Call, Call];
    const refused = await submit(replica, await soon(foreign));
    expect(refused).toEqual(await submit(replica, await soon(absent)));
    expect(refused).toMatchObject({ refusal: { reason: 'NOT_VISIBLE' } });
    const revoked = await seedRegistration(world, EXECUTOR_A, { status: 'revoked' });
    expect(await told(await soon(acknowledgeCall(revoked, executing)))).toEqual([
      'WORKLOAD_NOT_CURRENT',
      { rule: 'status' },
    ]);
    const own = acknowledgeCall(workers.executor, executing);
    expect(await told(await soon(own, { fence: effect.fence + 1n }))).toEqual([
      'PROOF_BINDING_MISMATCH',
      { field: 'fence' },
    ]);
    expect(await told(own)).toEqual(['PROOF_EXPIRED', {}]);
  });

  test('the file verifies offline, and any change of it is found', async () => {
    const [file] = await files();
    const { status, printed } = await verify([file as string]);
    expect({ status, printed }).toMatchObject({ status: 0 });
    expect(printed[0]).toContain('4 effects');
    const text = await readFile(file as string, 'utf8');
    const lines = text.split('\n');
    const changes: [string, string][] = [
      ['a receipt', text.replace(/\\"skew\\":\\"-?\d+/, '\\"skew\\":\\"77')],
      ['a state', text.replace('\\"state\\":\\"FAILED', '\\"state\\":\\"SUCCEEDED')],
      [
        'an entry',
        text.replace(/"entry":"(.)/, (_, letter: string) => `"entry":"${letter === 'A' ? 'B' : 'A'}`),
      ],
      ['an entry that is gone', [...lines.slice(0, 7), ...lines.slice(8)].join('\n')],
      ['the end', lines.slice(0, -2).join('\n')],
    ];
    const forged = path.join(os.tmpdir(), `${freshId('forged')}.jsonl`);
    for (const [what, changed] of changes) {
      expect(changed, what).not.toBe(text);
      await writeFile(forged, changed);
      expect((await verify([forged])).status, what).toBe(1);
    }
    await rm(forged);
  });

  // Whoever changes an effect's record writes its digest anew; what the log says of the effect stays as it is.
  test.each<[string, (record: ChangedRecord) => void]>([
    ['a request digest', ({ effect }) => (effect.requestDigest = sha256('another'))],
    ['a sink', ({ effect }) => (effect.sink = 'another')],
    ['an event', ({ effect }) => (effect.eventId = 'another')],
    ['a grant', ({ effect }) => (effect.grantId = 'another')],
    ['a decision', ({ effect }) => (effect.decisionId = 'another')],
    ['who settled it', ({ effect }) => (effect.stateSource = 'restore')],
    ['an attempt', ({ effect }) => (effect.attemptId = 'another')],
    ['a receipt that is gone', ({ receipts }) => receipts.pop()],
    ['all receipts gone', ({ receipts }) => receipts.splice(0)],
    ['a receipt twice', ({ receipts }) => receipts.push(receipts[0] as TransitionRow)],
    [
      "a receipt's registration",
      ({ receipts: [receipt] }) => Object.assign(receipt ?? {}, { registrationId: 'x' }),
    ],
    [
      "a receipt's proof",
      ({ receipts: [receipt] }) => Object.assign(receipt ?? {}, { proof: Buffer.from('e30.e30.') }),
    ],
  ])('a record that was forged together with its digest is found: %s', async (_, change) => {
    const text = await readFile((await files())[0] as string, 'utf8');
    const lines = text.split('\n');
    const at = lines.findIndex((line) => line.startsWith('{"effect_id"'));
    const line = JSON.parse(lines[at] as string) as { record: string; record_digest: string };
    const record = parseArchivedRecord(line.record) as ChangedRecord;
    change(record);
    line.record = encodeArchivedRecord(record);
    line.record_digest = effectRecordDigest(record.effect, record.receipts).toString('hex');
    const forged = path.join(os.tmpdir(), `${freshId('forged')}.jsonl`);
    await writeFile(forged, lines.with(at, JSON.stringify(line)).join('\n'));
    const { printed } = await verify([forged]);
    await rm(forged);
    expect(printed[0]).toContain('RECORD_MISMATCH');
  });

  test('an effect that stands twice in a file is found, and a beginning that the log has not', async () => {
    const text = await readFile((await files())[0] as string, 'utf8');
    const lines = text.split('\n');
    const forged = path.join(os.tmpdir(), `${freshId('forged')}.jsonl`);
    await writeFile(forged, lines.toSpliced(1, 0, lines[1] as string).join('\n'));
    expect((await verify([forged])).printed[0]).toContain('RECORD_MISMATCH');
    const hash = /"after_chain_hash":"[0-9a-f]{64}"/;
    await writeFile(forged, text.replace(hash, `"after_chain_hash":"${'0'.repeat(64)}"`));
    expect((await verify([forged])).printed[0]).toContain('NOT_CONTINUED');
    await rm(forged);
  });

  test('the next archive goes on where this one ends, and names its file', async () => {
    const [first] = await files();
    // Expired in the meantime: the sweep's own way to an end, without a proof.
    const command = reservation(await publish(replica), workers.grantId);
    const prepared = await done(replica.lanes.submit(reserveEffect, command) as never);
    await tomorrow();
    await replica.lanes.submit(expireEffect, {
      domainId: DOMAIN,
      commandId: freshId('cmd'),
      effectId: prepared.effectId,
    });
    await tomorrow();
    expect(await run()).toMatchObject([{ archiveNumber: 2n, archived: 1 }]);
    const both = await files();
    expect(both).toHaveLength(2);
    expect((await verify(both)).status).toBe(0);
    // Alone, an archive whose effects were left out is whole; the log that comes behind knows better.
    const text = await readFile(first as string, 'utf8');
    const forged = path.join(os.tmpdir(), `${freshId('forged')}.jsonl`);
    await writeFile(
      forged,
      text
        .split('\n')
        .filter((line) => !line.startsWith('{"effect_id"'))
        .join('\n'),
    );
    expect((await verify([forged])).status).toBe(0);
    const { status, printed } = await verify([forged, both[1] as string]);
    expect(status).toBe(1);
    expect(printed.join('\n')).toContain('OTHER_FILE');
    expect((await verify([...both].reverse())).printed.join('\n')).toContain('NOT_CONTINUED');
    await rm(forged);
  });
});

async function head(): Promise<{ seq: string }> {
  const { rows } = await world.admin.query('SELECT seq FROM domain_heads WHERE domain_id = $1', [DOMAIN]);
  return rows[0] as { seq: string };
}
