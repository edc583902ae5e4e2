import { createHash, X509Certificate } from 'node:crypto';
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { SuretyError } from '../../src/cli/client/surety-error.js';
import { type Step, Timeline } from '../../src/cli/demo/timeline.js';
import { type CommandProcess, startCommand } from '../support/command-process.js';
import { descendantsOf, type LivingProcess, processesNaming } from '../support/processes.js';
import { heldProcess, type Preload, preloads, shiftedClock } from '../support/preloads.js';

// Issue "Effects end to end", 12: the story, told by processes with certificates of their own.

interface DemoDocument {
  readonly steps: readonly Step[];
  readonly chain: { readonly entries: number; readonly verified: boolean };
}

const HARNESS = 'spiffe://acme.test/harness/planner';
const EXECUTOR_A = 'spiffe://acme.test/executor/payments-a';
const EXECUTOR_B = 'spiffe://acme.test/executor/payments-b';
const RECONCILER = 'spiffe://acme.test/reconciler/bank';

/** Who does what, in order, and what comes of it: the "Why". */
const STORY: readonly (readonly [actor: string, rpc: string, outcome: string])[] = [
  [HARNESS, 'ReserveEffect', 'PREPARED'],
  [EXECUTOR_A, 'StartExecution', 'EXECUTING'],
  [EXECUTOR_A, 'AcknowledgeTerminal', 'SUCCEEDED'],
  [HARNESS, 'ReserveEffect', 'FAILED_PRECONDITION EFFECT_KEY_DONE'],
  [HARNESS, 'ReserveEffect', 'PREPARED'],
  [EXECUTOR_B, 'StartExecution', 'EXECUTING'],
  [EXECUTOR_B, 'MarkUnknown', 'UNKNOWN'],
  [EXECUTOR_B, 'AcknowledgeTerminal', 'FAILED_PRECONDITION EFFECT_MUST_RECONCILE'],
  [EXECUTOR_B, 'Reconcile', 'PERMISSION_DENIED METHOD_NOT_ALLOWED'],
  [HARNESS, 'ReserveEffect', 'FAILED_PRECONDITION EFFECT_KEY_BUSY'],
  [RECONCILER, 'Reconcile', 'SUCCEEDED'],
  [HARNESS, 'ReserveEffect', 'PREPARED'],
  [EXECUTOR_A, 'StartExecution', 'ALREADY_EXISTS PROOF_REPLAYED'],
  [HARNESS, 'CancelEffect', 'CANCELLED'],
];

/** The temporary folder of a demo. As root, Postgres cannot enter it, and its data goes elsewhere: the harder case. */
let temporary: string;
/** While it is there, the last part of a demo waits before it begins, so that whoever looks does not come too late. */
let held: string;
beforeEach(() => {
  temporary = mkdtempSync(path.join(realpathSync(tmpdir()), 'surety-demo-test-'));
  held = `${temporary}-held`;
  writeFileSync(held, '');
});
const running = new Set<CommandProcess>();
afterEach(async () => {
  for (const { child, pid, ended } of running) {
    // What a demo that hangs has started would outlive it.
    const all = [pid, ...descendantsOf(pid).map((each) => each.pid)];
    child.kill('SIGTERM');
    const hangs = setTimeout(() => all.forEach((each) => kill(each)), 15_000);
    await ended;
    clearTimeout(hangs);
  }
  running.clear();
  rmSync(temporary, { recursive: true, force: true });
  rmSync(held, { force: true });
});

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
}

function startDemo(args: readonly string[], ...others: readonly Preload[]): CommandProcess {
  const demo = startCommand(['demo', ...args], {
    TMPDIR: temporary,
    ...preloads(heldProcess('reconciler', held), ...others),
  });
  running.add(demo);
  void demo.ended.then(() => running.delete(demo));
  return demo;
}

/** Lets the last part begin. */
function goOn(): void {
  rmSync(held);
}

/** Looks at the processes of a demo until its four parts are there. */
async function partsOf(demo: CommandProcess): Promise<LivingProcess[]> {
  const parts = (): LivingProcess[] =>
    descendantsOf(demo.pid).filter(({ command }) => command.includes('role-main.js'));
  await expect.poll(() => parts().length, { timeout: 180_000, interval: 100 }).toBe(4);
  return parts();
}

/** Where a demo keeps everything; known only while it runs. */
function stateOf(): string {
  const [name, ...others] = readdirSync(temporary).filter((each) => each.startsWith('surety-demo-'));
  expect(others).toEqual([]);
  return path.join(temporary, name ?? '');
}

/** Neither a process, nor a file, wherever it may have put them. */
function nothingIsLeft(state: string): void {
  expect(processesNaming(temporary)).toEqual([]);
  expect(readdirSync(temporary)).toEqual([]);
  // The folders of an embedded Postgres that lies elsewhere are named for the one that was asked for.
  const name = createHash('sha256').update(path.join(state, 'postgres')).digest('hex').slice(0, 16);
  for (const place of ['/var/lib', '/var/tmp', tmpdir()]) {
    expect(existsSync(path.join(place, `surety-postgres-${name}`))).toBe(false);
  }
}

describe('surety demo', () => {
  test('--json tells the story as one document, by four processes with certificates of their own', async () => {
    const demo = startDemo(['--json']);
    const parts = await partsOf(demo);
    const state = stateOf();
    const certificates = parts.map(({ command }) => {
      // The first of its files; its key and whom it trusts come after.
      const file = command.split(' ').find((word) => word.startsWith(state));
      return new X509Certificate(readFileSync(file ?? ''));
    });
    expect(certificates.map(({ subjectAltName }) => subjectAltName?.replace('URI:', '')).sort()).toEqual(
      [EXECUTOR_A, EXECUTOR_B, HARNESS, RECONCILER].sort(),
    );
    expect(new Set(certificates.map(({ fingerprint256 }) => fingerprint256)).size).toBe(4);
    goOn();

    const { code, out, err } = await demo.ended;
    expect({ code, err }).toEqual({ code: 0, err: '' });
    // One document and nothing else: its text is what was parsed, and a line break.
    const document = JSON.parse(out) as DemoDocument;
    expect(out).toBe(`${JSON.stringify(document)}\n`);
    expect(Object.keys(document)).toEqual(['steps', 'chain']);
    for (const step of document.steps) {
      expect(Object.keys(step).sort()).toEqual(
        ['actor', 'code', 'effect_id', 'name', 'outcome', 'reason', 'rpc', 'state'].sort(),
      );
      expect(Object.values(step).every((value) => typeof value === 'string')).toBe(true);
      expect(step.name).not.toBe('');
    }
    const told = document.steps.map(({ actor, rpc, outcome, code: answer, reason, state: found }) => [
      actor,
      rpc,
      outcome === 'ok' && answer === 'OK' ? found : `${answer} ${reason}`,
    ]);
    expect(told).toEqual(STORY);
    // Three effects; whoever is refused for one that may be seen learns which.
    const [first, second, third] = [0, 4, 11].map((at) => document.steps[at]?.effect_id);
    expect(new Set([first, second, third]).size).toBe(3);
    expect(document.steps.map(({ effect_id: id }) => id)).toEqual([
      ...[first, first, first, first],
      ...[second, second, second, second, second, second, second],
      ...[third, third, third],
    ]);
    expect(document.chain).toEqual({ entries: expect.any(Number), verified: true });
    expect(document.chain.entries).toBeGreaterThan(STORY.length);
    nothingIsLeft(state);
  }, 120_000);

  test('exits 1 and says what went otherwise: executors whose clocks are an hour ahead', async () => {
    const demo = startDemo(['--json'], shiftedClock(3_600_000, 'workload'));
    await expect.poll(() => readdirSync(temporary).length, { timeout: 60_000 }).toBe(1);
    const state = stateOf();
    goOn();
    const { code, out, err } = await demo.ended;
    expect(code).toBe(1);
    const document = JSON.parse(out) as DemoDocument;
    expect(document.steps[0]).toMatchObject({ rpc: 'ReserveEffect', outcome: 'ok' });
    expect(document.steps[1]).toMatchObject({ rpc: 'StartExecution', reason: 'PROOF_EXPIRED' });
    expect(document.chain.verified).toBe(true);
    expect(err).toMatch(
      /^surety demo: Executor A asks for leave to send: ok, but it was refused PROOF_EXPIRED$/m,
    );
    nothingIsLeft(state);
  }, 120_000);

  test.each([
    { moment: 'before anything runs', processes: 0, signal: 'SIGHUP', code: 129 },
    { moment: 'while its service starts', processes: 1, signal: 'SIGINT', code: 130 },
    { moment: 'while its parts are started', processes: 5, signal: 'SIGTERM', code: 143 },
  ] as const)(
    'that is ended by $signal $moment leaves nothing behind, and says so',
    async ({ processes, signal, code }) => {
      const demo = startDemo([]);
      await expect.poll(() => readdirSync(temporary).length, { timeout: 60_000 }).toBe(1);
      const state = stateOf();
      const children = (): number =>
        descendantsOf(demo.pid).filter(({ parentPid }) => parentPid === demo.pid).length;
      await expect.poll(children, { timeout: 60_000 }).toBeGreaterThanOrEqual(processes);
      demo.child.kill(signal);
      expect(await demo.ended).toMatchObject({
        code,
        out: expect.stringMatching(/^Surety demo: /),
        err: `surety demo: stopped by ${signal}\n`,
      });
      nothingIsLeft(state);
    },
    120_000,
  );
});

describe('a timeline', () => {
  const WHO = { name: 'a step', actor: 'spiffe://acme.test/executor/a', rpc: 'StartExecution' };
  const refuse = (code: string, reason: string) => () =>
    Promise.reject(new SuretyError(code, reason, 'why', { effect_id: 'e', state: 'UNKNOWN' }, [], undefined));
  const answer = (state: string) => () => Promise.resolve({ effectId: 'e', state });
  const OK = { outcome: 'ok', state: 'EXECUTING' } as const;
  const REFUSED = { outcome: 'refused', code: 'FAILED_PRECONDITION', reason: 'EFFECT_KEY_BUSY' } as const;

  test.each([
    ['the state that it must', answer('EXECUTING'), OK, true],
    ['another state', answer('SUCCEEDED'), OK, false],
    ['a refusal', refuse('FAILED_PRECONDITION', 'FROZEN'), OK, false],
    ['the refusal that it must', refuse('FAILED_PRECONDITION', 'EFFECT_KEY_BUSY'), REFUSED, true],
    ['another reason', refuse('FAILED_PRECONDITION', 'EFFECT_KEY_DONE'), REFUSED, false],
    ['another code', refuse('PERMISSION_DENIED', 'EFFECT_KEY_BUSY'), REFUSED, false],
    ['no refusal', answer('PREPARED'), REFUSED, false],
  ])('whose step came to %s', async (_, run, expected, succeeds) => {
    const lines: string[] = [];
    const timeline = new Timeline((line) => lines.push(line));
    await timeline.step(WHO, run, expected);
    timeline.chain({ entries: 3, verified: true });
    expect(timeline.succeeded).toBe(succeeds);
    expect(lines.some((line) => line.includes('expected otherwise'))).toBe(!succeeds);
    expect(timeline.toJson()).toMatchObject({ steps: [WHO], chain: { entries: 3, verified: true } });
  });

  test('whose log does not verify has failed; a bug is no outcome', async () => {
    const timeline = new Timeline(undefined);
    timeline.chain({ entries: 3, verified: false });
    expect(timeline.succeeded).toBe(false);
    const bug = (): Promise<never> => Promise.reject(new TypeError('a bug'));
    await expect(timeline.step(WHO, bug, OK)).rejects.toThrow('a bug');
  });
});
