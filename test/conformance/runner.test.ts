import { describe, expect, test } from 'vitest';
import type { Case, CaseWorld } from '../../conformance/case.js';
import { expectRefused, expectSame, Unmet } from '../../conformance/expect.js';
import { runCases } from '../../conformance/runner.js';
import { resultDocument, resultTable } from '../../conformance/table.js';
import { SuretyError } from '../../src/cli/client/surety-error.js';

const world: CaseWorld = { prepare: async () => {}, close: () => {} };

function aCase(id: string, run: Case<CaseWorld>['run'], alone = false): Case<CaseWorld> {
  return { id, rule: 'I0', title: `${id} holds`, run, ...(alone ? { alone } : {}) };
}

const refused = (reason: string, code: string) =>
  Promise.reject(new SuretyError(code, reason, 'No.', {}, [], undefined));

describe('the runner of conformance cases', () => {
  test('answers in the order of the list, with one line of why for each that failed', async () => {
    const results = await runCases(world, [
      aCase('last', async () => {}, true),
      aCase('holds', async () => {}),
      aCase('fails', async () => expectSame('state', 1, 2)),
      aCase('breaks', async () => {
        throw new TypeError('two\nlines');
      }),
    ]);
    expect(results.map(({ id, passed, why }) => [id, passed, why])).toEqual([
      ['last', true, ''],
      ['holds', true, ''],
      ['fails', false, 'state: found 1, must be 2'],
      ['breaks', false, 'two lines'],
    ]);
    expect(resultDocument('a:1', results)).toMatchObject({ target: 'a:1', passed: 2, failed: 2 });
    expect(resultTable(results).split('\n').slice(2, 4)).toEqual([
      'holds   I0    passed',
      'fails   I0    FAILED  state: found 1, must be 2',
    ]);
  });

  test('runs a case that is alone while no other runs', async () => {
    let running = 0;
    const busy = async (): Promise<void> => {
      running += 1;
      await new Promise((resolve) => setImmediate(resolve));
      running -= 1;
    };
    const alone = async (): Promise<void> => expectSame('others that run', running, 0);
    const cases = Array.from({ length: 40 }, (_, i) =>
      aCase(`${i}`, i % 4 === 0 ? alone : busy, i % 4 === 0),
    );
    const results = await runCases(world, cases);
    expect(results.filter(({ passed }) => !passed)).toEqual([]);
  });
});

describe('what a case expects of a refusal', () => {
  test('is one of its reasons, with the code that belongs to it', async () => {
    const error = await expectRefused('the call', refused('LEASE_LOST', 'ABORTED'), 'LEASE_LOST');
    expect(error.reason).toBe('LEASE_LOST');
    const wrong: readonly (readonly [Promise<unknown>, string])[] = [
      [Promise.resolve({}), 'the call: was done, must be refused with LEASE_LOST or NOT_VISIBLE'],
      [
        refused('FROZEN', 'FAILED_PRECONDITION'),
        'the call: refused with FROZEN, must be LEASE_LOST or NOT_VISIBLE',
      ],
      [
        refused('', 'UNKNOWN'),
        'the call: refused with UNKNOWN without a reason, must be LEASE_LOST or NOT_VISIBLE',
      ],
      [
        refused('LEASE_LOST', 'INTERNAL'),
        'the call: the code of LEASE_LOST: found "INTERNAL", must be "ABORTED"',
      ],
    ];
    for (const [call, why] of wrong) {
      await expect(expectRefused('the call', call, 'LEASE_LOST', 'NOT_VISIBLE')).rejects.toThrow(
        new Unmet(why),
      );
    }
  });
});
