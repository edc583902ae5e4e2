import { expect, it } from 'vitest';
import { newId } from '../../src/rpc/new-id.js';

it('makes ids of a prefix and 128 bits of lower-case base32, all different', () => {
  const ids = Array.from({ length: 20_000 }, () => newId('eff'));
  expect(ids.filter((id) => !/^eff_[a-z2-7]{26}$/.test(id))).toEqual([]);
  expect(new Set(ids).size).toBe(ids.length);
});

it('uses every bit: each of the 26 places takes all the letters that it can', () => {
  const places = Array.from({ length: 26 }, () => new Set<string>());
  for (let count = 0; count < 5_000; count += 1) {
    newId('x')
      .slice(2)
      .split('')
      .forEach((letter, index) => places[index]?.add(letter));
  }
  // The last letter holds the three bits that are left of 128.
  expect(places.map(({ size }) => size)).toEqual([...Array.from({ length: 25 }, () => 32), 8]);
});
