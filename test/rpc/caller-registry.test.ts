import { beforeEach, describe, expect, it } from 'vitest';
import type { AcceptedPeer } from '../../src/identity/connection-peer.js';
import type { OperatorRow } from '../../src/ledger/authority/records.js';
import type { CallerKind } from '../../src/ledger/types.js';
import { CallerRegistry, REMEMBER_MS, REMEMBER_UNKNOWN_MS } from '../../src/rpc/caller-registry.js';
import { StoreClock } from '../../src/rpc/store-clock.js';
import { CALLERS, FakeRegistry, SERVICE_DOMAIN } from './harness.js';

let reader: FakeRegistry;
let nowMs: number;
let registry: CallerRegistry;
const storeTimes: bigint[] = [];

beforeEach(() => {
  reader = new FakeRegistry();
  nowMs = 1_000;
  storeTimes.length = 0;
  registry = new CallerRegistry({
    reader,
    serviceDomainId: SERVICE_DOMAIN,
    monotonicMs: () => nowMs,
    onStoreTime: (now) => void storeTimes.push(now),
  });
});

const peer = (spiffeId: string): AcceptedPeer => ({
  connectionId: 'c1',
  openedAtMicros: 0n,
  closed: new AbortController().signal,
  spiffeId,
  trustDomain: new URL(spiffeId).host,
  leafSha256: Buffer.alloc(32),
  publicKeySha256: Buffer.alloc(32),
  publicKeyThumbprint: 'key',
  notAfterMicros: 0n,
});

describe('what a caller is', () => {
  it.each(Object.entries(CALLERS))('is what the registry says: %s', async (kind, spiffeId) => {
    expect(await registry.kindsOf(peer(spiffeId), new URL(spiffeId).host)).toEqual([kind]);
  });

  it('is nothing in another domain, but for platform operators', async () => {
    expect(await registry.kindsOf(peer(CALLERS.harness), 'globex.test')).toEqual([]);
    expect(await registry.kindsOf(peer(CALLERS.operator), 'globex.test')).toEqual(['operator']);
    expect(await registry.kindsOf(peer(CALLERS.auditor), 'globex.test')).toEqual(['auditor']);
    expect(await registry.kindsOf(peer(CALLERS.operator), 'absent.test')).toEqual(['operator']);
    expect(await registry.kindsOf(peer(CALLERS.harness), 'absent.test')).toEqual([]);
  });

  it('is nothing when the operator is suspended, revoked or of another scope', async () => {
    const row = reader.operators.get(CALLERS.operator);
    if (row === undefined) throw new Error('no operator');
    for (const status of ['suspended', 'revoked'] as const) {
      reader.operators.set(CALLERS.operator, { ...row, status });
      for (const domain of [SERVICE_DOMAIN, 'acme.test', 'absent.test']) {
        expect(await registry.kindsOf(peer(CALLERS.operator), domain)).toEqual([]);
      }
    }
    reader.operators.set(CALLERS.operator, { ...row, scopeDomainId: 'acme.test' });
    const scoped = peer(CALLERS.operator);
    expect(await registry.kindsOf(scoped, 'acme.test')).toEqual(['operator']);
    expect(await registry.kindsOf(scoped, 'globex.test')).toEqual([]);
    expect(await registry.kindsOf(scoped, SERVICE_DOMAIN)).toEqual([]);
  });

  it('is nothing when the owner is not active', async () => {
    const row = reader.owners.get(CALLERS.owner);
    if (row !== undefined) reader.owners.set(CALLERS.owner, { ...row, status: 'suspended' });
    expect(await registry.kindsOf(peer(CALLERS.owner), 'acme.test')).toEqual([]);
  });
});

describe('a platform operator, whatever the rows of a domain say of it', () => {
  const { operator: root, auditor: ann } = CALLERS;
  const kindsHere = (spiffeId: string) => registry.kindsOf(peer(spiffeId), 'acme.test');

  it.each([
    ['an auditor', ['AUDITOR'], 'active'],
    ['suspended', ['ADMIN'], 'suspended'],
    ['revoked', ['ADMIN'], 'revoked'],
  ] as const)('stays one where it is entered as %s', async (_, roles, status) => {
    enter(root, roles[0] === 'AUDITOR' ? 'auditor' : 'operator', { roles, status });
    expect((await kindsHere(root))[0]).toBe('operator');
    const row = reader.operators.get(root);
    if (row) reader.operators.set(root, { ...row, status: 'revoked' });
    expect(await kindsHere(root)).toEqual(status === 'active' ? ['auditor'] : []);
  });

  it('is what it is entered as besides, the weaker of the two last', async () => {
    enter(ann, 'operator', {});
    expect(await kindsHere(ann)).toEqual(['operator', 'auditor']);
    reader.kinds.get('acme.test')?.set(root, 'owner');
    expect(await kindsHere(root)).toEqual(['operator']);
    const olga = reader.owners.get(CALLERS.owner);
    if (olga) reader.owners.set(root, { ...olga, spiffeId: root });
    expect(await kindsHere(root)).toEqual(['operator', 'owner']);
    reader.kinds.get('acme.test')?.set(root, 'executor');
    expect(await kindsHere(root)).toEqual(['operator']);
  });

  function enter(spiffeId: string, kind: CallerKind, over: Partial<OperatorRow>): void {
    const row = reader.operators.get(root);
    if (row === undefined) throw new Error('no operator');
    reader.kinds.get('acme.test')?.set(spiffeId, kind);
    reader.operatorsOfAcme.set(spiffeId, { ...row, spiffeId, ...over });
  }
});

describe('the memory', () => {
  it('is of one connection, and lasts five seconds', async () => {
    const one = peer(CALLERS.executor);
    await registry.kindsOf(one, 'acme.test');
    reader.kinds.get('acme.test')?.delete(CALLERS.executor);
    nowMs += REMEMBER_MS - 1;
    expect(await registry.kindsOf(one, 'acme.test')).toEqual(['executor']);
    expect(reader.read.length).toBe(1);
    expect(await registry.kindsOf(peer(CALLERS.executor), 'acme.test')).toEqual([]);
    nowMs += 1;
    expect(await registry.kindsOf(one, 'acme.test')).toEqual([]);
  });

  it('of who is unknown is short', async () => {
    const one = peer('spiffe://acme.test/new');
    expect(await registry.kindsOf(one, 'acme.test')).toEqual([]);
    reader.kinds.get('acme.test')?.set('spiffe://acme.test/new', 'worker');
    expect(await registry.kindsOf(one, 'acme.test')).toEqual([]);
    nowMs += REMEMBER_UNKNOWN_MS;
    expect(await registry.kindsOf(one, 'acme.test')).toEqual(['worker']);
  });

  it('serves calls that come together with one reading', async () => {
    const one = peer(CALLERS.executor);
    const kinds = await Promise.all(Array.from({ length: 50 }, () => registry.kindsOf(one, 'acme.test')));
    expect(new Set(kinds.flat())).toEqual(new Set(['executor']));
    expect(reader.read.length).toBe(1);
    expect(storeTimes).toEqual([reader.now]);
  });

  it('has no failures in it', async () => {
    const one = peer(CALLERS.executor);
    reader.failure = new Error('away');
    await expect(registry.kindsOf(one, 'acme.test')).rejects.toThrow('away');
    reader.failure = undefined;
    expect(await registry.kindsOf(one, 'acme.test')).toEqual(['executor']);
  });

  it('is bounded, however many domains a caller names', async () => {
    const one = peer(CALLERS.operator);
    await registry.kindsOf(one, 'acme.test');
    for (let index = 0; index < 16; index += 1) await registry.kindsOf(one, `d${index}.test`);
    const before = reader.read.length;
    await registry.kindsOf(one, 'acme.test');
    expect(reader.read.length).toBe(before + 1);
  });
});

describe('the clock of the store between readings', () => {
  it('goes on with the monotonic clock, takes later readings, and never goes back', () => {
    let ms = 500;
    const clock = new StoreClock(1_000_000n, () => ms);
    expect(clock.now()).toBe(1_000_000n);
    ms += 1.5;
    expect(clock.now()).toBe(1_001_500n);
    clock.observe(900_000n);
    expect(clock.now()).toBe(1_001_500n);
    clock.observe(5_000_000n);
    ms += 1;
    expect(clock.now()).toBe(5_001_000n);
  });
});
