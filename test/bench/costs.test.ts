import { expect, test } from 'vitest';
import { Costs } from '../../bench/measure/costs.js';

test('processor time is counted per call and tier over all rounds, and anew once it was taken', async () => {
  let used = 100;
  const costs = new Costs(() => ({ store: () => used, gone: () => undefined }));
  const round = (calls: number, ms: number) => () => {
    used += ms;
    return Promise.resolve({ calls, ownMs: 2, tierMs: { server: 8 } });
  };
  await costs.during('Reserve', ['store', 'gone'], 'client', round(10, 5));
  await costs.during('Reserve', ['store', 'gone'], 'client', round(30, 7));
  expect(costs.take()).toEqual({
    'Reserve, store: µs of processor': 300,
    'Reserve, client: µs of processor': 100,
    'Reserve, server: µs of processor': 400,
  });
  expect(costs.take()).toEqual({});
});
