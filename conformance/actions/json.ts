import { bytes, receipt, TOOL } from '../action-samples.js';
import type { ActionWorld } from '../action-world.js';
import type { Case } from '../case.js';
import { expectRefused, expectSame, expectThat } from '../expect.js';

const MAX_DEPTH = 32;
const MAX_PAYLOAD_BYTES = 64 * 1024;
const MAX_EVIDENCE_BYTES = 16 * 1024;

/** An object of so many arrays in each other: one deeper than that. */
function nested(depth: number): string {
  return `{"tool_name":"${TOOL}","in":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`;
}

function filled(octets: number): string {
  const [before, after] = [`{"tool_name":"${TOOL}","text":"`, '"}'];
  return `${before}${'x'.repeat(octets - before.length - after.length)}${after}`;
}

function broken(...octets: number[]): Uint8Array<ArrayBuffer> {
  return Uint8Array.from([...bytes(`{"tool_name":"${TOOL}","text":"`), ...octets, ...bytes('"}')]);
}

/** JSON that two parsers would read differently, or not at all. */
const NOT_I_JSON: readonly (readonly [name: string, what: string, json: Uint8Array<ArrayBuffer>])[] = [
  ['name-twice', 'a name twice', bytes(`{"tool_name":"${TOOL}","to":"a","to":"b"}`)],
  [
    'name-twice-escaped',
    'a name twice, once with an escape',
    bytes(`{"tool_name":"${TOOL}","to":"a","\\u0074o":"b"}`),
  ],
  ['name-twice-within', 'a name twice further in', bytes(`{"tool_name":"${TOOL}","in":[{"to":1,"to":1}]}`)],
  ['lone-surrogate', 'half of a surrogate pair', bytes(`{"tool_name":"${TOOL}","text":"\\ud800"}`)],
  ['lone-surrogate-name', 'such a name', bytes(`{"tool_name":"${TOOL}","\\udc00":1}`)],
  ['too-deep', `more than ${MAX_DEPTH} deep`, bytes(nested(MAX_DEPTH + 1))],
  ['not-utf-8', 'bytes that are no UTF-8', broken(0xff)],
  ['overlong', 'an overlong form', broken(0xc0, 0xaf)],
  ['byte-order-mark', 'a byte order mark', Uint8Array.from([0xef, 0xbb, 0xbf, ...bytes(nested(1))])],
  ['large-integer', 'an integer beyond 2^53 - 1', bytes(`{"tool_name":"${TOOL}","n":9007199254740993}`)],
  [
    'large-integer-fraction',
    'such an integer written with a fraction',
    bytes(`{"tool_name":"${TOOL}","n":9007199254740993.0}`),
  ],
  [
    'large-integer-exponent',
    'such an integer written with an exponent',
    bytes(`{"tool_name":"${TOOL}","n":9007199254740993e0}`),
  ],
  [
    'too-many-digits',
    'a number of more than 17 significant digits',
    bytes(`{"tool_name":"${TOOL}","n":100.000000000000001}`),
  ],
  ['underflow', 'a number that is 0 in a double', bytes(`{"tool_name":"${TOOL}","n":1e-400}`)],
  ['two-values', 'something behind the value', bytes(`${nested(1)} {}`)],
  ['not-json', 'no JSON', bytes(`{tool_name: '${TOOL}'}`)],
  ['empty', 'nothing', new Uint8Array()],
];

const PAYLOADS: typeof NOT_I_JSON = [
  ...NOT_I_JSON,
  ['too-large', 'too many bytes', bytes(filled(MAX_PAYLOAD_BYTES + 1))],
  ['no-object', 'no object', bytes(`["${TOOL}"]`)],
  ['no-tool', 'no tool_name', bytes('{"text":"to whom"}')],
  ['another-tool', 'another tool_name', bytes('{"tool_name":"another.tool"}')],
];

const EVIDENCE: typeof NOT_I_JSON = [
  ...NOT_I_JSON,
  ['too-large', 'too many bytes', bytes(filled(MAX_EVIDENCE_BYTES + 1))],
];

/** Payload and evidence are JSON as I-JSON, and are kept as the bytes that came. */
export const JSON_CASES: readonly Case<ActionWorld>[] = [
  ...PAYLOADS.map(
    ([name, what, payload]): Case<ActionWorld> => ({
      id: `json.payload.${name}`,
      rule: 'I-JSON',
      title: `A payload with ${what} is refused.`,
      run: async (world) => {
        const call = world.actions('harness').proposeAction(world.proposal({ payload }));
        const { violations } = await expectRefused('the proposal', call, 'FIELD_INVALID');
        expectSame('the field', violations[0]?.field, 'payload');
      },
    }),
  ),
  {
    id: 'json.payload.verbatim',
    rule: 'I-JSON',
    title: 'A payload of the greatest depth and one of the greatest size are kept as the bytes that came.',
    run: async (world) => {
      for (const text of [
        nested(MAX_DEPTH),
        filled(MAX_PAYLOAD_BYTES),
        ` {"tool_name":"${TOOL}","é":1.50e0}\n`,
      ]) {
        const payload = bytes(text);
        const { action } = await world.actions('harness').proposeAction(world.proposal({ payload }));
        expectThat(
          Buffer.from(payload).equals(action?.payload ?? Buffer.alloc(0)),
          'the payload is verbatim',
        );
      }
    },
  },
  {
    id: 'json.evidence.receipt',
    rule: 'I-JSON',
    title: 'Evidence of a general receipt that is no I-JSON is refused, whatever is wrong with it.',
    run: async (world) => {
      const action = await world.propose();
      const { actionId } = action;
      const calls = EVIDENCE.map(([name, what, evidence]) => {
        const wrong = { ...receipt(name), evidence };
        return [what, () => world.actions('harness').addReceipt({ actionId, receipt: wrong })] as const;
      });
      await world.allRefused(action, calls, 'FIELD_INVALID');
    },
  },
  {
    id: 'json.evidence.gate',
    rule: 'I-JSON',
    title: 'Evidence of an approval that is no I-JSON is refused, whatever is wrong with it.',
    run: async (world) => {
      const action = await world.propose();
      const good = await world.approval(action);
      const calls = EVIDENCE.map(
        ([, what, evidence]) =>
          [what, () => world.actions('owner').gateAction({ ...good, evidence })] as const,
      );
      await world.allRefused(action, calls, 'FIELD_INVALID');
    },
  },
];
