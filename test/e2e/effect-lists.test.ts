import { setTimeout as sleep } from 'node:timers/promises';
import { type MessageInitShape, fromBinary } from '@bufbuild/protobuf';
import { durationFromMs } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { WorkloadSession } from '../../src/cli/client/workload-session.js';
import { AuditEntrySchema } from '../../src/gen/surety/audit/v1/entry_pb.js';
import { AuditService } from '../../src/gen/surety/audit/v1/audit_service_pb.js';
import { type Effect, EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import {
  EffectService,
  type ListEffectsRequestSchema,
  type WatchEffectsResponse,
} from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import {
  ACME,
  AUDITOR,
  type E2eWorld,
  EXECUTOR_A,
  GLOBEX,
  HARNESS,
  openE2eWorld,
  OPERATOR,
  RECONCILER,
  refusedWith,
} from '../support/e2e-world.js';
import { publishAs, put } from '../support/e2e-parties.js';

const { PREPARED, EXECUTING, UNKNOWN, SUCCEEDED } = EffectState;

type Filter = Omit<MessageInitShape<typeof ListEffectsRequestSchema>, '$typeName' | '$unknown'>;

describe('effects.md, Cancel, reads, retry: lists and watches', () => {
  let world: E2eWorld;
  let executor: WorkloadSession;
  let reconciler: WorkloadSession;
  /** At payments, but for the last one, which is at mail. */
  let effects: Effect[];
  let eventId: string;
  /** A watch of a sink at which nothing ever happens, from the beginning of the file to its end. */
  let idle: Watch;

  beforeAll(async () => {
    world = await openE2eWorld({ globex: true });
    const sink = { sink: 'mail', authoritySystems: ['postmaster'] };
    await put(world, { case: 'putSink', value: { sink } });
    await put(world, { case: 'putSink', value: { sink: { ...sink, sink: 'fax' } } });
    idle = watch(AUDITOR, { domainId: ACME, outputSink: 'fax' });
    executor = await world.executor(EXECUTOR_A, { sinks: ['payments', 'mail'] });
    reconciler = await world.reconciler();
    const grantId = await world.grant({ outputSinks: ['payments', 'mail'] });
    eventId = await publishAs(world, HARNESS);
    effects = [];
    for (const [state, overrides] of [
      [PREPARED, { eventId, grantId }],
      [EXECUTING, { grantId }],
      [UNKNOWN, { grantId, effectKey: 'lists' }],
      [SUCCEEDED, { grantId }],
      [PREPARED, { grantId, eventId, outputSink: 'mail', effectKey: 'lists' }],
    ] as const) {
      effects.push((await world.effectIn(state, executor, overrides)).effect);
    }
  });
  afterAll(async () => {
    idle.close();
    await world.close();
  });

  const at = (...indexes: number[]): string[] => indexes.map((index) => effects[index]?.effectId ?? '');

  describe('ListEffects', () => {
    async function list(filter: Filter, spiffeId = AUDITOR): Promise<Effect[]> {
      const found: Effect[] = [];
      let pageToken = '';
      do {
        const request = { domainId: ACME, ...filter, pageToken };
        const page = await world.channel(spiffeId).service(EffectService).listEffects(request);
        found.push(...page.effects);
        pageToken = page.nextPageToken;
      } while (pageToken !== '');
      return found;
    }
    const ids = async (...args: Parameters<typeof list>) =>
      (await list(...args)).map(({ effectId }) => effectId);

    test('operators and auditors get all of the domain as GetEffect shows it, oldest fence first', async () => {
      for (const spiffeId of [AUDITOR, OPERATOR]) {
        expect(await list({}, spiffeId)).toEqual(effects);
        expect(await list({ pageSize: 2 }, spiffeId)).toEqual(effects);
      }
      expect(await list({ domainId: GLOBEX })).toEqual([]);
    });

    test('by state, sink, event, key and age, and by several', async () => {
      expect(await ids({ state: PREPARED })).toEqual(at(0, 4));
      expect(await ids({ state: UNKNOWN })).toEqual(at(2));
      expect(await ids({ outputSink: 'mail' })).toEqual(at(4));
      expect(await ids({ eventId })).toEqual(at(0, 4));
      expect(await ids({ effectKey: 'lists' })).toEqual(at(2, 4));
      expect(await ids({ effectKey: 'lists', outputSink: 'payments' })).toEqual(at(2));
      expect(await ids({ eventId, state: PREPARED, outputSink: 'payments', pageSize: 1 })).toEqual(at(0));
      expect(await ids({ eventId: 'none' })).toEqual([]);
      expect(await ids({ minAge: durationFromMs(60_000) })).toEqual([]);
      await world.advance(60_000);
      expect(await ids({ minAge: durationFromMs(60_000) })).toEqual(at(0, 1, 2, 3, 4));
      const young = await world.reserve({ effectKey: 'young' });
      expect(await ids({ minAge: durationFromMs(30_000) })).toEqual(at(0, 1, 2, 3, 4));
      effects.push(await executor.look(young.effectId));
    });

    test('reconcilers get what is at the sinks of their system', async () => {
      const own = effects.filter(({ outputSink }) => outputSink === 'payments');
      expect(await list({ domainId: '' }, RECONCILER)).toEqual(own);
      expect(await ids({ domainId: '', outputSink: 'mail' }, RECONCILER)).toEqual([]);
      expect(await ids({ domainId: '', state: UNKNOWN }, RECONCILER)).toEqual(at(2));
      const { registrationId } = reconciler.registration;
      expect(await list({ domainId: '', registrationId }, RECONCILER)).toEqual(own);
    });

    test.each([HARNESS, EXECUTOR_A])('%s gets none', async (spiffeId) => {
      const error = await refusedWith(world.channel(spiffeId).service(EffectService).listEffects({}));
      expect(error).toMatchObject({ code: 'PERMISSION_DENIED', reason: 'METHOD_NOT_ALLOWED' });
    });

    test('pages stay whole while effects come and go between them', async () => {
      const auditor = world.channel(AUDITOR).service(EffectService);
      const before = await ids({});
      const seen: string[] = [];
      let pageToken = '';
      let added = 0;
      do {
        const page = await auditor.listEffects({ domainId: ACME, pageSize: 2, pageToken });
        seen.push(...page.effects.map(({ effectId }) => effectId));
        pageToken = page.nextPageToken;
        if (added < 3) {
          added += 1;
          const { effect } = await world.effectIn(added === 2 ? SUCCEEDED : PREPARED, executor);
          effects.push(effect);
        }
      } while (pageToken !== '');
      // Nothing twice, nothing left out, and the new ones behind, because fences only grow.
      expect(seen).toEqual(await ids({}));
      expect(seen.slice(0, before.length)).toEqual(before);
      expect(seen).toHaveLength(before.length + 3);
    });

    test('a token of another list or filter, changed or made up, is an error of the argument', async () => {
      const auditor = world.channel(AUDITOR).service(EffectService);
      const filter = { domainId: ACME, pageSize: 1 };
      const { nextPageToken } = await auditor.listEffects(filter);
      const parts = JSON.parse(Buffer.from(nextPageToken, 'base64url').toString()) as string[];
      const made = (key: string) => Buffer.from(JSON.stringify([parts[0], key])).toString('base64url');
      const bad = [
        'x',
        `${nextPageToken}=`,
        nextPageToken.slice(1),
        made('-1'),
        made('1 OR true'),
        made(String(2n ** 63n)),
        made('\0'),
        'A'.repeat(5000),
      ];
      const calls = [
        ...bad.map((pageToken) => ({ ...filter, pageToken })),
        { ...filter, pageToken: nextPageToken, state: PREPARED },
        { ...filter, pageToken: nextPageToken, outputSink: 'mail' },
        { ...filter, pageToken: nextPageToken, domainId: GLOBEX },
      ];
      for (const request of calls) {
        const error = await refusedWith(auditor.listEffects(request));
        expect(error).toMatchObject({ code: 'INVALID_ARGUMENT', reason: 'FIELD_INVALID' });
        expect(error.violations.map(({ field }) => field)).toEqual(['page_token']);
      }
      // Another size of the page is no other list.
      const rest = await auditor.listEffects({ domainId: ACME, pageSize: 1000, pageToken: nextPageToken });
      expect(rest.effects.map(({ effectId }) => effectId)).toEqual((await ids({})).slice(1));
    });

    test('all that is wrong with a filter is told at once', async () => {
      const call = world
        .channel(AUDITOR)
        .service(EffectService)
        .listEffects({
          domainId: ACME,
          state: 9 as never,
          outputSink: 'a\nb',
          eventId: 'x'.repeat(257),
          effectKey: '\0',
          minAge: durationFromMs(-1),
          pageSize: 1001,
          pageToken: 'x',
        });
      const { violations } = await refusedWith(call);
      const fields = ['state', 'output_sink', 'event_id', 'effect_key', 'min_age', 'page_size', 'page_token'];
      expect(violations.map(({ field }) => field).sort()).toEqual(fields.sort());
    });
  });

  /** A watch that gathers what comes. */
  interface Watch {
    readonly messages: WatchEffectsResponse[];
    /** Waits for so many steps, heartbeats left out. */
    steps(count: number): Promise<WatchEffectsResponse[]>;
    close(): void;
    /** Resolves, or rejects, when the stream has ended. */
    readonly ended: Promise<void>;
  }

  function watch(
    spiffeId: string,
    request: { domainId?: string; afterPosition?: bigint; outputSink?: string },
  ): Watch {
    const abort = new AbortController();
    const messages: WatchEffectsResponse[] = [];
    const stream = world
      .channel(spiffeId)
      .service(EffectService)
      .watchEffects(request, { signal: abort.signal });
    const ended = (async () => {
      try {
        for await (const message of stream) messages.push(message);
      } catch (error) {
        if (!abort.signal.aborted) throw error;
      }
    })();
    ended.catch(() => undefined);
    const steps = async (count: number): Promise<WatchEffectsResponse[]> => {
      const deadline = Date.now() + 60_000;
      for (;;) {
        const found = messages.filter(({ step }) => step !== undefined);
        if (found.length >= count) return found;
        if (Date.now() > deadline) throw new Error(`only ${found.length} of ${count} steps came`);
        await sleep(20);
      }
    };
    return { messages, steps, close: () => abort.abort(), ended };
  }

  /** The positions of the log that are about effects. */
  async function effectPositions(): Promise<bigint[]> {
    const { entries } = await world
      .channel(AUDITOR)
      .service(AuditService)
      .listEntries({ domainId: ACME, pageSize: 1000 });
    return entries
      .filter(({ entry }) => fromBinary(AuditEntrySchema, entry).effect !== undefined)
      .map(({ seq }) => seq);
  }

  describe('WatchEffects', () => {
    test('has every step from the beginning in the order of the log, and then what comes', async () => {
      const before = await effectPositions();
      const all = watch(AUDITOR, { domainId: ACME });
      expect((await all.steps(before.length)).map(({ position }) => position)).toEqual(before);
      await world.effectIn(SUCCEEDED, executor);
      const now = await effectPositions();
      const steps = await all.steps(now.length);
      all.close();
      expect(steps.map(({ position }) => position)).toEqual(now);
      expect(steps.every(({ position, step }) => step?.auditPosition === position)).toBe(true);
      expect(steps.slice(-3).map(({ step }) => step?.toState)).toEqual([PREPARED, EXECUTING, SUCCEEDED]);
    });

    test('resumes from any position that it has told, heartbeats among them, without gap or double', async () => {
      const whole = await effectPositions();
      for (let had = 0; had < whole.length; had += 3) {
        const first = watch(AUDITOR, { domainId: ACME });
        await first.steps(had);
        first.close();
        const seen = first.messages.filter(({ step }) => step !== undefined).slice(0, had);
        const rest = watch(AUDITOR, { domainId: ACME, afterPosition: seen.at(-1)?.position ?? 0n });
        const steps = await rest.steps(whole.length - had);
        rest.close();
        expect([...seen, ...steps].map(({ position }) => position)).toEqual(whole);
      }
      const heartbeat = idle.messages.at(-1);
      expect(heartbeat?.step).toBeUndefined();
      const behind = whole.filter((position) => position > (heartbeat?.position ?? 0n));
      const resumed = watch(AUDITOR, { domainId: ACME, afterPosition: heartbeat?.position ?? 0n });
      expect((await resumed.steps(behind.length)).map(({ position }) => position)).toEqual(behind);
      resumed.close();
    });

    test('says at once where it stands, also behind the end of the log', async () => {
      const [head = 0n] = (await effectPositions()).slice(-1);
      const ahead = watch(AUDITOR, { domainId: ACME, afterPosition: head + 1_000n });
      const near = watch(AUDITOR, { domainId: ACME, afterPosition: head });
      await world.reserve();
      const [step] = await near.steps(1);
      expect(near.messages[0]).toMatchObject({ position: head });
      expect(near.messages[0]?.step).toBeUndefined();
      expect(step?.position).toBeGreaterThan(head);
      await vi.waitFor(() => expect(ahead.messages).not.toEqual([]), { timeout: 60_000 });
      // Once, or with each heartbeat since.
      expect([...new Set(ahead.messages.map(({ position }) => position))]).toEqual([head + 1_000n]);
      expect(ahead.messages.filter(({ step }) => step !== undefined)).toEqual([]);
      for (const one of [ahead, near]) one.close();
    });

    test('of one sink; a reconciler has those of its system', async () => {
      const mail = watch(AUDITOR, { domainId: ACME, outputSink: 'mail' });
      expect((await mail.steps(1)).map(({ step }) => step?.effectId)).toEqual(at(4));
      const own = watch(RECONCILER, {});
      const { rows } = await world.sql.query(
        `SELECT count(*)::integer AS count FROM audit_entries AS a
          JOIN effects AS e USING (domain_id, effect_id) WHERE e.sink = 'payments'`,
      );
      const steps = await own.steps(rows[0].count);
      expect(steps.every(({ step }) => step?.outputSink === 'payments')).toBe(true);
      const foreign = watch(RECONCILER, { outputSink: 'mail' });
      await world.reserve();
      await own.steps(rows[0].count + 1);
      expect(foreign.messages.filter(({ step }) => step !== undefined)).toEqual([]);
      for (const one of [mail, own, foreign]) one.close();
    });

    test.each<[string, object, object]>([
      [AUDITOR, { afterPosition: -1n, domainId: ACME }, { reason: 'FIELD_INVALID' }],
      [AUDITOR, { outputSink: 'a\nb', domainId: ACME }, { reason: 'FIELD_INVALID' }],
      [AUDITOR, {}, { reason: 'FIELD_INVALID' }],
      [HARNESS, {}, { reason: 'METHOD_NOT_ALLOWED' }],
      [EXECUTOR_A, {}, { reason: 'METHOD_NOT_ALLOWED' }],
      [RECONCILER, { domainId: GLOBEX }, { reason: 'NOT_VISIBLE' }],
    ])('%s with %o is refused', async (spiffeId, request, expected) => {
      const refused = watch(spiffeId, request);
      expect(await refusedWith(refused.ended)).toMatchObject(expected);
      expect(refused.messages).toEqual([]);
    });

    test('hears heartbeats where nothing is for it, with the position reached', async () => {
      const [head = 0n] = (await effectPositions()).slice(-1);
      await vi.waitFor(() => expect(idle.messages.length).toBeGreaterThanOrEqual(2), { timeout: 60_000 });
      expect(idle.messages.every(({ step }) => step === undefined)).toBe(true);
      const positions = idle.messages.map(({ position }) => position);
      expect(positions).toEqual([...positions].sort((a, b) => Number(a - b)));
      expect(positions[0]).toBe(0n);
      expect(positions.at(-1)).toBeLessThanOrEqual(head);
      expect(positions.at(-1)).toBeGreaterThan(0n);
    });
  });
});
