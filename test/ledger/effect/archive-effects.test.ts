import { beforeEach, describe, expect, test } from 'vitest';
import type { CommandBase, Decision, Outcome } from '../../../src/ledger/decision.js';
import {
  type ArchiveEffectsCommand,
  archiveEffects,
  MIN_RETENTION,
} from '../../../src/ledger/effect/archive-effects.js';
import { expireEffect } from '../../../src/ledger/effect/expire-effect.js';
import type { EffectRow } from '../../../src/ledger/effect/records.js';
import {
  type ReserveEffectCommand,
  type ReserveEffectReply,
  reserveEffect,
} from '../../../src/ledger/effect/reserve-effect.js';
import { effectRecordDigest, tupleDigest } from '../../../src/ledger/effect/tombstone.js';
import { sha256 } from '../../../src/ledger/encoding.js';
import { runDecision } from '../../../src/ledger/run-decision.js';
import { DOMAIN, HARNESSES, Ids, seedCast } from '../../simulation/cast.js';
import { MemoryStore } from '../../simulation/memory-store.js';

// effects.md, Archival: what may leave, and what its tombstone answers. On a store that refuses what Postgres refuses.

const DAY = 86_400_000_000n;
let store: MemoryStore;
let ids: Ids;

beforeEach(() => {
  store = new MemoryStore(DOMAIN);
  ids = new Ids();
  seedCast(store, ids);
});

function run<Command extends CommandBase, Reply>(
  decision: Decision<Command, Reply>,
  command: Command,
): Outcome<Reply> {
  const set = store.gather([decision.reads(command)]);
  const outcome = runDecision(set, decision, command);
  store.commit(set.changes());
  return outcome;
}

function request(overrides: Partial<ReserveEffectCommand> = {}): ReserveEffectCommand {
  const grant = store.all('grants').find(({ harnessId }) => harnessId === HARNESSES[0].harnessId);
  return {
    domainId: DOMAIN,
    commandId: ids.next('cmd'),
    caller: HARNESSES[0].caller,
    eventId: 'event-0',
    grantId: grant?.grantId ?? '',
    action: 'refund',
    resource: grant?.resources[0] ?? '',
    inputSource: 'crm',
    outputSink: grant?.outputSinks[0] ?? '',
    dataClass: 2,
    requestDigest: sha256('a request'),
    effectKey: '',
    repeatable: false,
    reservationTtl: null,
    executionDeadline: null,
    effectId: ids.next('eff'),
    decisionId: ids.next('dec'),
    ...overrides,
  };
}

function reserve(command: ReserveEffectCommand): ReserveEffectReply {
  const outcome = run(reserveEffect, command);
  if (!outcome.ok) throw new Error(JSON.stringify(outcome.refusal));
  return outcome.reply;
}

/** An effect that ended without being started. */
function expired(overrides: Partial<ReserveEffectCommand> = {}): {
  command: ReserveEffectCommand;
  effect: EffectRow;
} {
  const command = request({ reservationTtl: 1_000_000n, ...overrides });
  const { effect } = reserve(command);
  store.now += 2_000_000n;
  run(expireEffect, { domainId: DOMAIN, commandId: ids.next('sweep'), effectId: effect.effectId });
  const row = store.get('effects', effect.effectId);
  if (row?.state !== 'CANCELLED') throw new Error('not expired');
  return { command, effect: row };
}

function archiveCommand(
  effects: readonly EffectRow[],
  overrides: Partial<ArchiveEffectsCommand> = {},
): ArchiveEffectsCommand {
  const last = store.all('archives').at(-1);
  return {
    domainId: DOMAIN,
    commandId: ids.next('cmd'),
    archive: {
      archiveNumber: (last?.archiveNumber ?? 0n) + 1n,
      archiveId: ids.next('archive'),
      exportDigest: sha256('an export'),
      logAfterSeq: last?.logLastSeq ?? 0n,
      logLastSeq: store.head.seq,
      logChainHash: store.head.chainHash,
    },
    retention: DAY,
    effects: effects.map((effect) => ({
      effectId: effect.effectId,
      recordDigest: effectRecordDigest(effect, store.find('transitionsOfEffect', effect.effectId)),
    })),
    ...overrides,
  };
}

function archived(effects: readonly EffectRow[], overrides: Partial<ArchiveEffectsCommand> = {}) {
  const outcome = run(archiveEffects, archiveCommand(effects, overrides));
  if (!outcome.ok) throw new Error(JSON.stringify(outcome.refusal));
  return outcome.reply;
}

const whyLeft = (effect: EffectRow, overrides: Partial<ArchiveEffectsCommand> = {}) =>
  archived([effect], overrides).left.map(({ why }) => why);

describe('what may leave', () => {
  test('is settled, long enough ago, and exactly what was exported', () => {
    const { effect } = expired();
    const head = store.head;
    expect(whyLeft(effect)).toEqual(['recent']);
    // No shorter retention than the least is taken.
    expect(whyLeft(effect, { retention: 0n })).toEqual(['recent']);
    expect(store.head).toBe(head);
    store.now += DAY - 1n;
    expect(whyLeft(effect)).toEqual(['recent']);
    store.now += 1n;
    const other = { effects: [{ effectId: effect.effectId, recordDigest: sha256('other') }] };
    expect(whyLeft(effect, other)).toEqual(['changed']);
    expect(store.all('archives')).toEqual([]);
    expect(archived([effect])).toEqual({ archived: [effect.effectId], left: [] });
    expect(store.get('effects', effect.effectId)).toBeUndefined();
    expect(whyLeft(effect)).toEqual(['absent']);
  });

  test('is not what lives, and not what is contested', () => {
    const live = reserve(request()).effect as EffectRow;
    const { effect } = expired({ eventId: 'event-1' });
    store.put('effects', { ...effect, disputed: true });
    store.now += 2n * DAY;
    expect(whyLeft(live)).toEqual(['live']);
    expect(whyLeft({ ...effect, disputed: true })).toEqual(['disputed']);
  });

  test('is not what contradicts the log; the others go', () => {
    const [sound, bad] = [expired().effect, expired({ eventId: 'event-1' }).effect];
    store.put('effects', { ...bad, state: 'FAILED' });
    store.now += 2n * DAY;
    expect(archived([bad, sound])).toEqual({
      archived: [sound.effectId],
      left: [{ effectId: bad.effectId, why: 'corrupt' }],
    });
  });

  test('goes with one record of the archive, and one entry of the log for each batch', () => {
    const [one, two] = [expired().effect, expired({ eventId: 'event-1' }).effect];
    store.now += 2n * DAY;
    const command = archiveCommand([one]);
    const { seq } = store.head;
    run(archiveEffects, command);
    const again = archiveCommand([two], { archive: command.archive });
    expect(run(archiveEffects, again)).toMatchObject({ ok: true, reply: { archived: [two.effectId] } });
    expect(store.head.seq).toBe(seq + 2n);
    expect(store.all('archives')).toMatchObject([
      { archiveNumber: 1n, archiveId: command.archive.archiveId },
    ]);
    const [tombstone] = store.all('effect_tombstones');
    expect(tombstone).toMatchObject({ archiveNumber: 1n, holdsKey: false, state: 'CANCELLED' });
  });

  test('goes in the turn of the archives: their parts of the log neither overlap nor leave a gap', () => {
    const [one, two] = [expired().effect, expired({ eventId: 'event-1' }).effect];
    store.now += 2n * DAY;
    archived([one]);
    const next = archiveCommand([two]).archive;
    for (const wrong of [
      { ...next, archiveNumber: 1n },
      { ...next, archiveNumber: 3n },
      { ...next, logAfterSeq: next.logAfterSeq + 1n },
      { ...next, logAfterSeq: 0n },
    ]) {
      expect(run(archiveEffects, archiveCommand([two], { archive: wrong }))).toMatchObject({
        ok: false,
        refusal: { reason: 'REVISION_STALE' },
      });
    }
    expect(archived([two]).archived).toHaveLength(1);
  });

  test('has a least retention that no proof outlives', () => {
    expect(MIN_RETENTION).toBeGreaterThan(360_000_000n);
  });
});

describe('a tombstone', () => {
  let command: ReserveEffectCommand;
  let effect: EffectRow;
  beforeEach(() => {
    ({ command, effect } = expired({ effectKey: 'a key' }));
    store.now += 2n * DAY;
    archived([effect]);
  });

  const again = (overrides: Partial<ReserveEffectCommand> = {}) =>
    run(reserveEffect, { ...command, effectId: ids.next('eff'), decisionId: ids.next('dec'), ...overrides });

  test('answers an exact repeat, and nothing is written', () => {
    const { head } = store;
    expect(again()).toMatchObject({
      ok: true,
      reply: {
        duplicate: true,
        currentState: 'CANCELLED',
        effect: { effectId: effect.effectId, fence: effect.fence, reserveSeq: effect.reserveSeq },
      },
    });
    expect(store.head).toBe(head);
  });

  test.each<[string, Partial<ReserveEffectCommand>, object]>([
    ['grant', { grantId: 'another' }, { field: 'grant_id' }],
    ['effect key', { effectKey: 'another' }, { field: 'effect_key' }],
    ['action', { action: 'another' }, {}],
    ['resource', { resource: 'another' }, {}],
    ['input source', { inputSource: 'another' }, {}],
    ['data class', { dataClass: 3 }, {}],
    ['repeatable', { repeatable: true }, {}],
    ['ttl', { reservationTtl: null }, {}],
    ['deadline', { executionDeadline: 1n }, {}],
  ])('finds another %s in conflict', (_, overrides, metadata) => {
    const answer = again(overrides);
    expect(answer).toMatchObject({ ok: false, refusal: { reason: 'EFFECT_IDENTITY_CONFLICT' } });
    expect((answer as { refusal: { metadata: object } }).refusal.metadata).toEqual(metadata);
  });

  test('is not seen by a harness that has no part in the event', () => {
    const event = store.get('events', command.eventId);
    if (!event) throw new Error('no event');
    store.put('events', { ...event, originHarnessId: 'nobody', recipientHarnessIds: [] });
    expect(again({ caller: HARNESSES[1].caller })).toMatchObject({
      ok: false,
      refusal: { reason: 'NOT_VISIBLE' },
    });
    store.put('events', { ...event, recipientHarnessIds: [HARNESSES[1].harnessId] });
    const conflict = again({ caller: HARNESSES[1].caller });
    expect(conflict).toMatchObject({
      refusal: { reason: 'EFFECT_IDENTITY_CONFLICT', metadata: { field: 'actor' } },
    });
    // Whose it is not does not learn its id.
    expect(JSON.stringify(conflict)).not.toContain(store.all('effect_tombstones')[0]?.effectId);
  });

  test('that was changed is noticed', () => {
    const [tombstone] = store.all('effect_tombstones');
    if (!tombstone) throw new Error('no tombstone');
    for (const change of [{ state: 'SUCCEEDED' as const }, { fence: 1n }, { step: 1n }, { lastSeq: 1n }]) {
      store.put('effect_tombstones', { ...tombstone, ...change });
      expect(again()).toMatchObject({ ok: false, refusal: { reason: 'DATA_CORRUPT' } });
    }
  });

  test('of what was not done leaves the key free', () => {
    const other = request({ eventId: 'event-1', effectKey: 'a key' });
    const grant = store.get('grants', other.grantId);
    if (!grant) throw new Error('no grant');
    store.put('grants', { ...grant, expiresAt: store.now + DAY });
    expect(reserve(other).duplicate).toBe(false);
  });
});

test('digests: every field counts, and so does which is absent', () => {
  const { effect } = expired();
  const tuple = tupleDigest(effect).toString('hex');
  const record = effectRecordDigest(effect, []).toString('hex');
  expect(tupleDigest({ ...effect, reservationTtl: null }).toString('hex')).not.toBe(tuple);
  expect(
    tupleDigest({ ...effect, reservationTtl: null, executionDeadline: 1_000_000n }).toString('hex'),
  ).not.toBe(tuple);
  for (const field of Object.keys(effect) as (keyof EffectRow)[]) {
    const changed = { ...effect, [field]: effect[field] === null ? 'x' : null };
    expect(effectRecordDigest(changed as never, []).toString('hex'), field).not.toBe(record);
  }
});
