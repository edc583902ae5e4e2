import { expect, it } from 'vitest';
import { newId } from '../../src/rpc/new-id.js';

it('makes ids of a prefix and 26 letters of lower-case base32, all different', () => {
  const ids = Array.from({ length: 20_000 }, () => newId('eff'));
  expect(ids.filter((id) => !/^eff_[a-z2-7]{26}$/.test(id))).toEqual([]);
  expect(new Set(ids).size).toBe(ids.length);
});

it('draws seventeen letters: each of these places takes every letter, also at one moment', () => {
  const places = Array.from({ length: 26 }, () => new Set<string>());
  for (let count = 0; count < 5_000; count += 1) {
    newId('x', 1_700_000_000_000)
      .slice(2)
      .split('')
      .forEach((letter, index) => places[index]?.add(letter));
  }
  expect(places.map(({ size }) => size)).toEqual([
    ...Array.from({ length: 9 }, () => 1),
    ...Array.from({ length: 17 }, () => 32),
  ]);
});

it('begins with the time: later ids sort behind earlier ones, as the store compares them', () => {
  const ids = [0, 31, 32, 1_023, 1_700_000_000_000, 1_700_000_000_001, 1_700_000_065_536, 2 ** 45 - 1].map(
    (ms) => newId('eff', ms),
  );
  expect([...ids].sort()).toEqual(ids);
  expect(ids[0]?.slice(0, 13)).toBe('eff_222222222');
});
