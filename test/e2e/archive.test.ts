import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { WorkloadSession } from '../../src/cli/client/workload-session.js';
import { EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import type { ReserveEffectResponse } from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { EffectService, RetryAdvice } from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { runCommand } from '../support/command-process.js';
import {
  addHarness,
  cancel,
  findingsOfLog,
  MAILER,
  type ReserveRequest,
  reservation,
  reserveAs,
  WHOLE_LOG,
} from '../support/e2e-parties.js';
import {
  ACME,
  AUDITOR,
  type E2eWorld,
  HARNESS,
  OPERATOR,
  openE2eWorld,
  refusedWith,
  type StartedEffect,
} from '../support/e2e-world.js';

// effects.md, Archival, with the real service and the real command, in processes of their own.

const HOUR_MS = 3_600_000;
const { SUCCEEDED, FAILED, CANCELLED, UNKNOWN } = EffectState;
const ENDS = [SUCCEEDED, FAILED, CANCELLED] as const;

interface Life extends StartedEffect {
  readonly request: ReserveRequest;
  /** What a repeat was answered while the effect lived. */
  readonly repeat: ReserveEffectResponse;
}

let world: E2eWorld;
let executor: WorkloadSession;
let folder: string;
let lives: Life[];
let unknown: Life;
/** An acknowledgement of the first one, as it was sent. */
let late: Awaited<ReturnType<WorkloadSession['acknowledge']>>;
let stepsBefore: unknown;

beforeAll(async () => {
  world = await openE2eWorld();
  await addHarness(world, { spiffeId: MAILER, harnessId: 'mailer', principalId: 'mona' });
  executor = await world.executor();
  folder = await mkdtemp(path.join(os.tmpdir(), 'surety-archive-'));
  const grantId = await world.grant();
  const live = async (state: EffectState): Promise<Life> => {
    const request = await reservation(world, { grantId });
    const started = await world.effectIn(state, executor, request);
    return { ...started, request, repeat: await reserveAs(world, HARNESS, request) };
  };
  lives = [];
  for (const end of ENDS) lives.push(await live(end));
  for (let i = 0; i < 5; i += 1) lives.push(await live(SUCCEEDED));
  unknown = await live(UNKNOWN);
  stepsBefore = await steps(lives[0] as Life);
  await world.advance(2 * HOUR_MS);
  executor = await world.executor();
  const { effect, attemptId } = lives[0] as Life;
  late = await executor.acknowledge(effect, SUCCEEDED, {
    attemptId,
    receiptId: `receipt-${effect.effectId}`,
    receipt: 'done',
    observedTime: { seconds: BigInt(Math.floor((await world.now()) / 1000)), nanos: 0 } as never,
  });
});
afterAll(async () => {
  await world.close();
  await rm(folder, { recursive: true, force: true });
});

const effects = (spiffeId: string) => world.channel(spiffeId).service(EffectService);

async function steps({ effect }: Pick<Life, 'effect'>): Promise<unknown> {
  return (await effects(HARNESS).getEffectHistory({ effectId: effect.effectId })).steps;
}

function archive(args: readonly string[] = ['--out', folder], fault?: string) {
  return runCommand(['archive', '--older-than', '1h', '--domain', ACME, ...args], {
    SURETY_MIGRATION_URL: world.database.url,
    ...(fault === undefined ? {} : { SURETY_FAULT: fault }),
  });
}

async function liveRows(): Promise<number> {
  const { rows } = await world.sql.query(
    'SELECT count(*)::int AS n FROM effects WHERE domain_id = $1 AND settled_at IS NOT NULL',
    [ACME],
  );
  return rows[0].n as number;
}

const files = async (): Promise<string[]> =>
  (await readdir(folder)).sort().map((name) => path.join(folder, name));

describe('surety archive', () => {
  test('says what is wrong before it does anything', async () => {
    const told = async (args: readonly string[]) => {
      const { code, err } = await runCommand(['archive', ...args], {
        SURETY_DATABASE_URL: world.database.url,
      });
      return [code, err.trim()];
    };
    expect(await told([])).toEqual([2, 'surety archive: --older-than must be given']);
    expect(await told(['--older-than', '59m', '--out', folder])).toEqual([
      2,
      'surety archive: --older-than: must be at least 1h',
    ]);
    expect(await told(['--older-than', '2d', '--out', `${folder}/nowhere`])).toEqual([
      2,
      `surety archive: --out: ${folder}/nowhere is not a folder`,
    ]);
    expect(await told(['--older-than', '2d'])).toEqual([2, 'surety archive: --out must be given']);
    for (const args of [
      ['--out', folder],
      ['--dry-run', '--json'],
    ]) {
      expect(await told(['--older-than', '2d', '--domain', 'acme.tset', ...args])).toEqual([
        1,
        'surety archive: acme.tset: there is no such domain',
      ]);
    }
    const login = new URL(world.database.serviceUrl).href;
    const refused = await runCommand(['archive', '--older-than', '2d', '--dry-run'], {
      SURETY_DATABASE_URL: login,
    });
    expect(refused).toMatchObject({ code: 1, err: expect.stringContaining('surety_archive') });
  });

  test('counts with --dry-run, and changes nothing', async () => {
    const end = await archive(['--dry-run', '--json']);
    expect({ ...end, out: JSON.parse(end.out) }).toEqual({
      code: 0,
      out: { domain_id: ACME, archivable: 8 },
      err: '',
    });
    expect([await liveRows(), await files()]).toEqual([8, []]);
  });

  test('names what contradicts the log, fails, and leaves no file where nothing else is to be archived', async () => {
    const change = async (by: number) => {
      await world.sql.query('SET session_replication_role = replica');
      await world.sql.query('UPDATE effects SET fence = fence + $1', [by]);
      await world.sql.query('SET session_replication_role = DEFAULT');
    };
    await change(1_000);
    const end = await archive(['--out', folder, '--json']);
    await change(-1_000);
    expect({ ...end, out: JSON.parse(end.out), err: '' }).toEqual({
      code: 1,
      out: { domain_id: ACME, archives: [] },
      err: '',
    });
    expect(end.err).toMatch(
      /^surety archive: acme\.test: DATA_CORRUPT: .*: the row contradicts the log or itself, .*\n$/,
    );
    for (const { effect } of lives) expect(end.err).toContain(effect.effectId);
    expect([await liveRows(), await files()]).toEqual([8, []]);
  });

  // Killed as the machine would kill it: behind the export, within a transaction, behind its COMMIT.
  test.each([
    ['after-gather', 8, 1],
    ['in-commit-2', 8, 2],
    ['after-commit', 0, 3],
  ])('killed at %s it leaves %i effects, whole, and can be run again', async (seam, left, exports) => {
    const before = new Map(
      await Promise.all((await files()).map(async (file) => [file, await readFile(file)] as const)),
    );
    const end = await archive(undefined, `${seam}:crash@effect.archive`);
    expect(end.code).toBe('SIGKILL');
    expect([await liveRows(), (await files()).length]).toEqual([left, exports]);
    for (const [file, bytes] of before) expect(await readFile(file)).toEqual(bytes);
    for (const { request, repeat } of lives) expect(await reserveAs(world, HARNESS, request)).toEqual(repeat);
  });

  test('finds nothing to do where all is done; what is not settled stays', async () => {
    expect(await archive()).toEqual({ code: 0, out: `${ACME}: nothing to archive\n`, err: '' });
    expect((await executor.look(unknown.effect.effectId)).state).toBe(UNKNOWN);
  });
});

describe('an archived effect', () => {
  test('is told to who may see it, by its state; strangers learn what they learn of nothing', async () => {
    for (const [i, advice] of [RetryAdvice.DONE, RetryAdvice.NEW_EVENT, RetryAdvice.NEW_EVENT].entries()) {
      const { effectId } = (lives[i] as Life).effect;
      const state = EffectState[ENDS[i] as EffectState];
      for (const spiffeId of [HARNESS, OPERATOR, AUDITOR]) {
        const domain = spiffeId === HARNESS ? {} : { domainId: ACME };
        expect(await refusedWith(effects(spiffeId).getEffect({ effectId, ...domain }))).toMatchObject({
          code: 'FAILED_PRECONDITION',
          reason: 'EFFECT_ARCHIVED',
          metadata: { state },
        });
        expect(await effects(spiffeId).checkRetry({ effectId, ...domain })).toMatchObject({
          advice,
          state: ENDS[i],
        });
      }
      const asked = { registrationId: executor.registration.registrationId, effectId };
      expect(await refusedWith(executor.channel.service(EffectService).getEffect(asked))).toMatchObject({
        reason: 'EFFECT_ARCHIVED',
      });
    }
    const strange = effects(MAILER);
    for (const effectId of [(lives[0] as Life).effect.effectId, 'eff_of_nobody']) {
      expect(await refusedWith(strange.getEffect({ effectId }))).toMatchObject({ reason: 'NOT_VISIBLE' });
      expect(await refusedWith(strange.checkRetry({ effectId }))).toMatchObject({ reason: 'NOT_VISIBLE' });
      expect(await refusedWith(strange.getEffectHistory({ effectId }))).toMatchObject({
        reason: 'NOT_VISIBLE',
      });
    }
  });

  test('has its history in the log, and its steps in the watch', async () => {
    expect(await steps(lives[0] as Life)).toEqual(stepsBefore);
    const seen = new Set<string>();
    const controller = new AbortController();
    const stream = effects(OPERATOR).watchEffects(
      { domainId: ACME, afterPosition: 0n },
      {
        signal: controller.signal,
      },
    );
    for await (const message of stream) {
      if (message.step) seen.add(message.step.effectId);
      if (seen.size === lives.length + 1) break;
    }
    controller.abort();
    expect(seen).toEqual(new Set([...lives, unknown].map(({ effect }) => effect.effectId)));
  });

  test('is listed no more', async () => {
    const { effects: listed } = await effects(OPERATOR).listEffects({ domainId: ACME });
    expect(listed.map(({ effectId }) => effectId)).toEqual([unknown.effect.effectId]);
  });

  test('refuses what comes late, with its state', async () => {
    const call = executor.channel.service(EffectService).acknowledgeTerminal(late);
    expect(await refusedWith(call)).toMatchObject({
      reason: 'EFFECT_ARCHIVED',
      metadata: { state: 'SUCCEEDED' },
    });
    const { effectId } = (lives[1] as Life).effect;
    expect(await refusedWith(cancel(world, effectId, ''))).toMatchObject({
      reason: 'EFFECT_ARCHIVED',
      metadata: { state: 'FAILED' },
    });
  });

  test('stops a reworded request as long as its key is held', async () => {
    const { request, effect } = lives[0] as Life;
    const other = {
      ...request,
      request: { case: 'requestDigest' as const, value: new Uint8Array(32).fill(7) },
    };
    expect(await refusedWith(reserveAs(world, HARNESS, other))).toMatchObject({
      reason: 'EFFECT_KEY_DONE',
      metadata: { effect_id: effect.effectId },
    });
  });

  test('is in a file that anybody can verify, together with a log that does', async () => {
    expect(await findingsOfLog(world)).toEqual(WHOLE_LOG);
    const recorded = await world.sql.query('SELECT archive_id FROM archives WHERE domain_id = $1', [ACME]);
    const ids = recorded.rows.map(({ archive_id: id }) => id as string);
    const own = (await files()).filter((file) => ids.some((id) => file.includes(id)));
    expect(own).toHaveLength(1);
    const { code, out } = await runCommand(['audit', 'verify', ...own, '--domain', ACME]);
    expect({ code, out }).toEqual({ code: 0, out: expect.stringContaining('8 effects') });
    // Exports that nothing was removed behind are whole too, and no part of the chain of archives.
    for (const file of await files()) expect((await runCommand(['audit', 'verify', file])).code).toBe(0);
  });
});
