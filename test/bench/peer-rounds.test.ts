import { expect, test } from 'vitest';
import type { Peer } from '../../bench/peers/peer.js';
import { PeerRounds } from '../../bench/peers/serve-peer.js';

/** A round long enough for each caller to run something. */
const ROUND = { kind: 'round', callers: 4, seconds: 0.005 } as const;

test('a round of a peer counts what its callers ran, each with a key of its own, and what its processes used', async () => {
  const keys: string[] = [];
  let used = 50;
  const rounds = new PeerRounds({
    async runOnce(key) {
      await Promise.resolve();
      keys.push(key);
      used += 2;
    },
    countDone: () => Promise.resolve(keys.length),
    processorMs: () => ({ server: used, gone: undefined }),
  });
  const first = await rounds.run(ROUND);
  expect(first.calls).toBe(keys.length);
  expect(first.calls).toBeGreaterThanOrEqual(ROUND.callers);
  expect(first.tierMs).toEqual({ server: 2 * first.calls });
  const second = await rounds.run(ROUND);
  expect(first.calls + second.calls).toBe(keys.length);
  expect(new Set(keys).size).toBe(keys.length);
});

test('a round of a peer that did not store what was counted, or failed, is none', async () => {
  const peer = (overrides: Partial<Peer>): PeerRounds =>
    new PeerRounds({ runOnce: () => Promise.resolve(), countDone: () => Promise.resolve(0), ...overrides });
  await expect(peer({}).run(ROUND)).rejects.toThrow(/counted \d+ that were done, and 0 are stored/);
  const failing = { runOnce: () => Promise.reject(new Error('no')) };
  await expect(peer(failing).run(ROUND)).rejects.toThrow('no');
});
