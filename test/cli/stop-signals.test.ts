import { EventEmitter } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { awaitStop, SECOND_SIGNAL_AFTER_MS, type StopRequest } from '../../src/stop-signals.js';
import { startCommand } from '../support/command-process.js';
import { createTestDatabase } from '../support/postgres.js';

// One Ctrl-C under npm comes twice: from the terminal, and from npm, which passes it on. (That a second signal that is meant
// ends a service at once: test/e2e/drain.test.ts.)

describe('a process that is asked to end', () => {
  let emitter: EventEmitter;
  let ended: string[];
  let stop: StopRequest<'SIGINT' | 'SIGTERM'>;
  beforeEach(() => {
    vi.useFakeTimers();
    emitter = new EventEmitter();
    ended = [];
    stop = awaitStop(
      {
        signals: ['SIGINT', 'SIGTERM'],
        endAtOnce: (signal) => ended.push(signal),
        onSecondCounts: () => ended.push('counts'),
      },
      emitter as unknown as NodeJS.Process,
    );
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  test('hears the first signal, and no other within the next second', async () => {
    emitter.emit('SIGINT', 'SIGINT');
    emitter.emit('SIGINT', 'SIGINT');
    vi.advanceTimersByTime(SECOND_SIGNAL_AFTER_MS - 1);
    emitter.emit('SIGTERM', 'SIGTERM');
    expect(await stop.asked).toBe('SIGINT');
    expect(ended).toEqual([]);
  });

  test('ends at once at one that comes later', () => {
    emitter.emit('SIGTERM', 'SIGTERM');
    emitter.emit('SIGTERM', 'SIGTERM');
    vi.advanceTimersByTime(SECOND_SIGNAL_AFTER_MS);
    expect(ended).toEqual(['counts']);
    emitter.emit('SIGINT', 'SIGINT');
    expect(ended).toEqual(['counts', 'SIGINT']);
  });

  test('listens no more once it is released', () => {
    emitter.emit('SIGTERM', 'SIGTERM');
    stop.release();
    vi.advanceTimersByTime(2 * SECOND_SIGNAL_AFTER_MS);
    expect([ended, emitter.eventNames()]).toEqual([[], []]);
  });
});

describe('a service at a terminal', () => {
  const state = mkdtempSync(path.join(tmpdir(), 'surety-signals-'));
  afterAll(() => rmSync(state, { recursive: true, force: true }));

  test('drains at a signal that comes twice', async () => {
    const database = await createTestDatabase();
    const service = startCommand(['start'], {
      SURETY_STATE_DIR: state,
      SURETY_DATABASE_URL: database.url,
      SURETY_LISTEN: '127.0.0.1:0',
      SURETY_ADMIN_LISTEN: '127.0.0.1:0',
    });
    await expect.poll(() => service.out() + service.err(), { timeout: 60_000 }).toContain('Ctrl-C ends it.');
    // Of two that are the same, the second would be lost while the first is pending.
    service.child.kill('SIGINT');
    service.child.kill('SIGTERM');
    const { code, err } = await service.ended;
    expect([code, err.trim().split('\n').at(-1)]).toEqual([0, expect.stringContaining('"drained"')]);
    await database.drop();
  }, 90_000);
});
