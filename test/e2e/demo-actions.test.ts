import { afterEach, expect, test } from 'vitest';
import type { Step } from '../../src/cli/demo/timeline.js';
import { type CommandProcess, startCommand } from '../support/command-process.js';

// Issue "Governed actions end to end", 5: the story of actions, told by processes with certificates of their own.

const HARNESS = 'spiffe://acme.test/harness/planner';
const OWNER = 'spiffe://acme.test/owner/olga';
const MAILER = 'spiffe://acme.test/worker/mailer';
const COURIER = 'spiffe://acme.test/worker/courier';
const AUDITOR = 'spiffe://surety.test/auditor/ann';

type Told = readonly [actor: string, rpc: string, outcome: string];

const APPROVED: readonly Told[] = [
  [HARNESS, 'ProposeAction', 'PROPOSED'],
  [OWNER, 'GateAction', 'GATED'],
];
const by = (actor: string, ...steps: readonly (readonly [string, string])[]): Told[] =>
  steps.map(([rpc, outcome]) => [actor, rpc, outcome]);
const dispatched = (actor: string, sent: string): Told[] =>
  by(actor, ['GetDispatchView', 'GATED'], ['BeginDispatch', 'DISPATCHED'], ['Send', sent]);
const inDoubt: readonly Told[] = [
  ...by(MAILER, ['LeaseNext', 'GATED']),
  ...dispatched(MAILER, 'doubt disconnected'),
  ...by(MAILER, ['DeferObservation', 'DISPATCHED']),
];
const looked = (found: string): Told[] =>
  by(MAILER, ['LeaseObservation', 'DISPATCHED'], ['BeginObservation', 'DISPATCHED'], ['Read', found]);
const settled = (actor: string): Told[] =>
  by(
    actor,
    ['AcceptAction', 'ACCEPTED'],
    ['GetDispatchView', 'ACCEPTED'],
    ['Read', 'done'],
    ['AddReceipt', 'recorded'],
    ['VerifyAction', 'VERIFIED'],
    ['CompleteAction', 'COMPLETED'],
  );

/** Who does what, in order, and what comes of it. */
const SCENES: readonly (readonly Told[])[] = [
  [
    ...APPROVED,
    ...inDoubt,
    ...looked('doubt pending'),
    ...by(MAILER, ['DeferObservation', 'DISPATCHED']),
    ...looked('done'),
    ...settled(MAILER),
  ],
  [
    ...APPROVED,
    ...inDoubt,
    ...looked('doubt unknown'),
    ...by(MAILER, ['DeferObservation', 'DISPATCHED']),
    ...looked('doubt unknown'),
    ...by(MAILER, ['DeferObservation', 'FAILED OBSERVATIONS_EXHAUSTED']),
    [HARNESS, 'ProposeAction', 'FAILED OBSERVATIONS_EXHAUSTED'],
    [AUDITOR, 'ListDeadLetters', 'FAILED OBSERVATIONS_EXHAUSTED'],
  ],
  [
    ...APPROVED,
    [MAILER, 'LeaseNext', 'GATED'],
    [COURIER, 'LeaseNext', 'GATED'],
    [MAILER, 'BeginDispatch', 'ABORTED LEASE_LOST'],
    ...dispatched(COURIER, 'done'),
    ...settled(COURIER),
  ],
  [
    ...APPROVED,
    ...by(COURIER, ['LeaseNext', 'GATED'], ['GetDispatchView', 'GATED']),
    [COURIER, 'BeginDispatch', 'FAILED_PRECONDITION APPROVAL_EXPIRED'],
    [COURIER, 'FailAction', 'FAILED WORKER'],
    [AUDITOR, 'ListDeadLetters', 'FAILED APPROVAL_EXPIRED'],
  ],
];

let demo: CommandProcess | undefined;
afterEach(async () => {
  demo?.child.kill('SIGTERM');
  await demo?.ended;
});

test('surety demo actions --json tells the story of four actions as one document', async () => {
  demo = startCommand(['demo', 'actions', '--json']);
  const { code, out, err } = await demo.ended;
  expect({ code, err }).toEqual({ code: 0, err: '' });
  const document = JSON.parse(out) as {
    readonly steps: readonly Step[];
    readonly chain: { readonly entries: number; readonly verified: boolean };
  };
  expect(out).toBe(`${JSON.stringify(document)}\n`);
  expect(Object.keys(document)).toEqual(['steps', 'chain']);
  for (const step of document.steps) {
    expect(Object.keys(step).sort()).toEqual(
      ['action_id', 'actor', 'code', 'name', 'outcome', 'reason', 'rpc', 'state'].sort(),
    );
    expect(step.name).not.toBe('');
  }
  const told = document.steps.map(({ actor, rpc, outcome, code: answer, reason, state }) => [
    actor,
    rpc,
    outcome === 'ok' ? `${state} ${reason}`.trim() : `${answer} ${reason}`,
  ]);
  expect(told).toEqual(SCENES.flat());
  // Four actions, each named by every step of its scene.
  let at = 0;
  const ids = SCENES.map(({ length }) => {
    const scene = document.steps.slice(at, (at += length));
    return new Set(scene.map(({ action_id: id }) => id));
  });
  expect(ids.map(({ size }) => size)).toEqual([1, 1, 1, 1]);
  expect(new Set(ids.flatMap((each) => [...each])).size).toBe(4);
  expect(document.chain.verified).toBe(true);
  expect(document.chain.entries).toBeGreaterThan(4);
}, 120_000);

test('surety demo of another story says which there are', async () => {
  demo = startCommand(['demo', 'fables']);
  const { code, err } = await demo.ended;
  expect(code).toBe(2);
  expect(err).toContain('unknown argument fables');
  expect(err).toContain('surety demo [effects | actions]');
});
