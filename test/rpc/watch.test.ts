import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { refusal } from '../../src/ledger/refusal.js';
import { Refused } from '../../src/ledger/run-decision.js';
import type { CallContext } from '../../src/rpc/handler.js';
import { followLog, type FollowOptions } from '../../src/rpc/watch/follow-log.js';
import { PositionPoller } from '../../src/rpc/watch/position-poller.js';
import type { Reader } from '../../src/store/reader.js';

/** A store of which only the heads are read. */
class Heads {
  asked: string[][] = [];
  failing = false;
  readonly seqs = new Map<string, bigint>();

  readonly reader: Pick<Reader, 'query'> = {
    query: async (_name, [domainIds]) => {
      this.asked.push(domainIds as string[]);
      if (this.failing) throw new Error('away');
      return (domainIds as string[]).map((domainId) => ({
        domainId,
        seq: this.seqs.get(domainId) ?? 0n,
      })) as never;
    },
  };
}

const never = new AbortController().signal;

describe('the poller of positions', () => {
  test('reads nothing while nobody waits, and once for however many do', async () => {
    const heads = new Heads();
    const poller = new PositionPoller(heads.reader, 5);
    await sleep(20);
    expect(heads.asked).toEqual([]);
    const waits = ['a.test', 'a.test', 'b.test'].map((domainId) =>
      poller.waitBeyond(domainId, 3n, { timeoutMs: 5_000, signal: never }),
    );
    await sleep(50);
    expect(heads.asked[0]).toEqual(['a.test', 'b.test']);
    heads.seqs.set('a.test', 4n).set('b.test', 9n);
    expect(await Promise.all(waits)).toEqual(['moved', 'moved', 'moved']);
    expect(poller.waiting).toBe(0);
    const asked = heads.asked.length;
    await sleep(30);
    expect(heads.asked).toHaveLength(asked);
  });

  test('wakes only those whose log has grown', async () => {
    const heads = new Heads();
    const poller = new PositionPoller(heads.reader, 5);
    const behind = poller.waitBeyond('a.test', 3n, { timeoutMs: 5_000, signal: never });
    const ahead = poller.waitBeyond('a.test', 7n, { timeoutMs: 60, signal: never });
    heads.seqs.set('a.test', 7n);
    expect(await behind).toBe('moved');
    expect(await ahead).toBe('timeout');
  });

  test('lets go of who is gone, and of all when the service drains', async () => {
    const poller = new PositionPoller(new Heads().reader, 5);
    const controller = new AbortController();
    const gone = poller.waitBeyond('a.test', 0n, { timeoutMs: 5_000, signal: controller.signal });
    const stays = poller.waitBeyond('a.test', 0n, { timeoutMs: 5_000, signal: never });
    controller.abort();
    expect(await gone).toBe('aborted');
    expect(poller.waiting).toBe(1);
    poller.close();
    expect(await stays).toBe('closed');
    expect(await poller.waitBeyond('a.test', 0n, { timeoutMs: 5_000, signal: never })).toBe('closed');
  });

  test('outlives a store that is away', async () => {
    const heads = new Heads();
    const poller = new PositionPoller(heads.reader, 5);
    heads.failing = true;
    const wait = poller.waitBeyond('a.test', 0n, { timeoutMs: 5_000, signal: never });
    await sleep(30);
    // It comes back less often.
    expect(heads.asked).toHaveLength(1);
    heads.failing = false;
    heads.seqs.set('a.test', 1n);
    expect(await wait).toBe('moved');
  });
});

describe('following a log', () => {
  interface Message {
    readonly position: bigint;
    readonly text?: string;
  }

  /** A log in memory whose watcher gets what a test appends. */
  function world(options: Partial<FollowOptions<Message>> = {}) {
    const log: string[] = [];
    const heads = new Heads();
    const controller = new AbortController();
    let pagesRead = 0;
    const poller = new PositionPoller(heads.reader, 5);
    const follow = followLog<Message>({
      context: { signal: controller.signal, domainId: 'a.test' } as CallContext,
      positions: poller,
      afterPosition: 0n,
      recheck: async () => {},
      heartbeat: (position) => ({ position }),
      readPage: async (after) => {
        pagesRead += 1;
        const rows = log.slice(Number(after), Number(after) + 2);
        return {
          messages: rows.map((text, i) => ({ position: after + BigInt(i) + 1n, text })),
          position: after + BigInt(rows.length),
          more: rows.length === 2,
        };
      },
      ...options,
    });
    const append = (text: string) => {
      log.push(text);
      heads.seqs.set('a.test', BigInt(log.length));
    };
    return { follow, append, controller, poller, heads, pagesRead: () => pagesRead };
  }

  test('gives heartbeats at its position while nothing comes', async () => {
    const { follow, append, controller } = world({ heartbeatMs: 30 });
    append('x');
    const seen = [await follow.next(), await follow.next(), await follow.next(), await follow.next()];
    expect(seen.map(({ value }) => value)).toEqual([
      { position: 0n },
      { position: 1n, text: 'x' },
      { position: 1n },
      { position: 1n },
    ]);
    controller.abort();
    expect((await follow.next()).done).toBe(true);
  });

  test.each([
    ['grows all the time', false],
    ['is long', true],
  ])('gives heartbeats where the log %s and nothing of it is for the watcher', async (_, more) => {
    let at = 0n;
    const heads = { query: async () => [{ domainId: 'a.test', seq: 2n ** 40n }] as never };
    const { follow, controller } = world({
      positions: new PositionPoller(heads, 5),
      heartbeatMs: 40,
      readPage: async () => {
        await sleep(5);
        at += 10n;
        return { messages: [], position: at, more };
      },
    });
    await follow.next();
    const first = (await follow.next()).value;
    const second = (await follow.next()).value;
    expect(first?.position).toBeGreaterThan(0n);
    expect(second?.position).toBeGreaterThan(first?.position ?? 0n);
    controller.abort();
  });

  test('reads a page only when the one before was taken: a slow reader holds two messages, not the log', async () => {
    const { follow, append, controller, pagesRead } = world();
    for (let i = 0; i < 100; i += 1) append(String(i));
    await follow.next();
    await follow.next();
    await sleep(50);
    expect(pagesRead()).toBe(1);
    await follow.next();
    await follow.next();
    expect(pagesRead()).toBe(2);
    controller.abort();
  });

  test('goes through what is there without waiting in between', async () => {
    const { follow, append, controller, heads } = world();
    for (let i = 0; i < 101; i += 1) append(String(i));
    for (let i = 0; i <= 101; i += 1)
      expect((await follow.next()).value).toMatchObject({ position: BigInt(i) });
    expect(heads.asked).toEqual([]);
    controller.abort();
  });

  test('ends where its caller has lost the right to it', async () => {
    let allowed = true;
    const recheck = async () => {
      if (!allowed) throw new Refused(refusal('NOT_VISIBLE', ''));
    };
    const { follow } = world({ recheck, recheckMs: 20, heartbeatMs: 10_000 });
    await follow.next();
    const waiting = follow.next();
    allowed = false;
    await expect(waiting).rejects.toMatchObject({ refusal: { reason: 'NOT_VISIBLE' } });
  });

  test('tells where it is every 10 s, and looks every 5 s whether its caller may have it still', async () => {
    for (const [options, everyMs] of [
      [{ recheckMs: 3_600_000 }, 10_000],
      [{ heartbeatMs: 3_600_000 }, 5_000],
    ] as const) {
      const waits: number[] = [];
      const positions = {
        waitBeyond: async (...[, , { timeoutMs }]: Parameters<PositionPoller['waitBeyond']>) => {
          waits.push(timeoutMs);
          return 'closed';
        },
      };
      const { follow } = world({ ...options, positions: positions as never });
      await follow.next();
      await expect(follow.next()).rejects.toMatchObject({ refusal: { reason: 'DRAINING' } });
      expect(waits).toHaveLength(1);
      // Less where this machine took its time until here.
      expect(waits[0]).toBeLessThanOrEqual(everyMs);
    }
  });

  test('ends when the service drains, and says to come back', async () => {
    const { follow, poller } = world();
    await follow.next();
    const waiting = follow.next();
    await sleep(20);
    poller.close();
    await expect(waiting).rejects.toMatchObject({ refusal: { reason: 'DRAINING' } });
  });
});
