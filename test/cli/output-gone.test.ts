import { type ChildProcess, spawn } from 'node:child_process';
import { EventEmitter } from 'node:events';
import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { EXIT_NO_READER, endWithoutOutput, type OutputProcess } from '../../src/cli/output-gone.js';

// A command in a pipe whose reader went away: `surety … | head`.

const MAIN = path.resolve('dist/src/cli/main.js');
const folder = mkdtempSync(path.join(tmpdir(), 'surety-output-'));
const none = path.join(folder, 'none.jsonl');
writeFileSync(none, '{}\n');
afterAll(() => rmSync(folder, { recursive: true }));

function ended(child: ChildProcess): Promise<{ code: number | null; err: string }> {
  let err = '';
  child.stderr?.on('data', (chunk: Buffer) => (err += chunk.toString()));
  return new Promise((resolve) => child.once('close', (code) => resolve({ code, err })));
}

describe('a command whose output nobody reads', () => {
  it.each([
    ['help', []],
    ['admin', ['--help']],
    ['audit', ['verify', none]],
  ])('ends without a word, as a shell expects it: %s', async (name, args) => {
    const child = spawn(process.execPath, [MAIN, name, ...args], {
      env: { PATH: process.env['PATH'], SURETY_STATE_DIR: folder },
    });
    child.stdout.destroy();
    expect(await ended(child)).toEqual({ code: EXIT_NO_READER, err: '' });
  });

  it('says so where there is no room for it', async () => {
    const full = openSync('/dev/full', 'w');
    const child = spawn(process.execPath, [MAIN, 'help'], { stdio: ['ignore', full, 'pipe'] });
    closeSync(full);
    expect(await ended(child)).toEqual({ code: 1, err: 'surety: the standard output has no space left\n' });
  });
});

describe('a command that ends in order when it is asked to', () => {
  it('is asked once, and its code says why', () => {
    const killed: unknown[] = [];
    const stdout = new EventEmitter();
    const own = Object.assign(new EventEmitter(), {
      pid: 7,
      stdout,
      stderr: Object.assign(new EventEmitter(), { write: () => expect.unreachable() }),
      kill: (...asked: unknown[]) => killed.push(asked) > 0,
      exit: () => expect.unreachable(),
      exitCode: 0,
    });
    endWithoutOutput('surety', own as unknown as OutputProcess);
    own.on('SIGTERM', () => {});
    for (let i = 0; i < 3; i += 1) stdout.emit('error', Object.assign(new Error('x'), { code: 'EPIPE' }));
    expect(killed).toEqual([[7, 'SIGTERM']]);
    own.emit('exit');
    expect(own.exitCode).toBe(EXIT_NO_READER);
  });
});
