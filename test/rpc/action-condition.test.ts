import { describe, expect, test } from 'vitest';
import { type ConditionVerdict, conditionFault, evaluateCondition } from '../../src/rpc/action/condition.js';

const ACTION = { source: 'support', sourceRef: 'ticket-7', type: 'mail.reply', toolName: 'mail.send' };
const PAYLOAD = {
  tool_name: 'mail.send',
  amount: 100,
  cents: 12.5,
  to: ['ada@example.test', 'bob@example.test'],
  nothing: null,
  urgent: true,
  nested: { deep: { er: 'x' } },
};
const EVIDENCE = { approval_id: 'approval-1', expires_at: 1_790_000_000_000_000, channel: 'mail' };

function verdict(expression: string, payload: unknown = PAYLOAD): Promise<ConditionVerdict> {
  return evaluateCondition(expression, {
    action: ACTION,
    payload: Buffer.from(typeof payload === 'string' ? payload : JSON.stringify(payload)),
    evidence: Buffer.from(JSON.stringify(EVIDENCE)),
  });
}

describe('what a condition may be (actions.md, Gate validator)', () => {
  test.each([
    'true',
    'payload.amount <= 100 && action.source == "support"',
    'payload.amount in [100, 200] || payload.urgent',
    'has(payload.urgent) ? payload.urgent : false',
    'payload["amount"] > 3.5',
    'type(payload.amount) == double',
    'size(payload.to) < 3 && payload.to[0].endsWith("@example.test")',
    'timestamp(string(payload.at)) < timestamp("2030-01-01T00:00:00Z")',
    'evidence.channel in {"mail": 1, "chat": 2}',
    `payload.amount == ${'1'.repeat(1_900)}.0`,
  ])('%s', async (expression) => {
    expect(await conditionFault(expression)).toBeUndefined();
  });

  test.each([
    ['', 'must be 1 to 2048 octets of UTF-8'],
    [`true || "${'é'.repeat(1_020)}" == ""`, 'must be 1 to 2048 octets of UTF-8'],
    ['payload.amount <', 'must be CEL; it is not from line 1, column 16 on'],
    ['payload.amount == 1\n  and true', 'must be CEL; it is not from line 2, column 3 on'],
    ['"never ends', 'must be CEL; it is not from line 1, column 1 on'],
    [`${'('.repeat(1_000)}true${')'.repeat(1_000)}`, 'must be CEL'],
    ['payload.?amount', 'must be CEL; it is not from line 1, column 8 on'],
    ['payload.to.exists(x, x == "a")', 'must not use a comprehension (all, exists, exists_one, filter, map)'],
    ['[1, 2].map(x, x + 1) == [2, 3]', 'must not use a comprehension (all, exists, exists_one, filter, map)'],
    [
      'true || payload.to.all(x, true)',
      'must not use a comprehension (all, exists, exists_one, filter, map)',
    ],
    ['payload.tool_name.matches("(a+)+$")', 'must not use matches'],
    ['matches(payload.tool_name, "a")', 'must not use matches'],
    ['amount <= 100', 'must name nothing but action, payload, evidence and their members'],
    ['payload.amount < now()', 'must call only functions that conditions have'],
    [
      'timestamp("2020-01-01T00:00:00Z").getHours("Asia/Tokyo") == 3',
      'must call only functions that conditions have',
    ],
    ['google.protobuf.Struct{} == payload', 'must not make messages'],
    [`${'['.repeat(80)}${']'.repeat(80)} == []`, 'must be nested at most 64 deep'],
    [`${Array(100).fill('1').join('+')} == 100`, 'must be nested at most 64 deep'],
  ])('not %s', async (expression, rule) => {
    expect(await conditionFault(expression)).toBe(rule);
  });
});

describe('what a condition says', () => {
  test.each<[string, ConditionVerdict]>([
    ['payload.amount <= 100', 'true'],
    ['payload.amount < 100', 'false'],
    ['payload.cents == 12.5 && payload.nothing == null', 'true'],
    ['payload.nested.deep.er == "x" && "bob@example.test" in payload.to', 'true'],
    [
      'action.type == "mail.reply" && action.source_ref == "ticket-7" && action.tool_name == payload.tool_name',
      'true',
    ],
    ['evidence.expires_at > 1790000000', 'true'],
    ['has(payload.missing)', 'false'],
    ['!has(payload.missing) || payload.missing', 'true'],
    // Whatever is not the boolean true refuses: what raises, and what is something else.
    ['payload.missing == 1', 'error'],
    ['payload.amount', 'error'],
    ['payload.urgent ? "yes" : "no"', 'error'],
    ['payload.amount / 0 == 1', 'error'],
    ['int(payload.amount) / 0 == 1', 'error'],
    ['payload.amount && true', 'error'],
    ['payload.to[7] == ""', 'error'],
    ['payload.constructor == null', 'error'],
    ['has(payload.__proto__)', 'false'],
    // What is stored and may not be is never asked.
    ['payload.tool_name.matches("mail")', 'error'],
    ['payload.amount <', 'error'],
  ])('%s: %s', async (expression, expected) => {
    expect(await verdict(expression)).toBe(expected);
  });

  test('bytes that are not I-JSON are an error, whatever the condition', async () => {
    expect(await verdict('true', '{"a":1,"a":2}')).toBe('error');
    expect(await verdict('true', '')).toBe('error');
  });

  test('a member of any name is only a member', async () => {
    const payload = '{"__proto__":{"amount":1},"constructor":2,"hasOwnProperty":3}';
    expect(await verdict('payload.__proto__.amount == 1 && payload.constructor == 2', payload)).toBe('true');
    expect(await verdict('has(payload.amount)', payload)).toBe('false');
  });
});

describe('what a condition costs', () => {
  const long = 'a'.repeat(60_000);

  test('a long text is not looked for in a long text', async () => {
    const payload = { s: long, t: `${'a'.repeat(600)}b` };
    expect(await verdict('payload.s.contains(payload.t)', payload)).toBe('error');
    expect(await verdict('payload.s.contains("b")', payload)).toBe('false');
  });

  test('no text and no list grows beyond its input', async () => {
    expect(await verdict('payload.s + payload.s == ""', { s: long })).toBe('error');
    expect(await verdict('payload.s + "x" != ""', { s: 'y' })).toBe('true');
    expect(await verdict('payload.l + payload.l == []', { l: [1] })).toBe('error');
  });

  test('the longest conditions over the longest payloads answer at once', async () => {
    const list = Array.from({ length: 12_000 }, (_, i) => i);
    const payload = { s: long.slice(0, 500), l: list, m: list.slice(0, 4_000).map((i) => [i]) };
    const costly = [
      Array(50).fill('payload.l == payload.m').join(' || '),
      Array(50).fill('[0.5] in payload.m').join(' || '),
      Array(50).fill('payload.s in payload.l').join(' || '),
      Array(50).fill('size(payload.s) == -1').join(' || '),
    ];
    for (const expression of costly) {
      expect(await conditionFault(expression)).toBeUndefined();
      const begun = performance.now();
      expect(await verdict(expression, payload)).toBe('false');
      // Some ten milliseconds here; a slow machine has room, and a loop in a loop would not.
      expect(performance.now() - begun).toBeLessThan(2_000);
    }
  });
});
