import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type ArchiveOptions, archiveDomain, countArchivable } from '../../src/cli/archive/archive-domain.js';
import { ArchiveError } from '../../src/cli/archive/export-archive.js';
import type { CommandRunner } from '../../src/lane/lanes.js';
import type { EffectRow } from '../../src/ledger/effect/records.js';
import { type ReserveEffectCommand, reserveEffect } from '../../src/ledger/effect/reserve-effect.js';
import { DAY, type TerminalState } from '../../src/ledger/types.js';
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
import { advanceClock, archiver, timelyCall } from '../support/archive-world.js';
import {
  DOMAIN,
  type EffectWorld,
  freshId,
  openWorld,
  publish,
  type Replica,
  reservation,
} from '../support/effect-world.js';

// effects.md, Archival, beside callers and itself: whoever comes in between finds an effect whole, or its tombstone.

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
});
afterAll(() => world.close());
beforeEach(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'surety-archive-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

interface Settled {
  readonly command: ReserveEffectCommand;
  readonly effect: EffectRow;
  /** The call that settled it, to be repeated. */
  readonly last: Call;
}

async function prepare(overrides: Partial<ReserveEffectCommand> = {}) {
  const command = reservation(await publish(replica), workers.grantId, overrides);
  const prepared = await done(replica.lanes.submit(reserveEffect, command) as never);
  return {
    command,
    executing: await done(submit(replica, await timely(startCall(workers.executor, prepared)))),
  };
}

async function settled(
  state: TerminalState = 'SUCCEEDED',
  overrides: Partial<ReserveEffectCommand> = {},
): Promise<Settled> {
  const { command, executing } = await prepare(overrides);
  const last = await timely(acknowledgeCall(workers.executor, executing, state));
  return { command, last, effect: await done(submit(replica, last)) };
}

/** Settled by the reconciler; what the executor says of it later is late evidence. */
async function reconciled(): Promise<EffectRow> {
  const { executing } = await prepare();
  const unknown = await done(submit(replica, await timely(unknownCall(workers.executor, executing))));
  return done(submit(replica, await timely(reconcileCall(workers.reconciler, unknown))));
}

const timely = (call: Call): Promise<Call> => timelyCall(replica, call);

function again(command: ReserveEffectCommand) {
  const fresh = { commandId: freshId('cmd'), effectId: freshId('eff'), decisionId: freshId('dec') };
  return replica.lanes.submit(reserveEffect, { ...command, ...fresh });
}

function run(options: Partial<ArchiveOptions> = {}) {
  return archiveDomain({
    reader: archive.reader,
    commands: archive.lanes,
    domainId: DOMAIN,
    retention: DAY,
    folder,
    newId: freshId,
    ...options,
  });
}

const tomorrow = (): Promise<void> => advanceClock(world, DAY + 1_000_000n);

async function one(sql: string, values: unknown[] = [DOMAIN]): Promise<unknown> {
  const { rows } = await world.admin.query({ text: sql, values, rowMode: 'array' });
  return rows[0]?.[0];
}

const isLive = async ({ effectId }: { effectId: string }) =>
  (await one('SELECT count(*)::int FROM effects WHERE domain_id = $1 AND effect_id = $2', [
    DOMAIN,
    effectId,
  ])) === 1;

describe('under callers', () => {
  test('duplicates before, during and after have one answer; no call waits for the archival to end', async () => {
    const all = await Promise.all(Array.from({ length: 24 }, () => settled()));
    await tomorrow();
    const over = new AbortController();
    const replies: boolean[] = [];
    const caller = async (mine: readonly Settled[]): Promise<void> => {
      for (let i = 0; !over.signal.aborted; i += 1) {
        const { command, effect } = mine[i % mine.length] as Settled;
        const reply = await again(command);
        replies.push(
          reply.ok &&
            reply.reply.duplicate &&
            reply.reply.currentState === 'SUCCEEDED' &&
            reply.reply.effect.effectId === effect.effectId &&
            reply.reply.effect.fence === effect.fence &&
            reply.reply.effect.reserveSeq === effect.reserveSeq,
        );
      }
    };
    // New work commits in between: what it writes lies between the archival's entries.
    const worker = async (): Promise<void> => {
      while (!over.signal.aborted) await publish(replica);
    };
    const callers = [caller(all.slice(0, 12)), caller(all.slice(12)), worker()];
    const [summary] = await run({ batchSize: 4, commands: amongOthers() });
    over.abort();
    await Promise.all(callers);
    await Promise.all(all.map(({ command }) => again(command).then(({ ok }) => replies.push(ok))));
    expect(summary).toMatchObject({ archived: 24, left: {} });
    expect(replies.length).toBeGreaterThan(24);
    expect(replies.every(Boolean)).toBe(true);
    expect(await between()).toBeGreaterThanOrEqual(6);
  });

  /** Lets two others write before each batch of the archival. */
  function amongOthers(): CommandRunner {
    return {
      submit: async (...args: Parameters<CommandRunner['submit']>) => {
        await publish(replica);
        await publish(replica);
        return archive.lanes.submit(...args);
      },
    } as CommandRunner;
  }

  /** Entries of others between the first and the last of the archival. */
  async function between(): Promise<number> {
    const { rows } = await world.admin.query<{ entry: Buffer }>(
      'SELECT entry FROM audit_entries WHERE domain_id = $1 ORDER BY seq',
      [DOMAIN],
    );
    const ours = rows.map(({ entry }) => entry.includes('archive_effects'));
    return ours.slice(ours.indexOf(true), ours.lastIndexOf(true)).filter((own) => !own).length;
  }

  test('a lock that somebody holds is given way to, and what was begun is finished', async () => {
    const effect = await settled();
    await tomorrow();
    const holder = new pg.Client({ connectionString: world.database.url });
    await holder.connect();
    await holder.query('BEGIN');
    await holder.query('SELECT FROM domain_heads WHERE domain_id = $1 FOR UPDATE', [DOMAIN]);
    const running = run({ onExported: () => void setTimeout(() => void holder.end(), 300) });
    expect(await running).toMatchObject([{ archived: 1 }]);
    expect(await isLive(effect.effect)).toBe(false);
  });

  test('a repeat of the call that settled an effect is its duplicate, or learns that it is archived', async () => {
    const all = await Promise.all(Array.from({ length: 12 }, () => settled()));
    await tomorrow();
    const late = await Promise.all(all.map(async ({ last }) => reissue(last)));
    const answers: string[] = [];
    const over = new AbortController();
    const repeating = async (): Promise<void> => {
      while (!over.signal.aborted) {
        for (const call of late) {
          const answer = await submit(replica, call);
          answers.push(answer.ok ? String(answer.reply.duplicate) : answer.refusal.reason);
        }
      }
    };
    const repeats = repeating();
    await run({ batchSize: 3 });
    over.abort();
    await repeats;
    answers.push(...(await Promise.all(late.map(async (call) => reasonOf(await submit(replica, call))))));
    expect([...new Set(answers)].sort()).toEqual(['EFFECT_ARCHIVED', 'true']);
    expect(answers.slice(-12)).toEqual(Array(12).fill('EFFECT_ARCHIVED'));
  });

  /** The same evidence under a proof of now. */
  async function reissue(call: Call): Promise<Call> {
    const { evidence } = call.command as never as { evidence: unknown };
    const fresh = await timely(call);
    return { ...fresh, command: { ...fresh.command, evidence } as never };
  }
  const reasonOf = (answer: { ok: boolean; refusal?: { reason: string } }) => answer.refusal?.reason ?? 'ok';
});

describe('what changes between its export and its removal', () => {
  test('stays: late evidence of the same, late evidence of another end', async () => {
    const [same, other, untouched] = [await reconciled(), await reconciled(), await reconciled()];
    await tomorrow();
    const say = async (effect: EffectRow, state: TerminalState): Promise<void> => {
      const call = acknowledgeCall(workers.executor, { ...effect, state: 'EXECUTING' }, state);
      const soon = await timely(call);
      const fields = (soon.command as never as { evidence: { fields: { observedAt: bigint } } }).evidence
        .fields;
      // Evidence is of the time of the step that it follows.
      fields.observedAt = effect.unknownAt ?? 0n;
      const answer = await submit(replica, soon);
      expect(answer).toMatchObject({ ok: false, refusal: { metadata: { late_evidence: 'kept' } } });
    };
    const onExported = async (): Promise<void> => {
      await say(same, 'SUCCEEDED');
      await say(other, 'FAILED');
    };
    expect(await run({ onExported })).toMatchObject([
      { exported: 3, archived: 1, left: { changed: 1, disputed: 1 } },
    ]);
    expect([await isLive(same), await isLive(other), await isLive(untouched)]).toEqual([true, true, false]);
    // What was only added to goes with the next archive; what is contested stays for a person to look at.
    expect(await run()).toMatchObject([{ exported: 1, archived: 1 }]);
    expect([await isLive(same), await isLive(other)]).toEqual([false, true]);
  });

  test('a row that contradicts the log is neither exported nor removed', async () => {
    const [sound, bad] = [(await settled()).effect, (await settled('CANCELLED')).effect];
    await tomorrow();
    await world.admin.query('ALTER TABLE effects DISABLE TRIGGER effects_guard');
    await world.admin.query("UPDATE effects SET state = 'FAILED' WHERE effect_id = $1", [bad.effectId]);
    const corrupt: string[] = [];
    const onCorrupt = (ids: readonly string[]) => void corrupt.push(...ids);
    expect(await run({ onCorrupt })).toMatchObject([{ exported: 1, archived: 1, left: { corrupt: 1 } }]);
    expect([await isLive(sound), await isLive(bad)]).toEqual([false, true]);
    // Alone it makes no archive, and no file, however often it is met.
    const before = await readdir(folder);
    for (let i = 0; i < 2; i += 1) expect(await run({ onCorrupt })).toEqual([]);
    expect(await readdir(folder)).toEqual(before);
    expect(corrupt).toEqual([bad.effectId, bad.effectId, bad.effectId]);
    await world.admin.query("UPDATE effects SET state = 'CANCELLED' WHERE effect_id = $1", [bad.effectId]);
    await world.admin.query('ALTER TABLE effects ENABLE TRIGGER effects_guard');
    expect(await run()).toMatchObject([{ archived: 1 }]);
  });
});

test('a domain that there is not is no domain without work', async () => {
  const options = { domainId: 'acme.tset' };
  await expect(run(options)).rejects.toThrow(ArchiveError);
  await expect(countArchivable({ reader: archive.reader, retention: DAY, ...options })).rejects.toThrow(
    'there is no such domain',
  );
});

describe('where it ends too early', () => {
  /** Fails before its nth command, as a process that is gone. */
  function dying(after: number): CommandRunner {
    let submitted = 0;
    return {
      submit: (...args: Parameters<CommandRunner['submit']>) => {
        submitted += 1;
        if (submitted > after) throw new Error('gone');
        return archive.lanes.submit(...args);
      },
    } as CommandRunner;
  }

  test.each([0, 1, 2])(
    'behind %i batches, the next one goes on: nothing is lost, nothing is there twice',
    async (n) => {
      const all = await Promise.all(Array.from({ length: 5 }, () => settled()));
      await tomorrow();
      const tombstones = (await one(
        'SELECT count(*)::int FROM effect_tombstones WHERE domain_id = $1',
      )) as number;
      await expect(run({ commands: dying(n), batchSize: 2 })).rejects.toThrow('gone');
      const [first] = await readdir(folder);
      const bytes = await readFile(path.join(folder, first as string));
      const live: EffectRow[] = [];
      for (const { effect } of all) if (await isLive(effect)) live.push(effect);
      expect(live).toHaveLength(5 - 2 * n);
      const [summary] = await run();
      expect(summary).toMatchObject({ archived: 5 - 2 * n });
      expect(await one('SELECT count(*)::int FROM effect_tombstones WHERE domain_id = $1')).toBe(
        tombstones + 5,
      );
      expect(await readFile(path.join(folder, first as string))).toEqual(bytes);
      for (const { command } of all)
        expect(await again(command)).toMatchObject({ ok: true, reply: { duplicate: true } });
    },
  );

  test('a batch whose answer is lost is found done', async () => {
    const { command } = await settled();
    await tomorrow();
    const lost = archiver(world, { fault: 'after-commit:error@effect.archive' });
    expect(await run({ reader: lost.reader, commands: lost.lanes })).toMatchObject([
      { archived: 1, left: {} },
    ]);
    expect(await again(command)).toMatchObject({ ok: true, reply: { duplicate: true } });
  });

  test.each(['in-commit-1', 'in-commit-2', 'in-commit-3', 'in-commit-4', 'before-commit'])(
    'a batch that fails at %s leaves all or nothing, and is done again',
    async (seam) => {
      const { effect } = await settled();
      await tomorrow();
      const failing = archiver(world, { fault: `${seam}:error@effect.archive` });
      expect(await run({ reader: failing.reader, commands: failing.lanes })).toMatchObject([{ archived: 1 }]);
      expect(await isLive(effect)).toBe(false);
    },
  );

  test('two at once: one makes the archive, the other one stops, and its file is not of the log', async () => {
    const all = await Promise.all([settled(), settled()]);
    await tomorrow();
    let inner: Awaited<ReturnType<typeof run>> = [];
    const onExported = async (): Promise<void> => {
      inner = await run();
    };
    await expect(run({ onExported })).rejects.toMatchObject({ refusal: { reason: 'REVISION_STALE' } });
    expect(inner).toMatchObject([{ archived: 2 }]);
    for (const { command } of all)
      expect(await again(command)).toMatchObject({ ok: true, reply: { duplicate: true } });
  });
});
