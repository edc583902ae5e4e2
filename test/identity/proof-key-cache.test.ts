import { describe, expect, test } from 'vitest';
import { JwkInvalid } from '../../src/identity/jwk.js';
import { ProofKeyCache, ProofKeyCorrupt } from '../../src/identity/proof-key-cache.js';
import { createSigningKey } from '../../src/identity/sign.js';

const [a, b, c] = [createSigningKey().publicKey, createSigningKey().publicKey, createSigningKey().publicKey];
const UNKNOWN = 'A'.repeat(43);

/** A cache over a store that counts its reads, and a clock that stands until it is moved. */
function setUp(options: { maxKeys?: number; maxMisses?: number } = {}) {
  const stored = new Map<string, string>();
  const reads: string[] = [];
  let nowMs = 0;
  const cache = new ProofKeyCache(
    async (domainId, thumbprint) => {
      reads.push(`${domainId} ${thumbprint}`);
      return stored.get(`${domainId} ${thumbprint}`);
    },
    { ...options, missMs: 2000, now: () => nowMs },
  );
  const put = (domainId: string, key: { thumbprint: string; jwk: string }) =>
    stored.set(`${domainId} ${key.thumbprint}`, key.jwk);
  const wait = (ms: number) => {
    nowMs += ms;
  };
  return { cache, stored, reads, put, wait };
}

describe('a key that is there', () => {
  test('is read once and kept without expiry', async () => {
    const { cache, reads, put, wait } = setUp();
    put('acme.test', a);
    const first = await cache.find('acme.test', a.thumbprint);
    wait(1e12);
    const second = await cache.find('acme.test', a.thumbprint);
    expect(first?.equals(a.key)).toBe(true);
    expect(second).toBe(first);
    expect(reads).toHaveLength(1);
  });

  test('is looked for in its own domain only', async () => {
    const { cache, put } = setUp();
    put('acme.test', a);
    expect(await cache.find('acme.test', a.thumbprint)).toBeDefined();
    expect(await cache.find('globex.test', a.thumbprint)).toBeUndefined();
  });

  test('is read once by any number of concurrent callers', async () => {
    const { cache, reads, put } = setUp();
    put('acme.test', a);
    const found = await Promise.all(Array.from({ length: 50 }, () => cache.find('acme.test', a.thumbprint)));
    expect(new Set(found).size).toBe(1);
    expect(reads).toHaveLength(1);
  });

  test('goes when it is the least recently used of too many', async () => {
    const { cache, reads, put } = setUp({ maxKeys: 2 });
    for (const key of [a, b, c]) put('acme.test', key);
    await cache.find('acme.test', a.thumbprint);
    await cache.find('acme.test', b.thumbprint);
    await cache.find('acme.test', a.thumbprint);
    await cache.find('acme.test', c.thumbprint);
    reads.length = 0;
    await cache.find('acme.test', a.thumbprint);
    expect(reads).toEqual([]);
    await cache.find('acme.test', b.thumbprint);
    expect(reads).toEqual([`acme.test ${b.thumbprint}`]);
  });

  test('is refused where it is not the key that its thumbprint names', async () => {
    const { cache, stored } = setUp();
    stored.set(`acme.test ${a.thumbprint}`, b.jwk);
    await expect(cache.find('acme.test', a.thumbprint)).rejects.toThrow(ProofKeyCorrupt);
    stored.set(`acme.test ${a.thumbprint}`, 'nonsense');
    await expect(cache.find('acme.test', a.thumbprint)).rejects.toThrow(JwkInvalid);
  });
});

describe('a key that is missing', () => {
  test('is asked for once in two seconds', async () => {
    const { cache, reads, wait } = setUp();
    expect(await cache.find('acme.test', UNKNOWN)).toBeUndefined();
    wait(1999);
    expect(await cache.find('acme.test', UNKNOWN)).toBeUndefined();
    expect(reads).toHaveLength(1);
    wait(1);
    expect(await cache.find('acme.test', UNKNOWN)).toBeUndefined();
    expect(reads).toHaveLength(2);
  });

  test('is found after two seconds once it is stored', async () => {
    const { cache, put, wait } = setUp();
    expect(await cache.find('acme.test', a.thumbprint)).toBeUndefined();
    put('acme.test', a);
    expect(await cache.find('acme.test', a.thumbprint)).toBeUndefined();
    wait(2000);
    expect(await cache.find('acme.test', a.thumbprint)).toBeDefined();
  });

  test('is found at once by whoever stored it and says so', async () => {
    const { cache, put } = setUp();
    expect(await cache.find('acme.test', a.thumbprint)).toBeUndefined();
    put('acme.test', a);
    cache.forgetMiss('acme.test', a.thumbprint);
    expect(await cache.find('acme.test', a.thumbprint)).toBeDefined();
  });

  test('is not remembered from a read that began before it was stored', async () => {
    let answer: (jwk: string | undefined) => void = () => {};
    let jwk: string | undefined;
    let slow = true;
    const cache = new ProofKeyCache(async () => (slow ? new Promise((resolve) => (answer = resolve)) : jwk), {
      now: () => 0,
    });
    const early = cache.find('acme.test', a.thumbprint);
    slow = false;
    jwk = a.jwk;
    cache.forgetMiss('acme.test', a.thumbprint);
    answer(undefined);
    expect(await early).toBeUndefined();
    expect(await cache.find('acme.test', a.thumbprint)).toBeDefined();
  });

  test('pushes out other misses, never keys', async () => {
    const { cache, reads, put } = setUp({ maxKeys: 1, maxMisses: 2 });
    put('acme.test', a);
    await cache.find('acme.test', a.thumbprint);
    for (let index = 0; index < 100; index += 1) {
      await cache.find('acme.test', String(index).padStart(43, 'A'));
    }
    reads.length = 0;
    await cache.find('acme.test', a.thumbprint);
    await cache.find('acme.test', String(99).padStart(43, 'A'));
    expect(reads).toEqual([]);
    await cache.find('acme.test', String(97).padStart(43, 'A'));
    expect(reads).toHaveLength(1);
  });
});

test('a read that fails is told to all who wait, and not remembered', async () => {
  let broken = true;
  let reads = 0;
  const cache = new ProofKeyCache(async () => {
    reads += 1;
    if (broken) throw new Error('store away');
    return a.jwk;
  });
  const results = await Promise.allSettled([1, 2, 3].map(() => cache.find('acme.test', a.thumbprint)));
  expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
  expect(reads).toBe(1);
  broken = false;
  expect(await cache.find('acme.test', a.thumbprint)).toBeDefined();
});
