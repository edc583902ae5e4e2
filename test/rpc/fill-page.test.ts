import { describe, expect, test } from 'vitest';
import { PrincipalSchema } from '../../src/gen/surety/authority/v1/records_pb.js';
import { fillPage, MAX_PAGE_BYTES, PageBudget } from '../../src/rpc/fill-page.js';

/** Rows by their number, each a principal whose id has so many octets. */
function source(count: number, octets: (i: number) => number = () => 1, chunk?: number) {
  const reads: number[] = [];
  return {
    reads,
    schema: PrincipalSchema,
    read: async (after: number | undefined, limit: number) => {
      reads.push(limit);
      const begin = after === undefined ? 0 : after + 1;
      return Array.from({ length: Math.max(0, Math.min(limit, count - begin)) }, (_, i) => begin + i);
    },
    wire: (rows: readonly number[]) => rows.map((i) => ({ principalId: 'p'.repeat(octets(i)) })),
    ...(chunk === undefined ? {} : { chunk }),
  };
}

describe('a page', () => {
  test.each([
    [0, 5, 0, undefined],
    [4, 5, 4, undefined],
    [5, 5, 5, undefined],
    [6, 5, 5, 4],
    [250, 230, 230, 229],
    [230, 230, 230, undefined],
  ])('of %d records, at most %d', async (count, size, shown, next) => {
    const page = await fillPage(size, source(count));
    expect(page.messages).toHaveLength(shown);
    expect(page.next).toBe(next);
  });

  test('is read piece by piece, one row more each time', async () => {
    const rows = source(1000);
    await fillPage(230, rows);
    expect(rows.reads).toEqual([101, 101, 31]);
    const few = source(1000, () => 1, 10);
    await fillPage(25, few);
    expect(few.reads).toEqual([11, 11, 6]);
  });

  test('ends before it is too large, and leads on from there', async () => {
    const half = MAX_PAGE_BYTES / 2;
    const rows = source(5, () => half - 10);
    const first = await fillPage(1000, rows);
    expect(first).toMatchObject({ next: 1 });
    expect(first.messages).toHaveLength(2);
    expect(
      (
        await fillPage(
          1000,
          source(2, () => half - 10),
        )
      ).next,
    ).toBeUndefined();
  });

  test('holds one record, however large', async () => {
    const page = await fillPage(
      1000,
      source(3, (i) => (i === 0 ? MAX_PAGE_BYTES * 2 : 1)),
    );
    expect(page.messages).toHaveLength(1);
    expect(page.next).toBe(0);
  });
});

test('a budget takes up to its limit', () => {
  const budget = new PageBudget(10);
  expect([budget.takes(6), budget.takes(5), budget.takes(4), budget.takes(1)]).toEqual([
    true,
    false,
    true,
    false,
  ]);
});
