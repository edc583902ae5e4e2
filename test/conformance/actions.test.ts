import { spawn } from 'node:child_process';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ActionWorld } from '../../conformance/action-world.js';
import { ACTION_CASES } from '../../conformance/actions/index.js';
import { type E2eWorld, GLOBEX, openE2eWorld } from '../support/e2e-world.js';

let service: E2eWorld;
let world: ActionWorld;
beforeAll(async () => {
  service = await openE2eWorld();
  world = await ActionWorld.open(service.service.target, service.layout, GLOBEX);
  await world.prepare();
}, 60_000);
afterAll(async () => {
  world?.close();
  await service.close();
});

const together = ACTION_CASES.filter(({ alone }) => alone !== true);
const alone = ACTION_CASES.filter((each) => each.alone === true);

// The cases of `npm run conformance`, against a service process of this checkout (actions.md, I1 to I11).
describe.concurrent('cases of governed actions that disturb no other', () => {
  for (const { id, title, run } of together) test(`${id}: ${title}`, () => run(world));
});

describe('cases of governed actions that run alone', () => {
  beforeEach(() => world.prepare());
  for (const { id, title, run } of alone) test(`${id}: ${title}`, () => run(world));
});

test('every case has an id of its own, and every invariant that the API shows has a case', () => {
  const ids = ACTION_CASES.map(({ id }) => id);
  expect(new Set(ids).size).toBe(ids.length);
  const rules = ACTION_CASES.flatMap(({ rule }) => rule.match(/\bI\d+/g) ?? []);
  expect([...new Set(rules)].sort()).toEqual([
    'I1',
    'I10',
    'I11',
    'I2',
    'I3',
    'I4',
    'I5',
    'I6',
    'I7',
    'I8',
    'I9',
  ]);
});

describe('npm run conformance', () => {
  test('runs the chosen cases against a running service and answers with its exit code', async () => {
    const { target } = service.service;
    const to = ['--target', target, '--certs', service.layout.directory];
    const { code, output } = await conformance([...to, '--only', 'witness.none', '--json']);
    expect(JSON.parse(output)).toMatchObject({
      target,
      passed: 1,
      failed: 0,
      cases: [{ id: 'witness.none', rule: 'I9', passed: true, why: '' }],
    });
    expect(code).toBe(0);
  });

  test('says what is missing, and tries nothing', async () => {
    expect((await conformance(['--certs', service.layout.directory])).code).toBe(2);
    expect((await conformance(['--target', service.service.target, '--certs', '/nowhere'])).code).toBe(2);
    expect((await conformance(['--list', '--only', 'no such case'])).code).toBe(2);
  });
});

function conformance(
  args: readonly string[],
): Promise<{ readonly code: number | null; readonly output: string }> {
  const child = spawn(process.execPath, ['dist/conformance/main.js', ...args], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => {
    output += chunk.toString('utf8');
  });
  return new Promise((resolve) => {
    child.once('close', (code) => resolve({ code, output }));
  });
}
