import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { FakeProvider, type ProviderConduct } from '../../src/cli/demo/fake-provider.js';
import type { Moment, StepName } from '../../src/cli/worker/steps.js';
import { ActionState, FailureReason } from '../../src/gen/surety/action/v1/action_pb.js';
import { ActionParties, WORKER } from '../support/action-parties.js';
import { type CommandEnd, startCommand, startProgram } from '../support/command-process.js';
import { type E2eWorld, openE2eWorld } from '../support/e2e-world.js';
import { eachOf, makeWorker } from '../support/worker-fleet.js';

// Issue "Governed actions end to end": a worker that is a process of its own, killed once at every step.

let world: E2eWorld;
let parties: ActionParties;
let provider: FakeProvider;
beforeAll(async () => {
  world = await openE2eWorld();
  parties = await ActionParties.join(world);
  provider = await FakeProvider.start((body) => {
    const conduct = /conduct=(\w+)/.exec(body)?.[1] ?? 'honest';
    return { conduct: conduct as ProviderConduct };
  });
}, 60_000);
afterAll(async () => {
  await provider.close();
  await world.close();
});

function payload(conduct: ProviderConduct): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(Buffer.from(JSON.stringify({ tool_name: 'mail.send', text: `conduct=${conduct}` })));
}

/** The options of `surety worker` for this world. */
function options(...further: string[]): string[] {
  const files = world.layout.callers[WORKER];
  return [
    ...['--target', world.service.target, '--provider', provider.url],
    ...['--cert', files?.cert ?? '', '--key', files?.key ?? '', '--roots', world.layout.serviceBundle],
    ...['--registration', parties.worker.registration.registrationId],
    ...['--delay', '1ms', '--window', '1h', ...further],
  ];
}

function startDying(moment: Moment, step: StepName, scope: string): Promise<CommandEnd> {
  const file = path.resolve('test/support/dying-worker.mjs');
  return startProgram(process.execPath, [file, moment, step, ...options('--scope', scope)]).ended;
}

/** What a provider that behaves so leads the worker through. */
const PATHS: readonly (readonly [ProviderConduct, readonly StepName[]])[] = [
  [
    'honest',
    [
      ...(['LeaseNext', 'GetDispatchView', 'BeginDispatch', 'Send', 'AcceptAction'] as const),
      ...(['Read', 'AddReceipt', 'VerifyAction', 'CompleteAction'] as const),
    ],
  ],
  ['loses_answer', ['DeferObservation', 'LeaseObservation', 'BeginObservation', 'Read']],
  ['refuses', ['FailAction']],
];

interface Case {
  readonly conduct: ProviderConduct;
  readonly step: StepName;
  readonly source: string;
}

/** Before a step is after the one before it: between two there is nothing that outlives the process. */
const CASES: readonly Case[] = PATHS.flatMap(([conduct, steps]) =>
  steps.map((step) => ({ conduct, step, source: `${conduct}-${step}` })),
);

describe('a worker that is killed', () => {
  test('after any step leaves what another brings to its end, sent once at most', async () => {
    const deaths = await eachOf(CASES, 4, async ({ conduct, step, source }) => {
      const { action } = await parties.gated({ source, payload: payload(conduct) });
      const { code } = await startDying('after', step, source);
      return { actionId: action.actionId, died: `${source} ${code}` };
    });
    expect(deaths.map(({ died }) => died)).toEqual(CASES.map(({ source }) => `${source} SIGKILL`));

    // Leases of the dead run out; what an observation told nothing about ends with the budget.
    const survivor = makeWorker({ session: parties.worker, providerUrl: provider.url });
    await world.advance(61_000);
    await survivor.drain();
    for (const [index, { actionId }] of deaths.entries()) {
      const { conduct, step } = CASES[index] as Case;
      const action = await parties.owner.look(actionId);
      const record = provider.records.get(Buffer.from(action.executionDigest).toString('hex'));
      const told = { source: action.source, state: action.state, reason: action.failureReason };
      // Between the dispatch and the request nobody knows, and nothing is sent again.
      const neverSent = step === 'BeginDispatch';
      expect(told).toEqual({
        source: action.source,
        ...(neverSent
          ? { state: ActionState.FAILED, reason: FailureReason.OBSERVATIONS_EXHAUSTED }
          : conduct === 'refuses'
            ? { state: ActionState.FAILED, reason: FailureReason.WORKER }
            : { state: ActionState.COMPLETED, reason: FailureReason.UNSPECIFIED }),
      });
      expect([action.source, record?.requests ?? 0, action.attemptCount]).toEqual([
        action.source,
        neverSent ? 0 : 1,
        1,
      ]);
    }
    expect([provider.mostRequests, provider.mismatches]).toEqual([1, 0]);
  }, 120_000);
});

describe('surety worker', () => {
  test('--once works on what is ready in its scope, tells it free of content, and ends', async () => {
    const secret = 'the text of the mail';
    const text = JSON.stringify({ tool_name: 'mail.send', text: secret });
    const inScope = await parties.gated({ source: 'cli-1', payload: Uint8Array.from(Buffer.from(text)) });
    const other = await parties.gated({ source: 'other-1' });
    const { code, out, err } = await startCommand([
      'worker',
      ...options('--scope', 'cli-*', '--once', '--json'),
    ]).ended;
    expect({ code, err }).toEqual({ code: 0, err: '' });
    const lines = out.trimEnd().split('\n');
    const told = lines.map((line) => JSON.parse(line) as Record<string, string>);
    expect(told.map(({ step, outcome, state }) => [step, outcome, state])).toEqual([
      ['LeaseNext', 'ok', 'GATED'],
      ['GetDispatchView', 'ok', 'GATED'],
      ['BeginDispatch', 'ok', 'DISPATCHED'],
      ['Send', 'ok', 'done'],
      ['AcceptAction', 'ok', 'ACCEPTED'],
      ['GetDispatchView', 'ok', 'ACCEPTED'],
      ['Read', 'ok', 'done'],
      ['AddReceipt', 'ok', 'recorded'],
      ['VerifyAction', 'ok', 'VERIFIED'],
      ['CompleteAction', 'ok', 'COMPLETED'],
    ]);
    expect(new Set(told.map((line) => line['action_id']))).toEqual(new Set([inScope.action.actionId]));
    for (const content of [secret, 'mail.send', 'cli-1', 'http']) expect(out).not.toContain(content);
    expect((await parties.owner.look(other.action.actionId)).state).toBe(ActionState.GATED);
  }, 60_000);

  test('runs until SIGTERM, and finishes what it has in hand', async () => {
    const scope = 'term-1';
    const worker = startCommand(['worker', ...options('--scope', scope, '--poll', '50ms')]);
    const { action } = await parties.gated({ source: scope, payload: payload('late') });
    await expect.poll(() => worker.out(), { timeout: 30_000 }).toContain('BeginDispatch DISPATCHED');
    worker.child.kill('SIGTERM');
    const { code, out } = await worker.ended;
    expect([code, out.trimEnd().split(' ').slice(-2)]).toEqual([0, ['CompleteAction', 'COMPLETED']]);
    expect((await parties.owner.look(action.actionId)).state).toBe(ActionState.COMPLETED);
  }, 60_000);

  test('asks a validator of the caller before each dispatch; one that throws changes nothing', async () => {
    const file = path.join(world.layout.directory, `validator-${process.pid}.mjs`);
    writeFileSync(
      file,
      `export default ({ action, body }) => {
        if (action.source.endsWith('throws')) throw new Error('no');
        if (action.source.endsWith('refuses')) return { verdict: 'refuse', detail: 'not this one' };
        return { verdict: 'send', goodForMs: body.length * 1000 };
      };`,
    );
    const sources = ['judged-throws', 'judged-refuses', 'judged-sends'];
    const ids = await eachOf(sources, 3, async (source) => (await parties.gated({ source })).action.actionId);
    const args = options('--scope', 'judged-*', '--once', '--validator', file).map((word) =>
      word === '1ms' ? '1h' : word,
    );
    expect(await startCommand(['worker', ...args]).ended).toMatchObject({ code: 0, err: '' });
    const actions = await Promise.all(ids.map((id) => parties.owner.look(id)));
    expect(actions.map(({ state, attemptCount }) => [state, attemptCount])).toEqual([
      [ActionState.GATED, 0],
      [ActionState.FAILED, 0],
      [ActionState.COMPLETED, 1],
    ]);
  }, 60_000);
});
