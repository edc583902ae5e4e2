import { once } from 'node:events';
import { Server } from '@grpc/grpc-js';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type CallTimeouts, callLimits } from '../../src/server/call-limits.js';
import { internalsOf } from '../../src/server/grpc-internals.js';
import { MAX_CONCURRENT_STREAMS } from '../../src/server/limits.js';
import { CALLER_ID, Caller, frame, type Harness, RawCaller, startHarness, until } from './harness.js';

let harness: Harness;
let raw: RawCaller;
const deadlines: number[] = [];
let missingInternals = 0;

/** Longer than any test of this file may take. */
const NEVER: CallTimeouts = { requestTimeoutMs: 600_000, deadlineCeilingMs: 700_000 };

async function start(timeouts: CallTimeouts = NEVER): Promise<void> {
  harness = await startHarness({
    interceptors: [
      callLimits(timeouts),
      (_, call) => {
        deadlines.push(Number(call.getDeadline()));
        if (internalsOf(call) === undefined) missingInternals += 1;
        return call as never;
      },
    ],
  });
  raw = new RawCaller(harness);
}

beforeEach(() => {
  deadlines.length = 0;
});
afterEach(async () => {
  raw.close();
  await harness.stop();
});

describe('what one call may cost', () => {
  it('finds what it needs inside the grpc-js that is installed', async () => {
    await start();
    expect(await raw.send('Size', frame(Buffer.alloc(3)))).toEqual({ code: 'OK', text: '3' });
    expect(missingInternals).toBe(0);
    expect(internalsOf(new Server() as never)).toBeUndefined();
  });

  it('ends a call whose request does not come', async () => {
    await start({ ...NEVER, requestTimeoutMs: 150 });
    const started = performance.now();
    const outcome = await raw.send('Size', frame(Buffer.alloc(100)).subarray(0, 50), {}, false);
    expect(outcome).toEqual({
      code: 'DEADLINE_EXCEEDED',
      text: 'The request was not sent in time; nothing was done.',
    });
    expect(performance.now() - started).toBeGreaterThan(140);
  });

  it('ends a call that takes longer than any may, and tells the handler beforehand', async () => {
    await start({ requestTimeoutMs: 500, deadlineCeilingMs: 600 });
    const caller = new Caller(harness, harness.authorities.acme.leaf(CALLER_ID));
    expect(await caller.call('Hang')).toEqual({
      code: 'DEADLINE_EXCEEDED',
      text: 'No call may take this long; it is not known whether it was done.',
    });
    expect(deadlines[0]).toBeLessThanOrEqual(Date.now());
    caller.close();
  });

  it('sets no ceiling to a stream of replies', async () => {
    await start({ requestTimeoutMs: 300, deadlineCeilingMs: 400 });
    const stream = raw.open('Watch');
    stream.end(frame(Buffer.alloc(0)));
    stream.resume();
    await once(stream, 'response');
    await new Promise((resolve) => setTimeout(resolve, 600));
    expect(stream.closed).toBe(false);
    expect(deadlines).toEqual([Infinity]);
    stream.close();
  });

  it('takes one message and no second', async () => {
    await start();
    const two = Buffer.concat([frame(Buffer.alloc(3)), frame(Buffer.alloc(3))]);
    expect(await raw.send('Size', two)).toEqual({
      code: 'RESOURCE_EXHAUSTED',
      text: 'The request is more than one message.',
    });
  });

  it('gives back the place of a call that was answered before its request had ended', async () => {
    await start();
    for (let each = 0; each < 3 * MAX_CONCURRENT_STREAMS; each += 1) {
      const tooLarge = Buffer.from([0, 0xff, 0xff, 0xff, 0xff]);
      expect(await raw.send('Size', tooLarge, {}, false)).toMatchObject({ code: 'RESOURCE_EXHAUSTED' });
    }
    expect(await raw.send('Size', frame(Buffer.alloc(3)))).toEqual({ code: 'OK', text: '3' });
  });

  it('leaves no timer behind', async () => {
    await start();
    const timers = (): number => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
    await raw.send('Size', frame(Buffer.alloc(3)));
    const before = timers();
    await Promise.all(Array.from({ length: 50 }, () => raw.send('Size', frame(Buffer.alloc(3)))));
    await until(() => timers() <= before, 'the end of the timers');
  });
});
