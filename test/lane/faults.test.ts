import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import { Faults, parseFault } from '../../src/lane/faults.js';

// architecture.md, Time and faults in tests: what SURETY_FAULT may say.

test.each([
  ['after-gather:crash', { seam: 'after-gather', action: 'crash' }],
  ['in-commit-3:error@effect.start', { seam: 'in-commit-3', action: 'error', kind: 'effect.start' }],
  ['before-commit:hold', { seam: 'before-commit', action: 'hold' }],
  ['after-commit:hold=/a=b', { seam: 'after-commit', action: 'hold', whileFile: '/a=b' }],
  [
    'before-commit:hold@effect.reserve=/tmp/x@y',
    { seam: 'before-commit', action: 'hold', kind: 'effect.reserve', whileFile: '/tmp/x@y' },
  ],
])('%s is a fault', (text, order) => {
  expect(parseFault(text)).toEqual(order);
});

test.each([
  'commit:crash',
  'before-commit',
  'before-commit:explode',
  'before-commit:crash=/file',
  'before-commit:hold=',
  'before-commit:hold@=/file',
])('%s is none', (text) => {
  expect(parseFault(text)).toBeUndefined();
});

test('hold holds the first batch of its seam and kind while its file is there', async () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'surety-hold-'));
  const file = path.join(folder, 'held');
  writeFileSync(file, '');
  const faults = new Faults(parseFault(`before-commit:hold@effect.start=${file}`));
  expect(faults.hit('after-gather', ['effect.start'])).toBeUndefined();
  expect(faults.hit('before-commit', ['effect.reserve'])).toBeUndefined();
  const held = faults.hit('before-commit', ['effect.start']);
  expect(faults.hit('before-commit', ['effect.start'])).toBeUndefined();
  let isOver = false;
  void held?.then(() => {
    isOver = true;
  });
  await new Promise((resolve) => setTimeout(resolve, 60));
  expect(isOver).toBe(false);
  rmSync(folder, { recursive: true });
  await held;
});
