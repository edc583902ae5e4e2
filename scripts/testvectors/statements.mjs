// The statements: what is signed, good and hostile. Each hostile one is signed like a good one, so that only its payload
// can be the reason for refusing it.
import { sha256 } from './ecdsa.mjs';
import { executor, token } from './sign.mjs';
import { delimited, encodeFields, fixed64, integer, jsonFields, timestamp, varint } from './wire.mjs';

export const STATEMENT = [
  ['audience', 1, 'text'],
  ['incarnation', 2, 'int64'],
  ['domain_id', 3, 'text'],
  ['registration_id', 4, 'text'],
  ['workload_id', 5, 'text'],
  ['role', 6, 'enum'],
  ['process_id', 7, 'text'],
  ['process_start_time', 8, 'time'],
  ['session_id', 9, 'text'],
  ['credential_epoch', 10, 'int64'],
  ['revocation_epoch', 11, 'int64'],
  ['parent_event_id', 12, 'text'],
  ['grant_id', 13, 'text'],
  ['effect_id', 14, 'text'],
  ['fence', 15, 'int64'],
  ['from_state', 16, 'enum'],
  ['to_state', 17, 'enum'],
  ['evidence_digest', 18, 'bytes'],
  ['issued_time', 19, 'time'],
  ['nonce', 20, 'text'],
];

const EXECUTOR = [1, 'WORKLOAD_ROLE_EFFECT_EXECUTOR'];
const RECONCILER = [2, 'WORKLOAD_ROLE_EFFECT_RECONCILER'];
export const STATES = {
  PREPARED: [1, 'EFFECT_STATE_PREPARED'],
  EXECUTING: [2, 'EFFECT_STATE_EXECUTING'],
  SUCCEEDED: [3, 'EFFECT_STATE_SUCCEEDED'],
  FAILED: [4, 'EFFECT_STATE_FAILED'],
  CANCELLED: [5, 'EFFECT_STATE_CANCELLED'],
  UNKNOWN: [6, 'EFFECT_STATE_UNKNOWN'],
};

export const BASE = {
  audience: 'spiffe://surety.test/surety',
  incarnation: 1n,
  domain_id: 'acme.test',
  registration_id: 'registration-payments-a',
  workload_id: 'payments-a',
  role: EXECUTOR,
  process_id: 'host-7/4242',
  process_start_time: { seconds: 1_790_000_000n, nanos: 123_456_000 },
  session_id: 'session-0001',
  credential_epoch: 1n,
  revocation_epoch: 1n,
  parent_event_id: 'event-refund-1184',
  grant_id: 'grant-refunds',
  effect_id: 'effect-000000000001',
  fence: 1_099_511_627_777n,
  from_state: STATES.PREPARED,
  to_state: STATES.EXECUTING,
  evidence_digest: sha256(Buffer.from('evidence')),
  issued_time: { seconds: 1_790_000_100n, nanos: 0 },
  nonce: 'AAECAwQFBgcICQoLDA0ODw==',
};

// e with an acute accent, composed (NFC) and decomposed (NFD).
const NFC = 'caf\u00e9';
const NFD = 'cafe\u0301';

const GOOD = [
  ['base', {}, 'A start.'],
  ['acknowledge', { from_state: STATES.EXECUTING, to_state: STATES.SUCCEEDED }, 'A success.'],
  ['unknown', { from_state: STATES.EXECUTING, to_state: STATES.UNKNOWN }, 'A lost answer.'],
  [
    'reconcile',
    { role: RECONCILER, from_state: STATES.UNKNOWN, to_state: STATES.FAILED },
    'A reconciliation.',
  ],
  ['fence-2^53+1', { fence: 2n ** 53n + 1n }, 'A double would round it.'],
  ['fence-2^63-1', { fence: 2n ** 63n - 1n }, 'The greatest fence.'],
  [
    'nanoseconds',
    { issued_time: { seconds: 1_790_000_100n, nanos: 999_999_999 } },
    'Digits below a microsecond stay in the bytes.',
  ],
  [
    'epoch-zero',
    { process_start_time: { seconds: 0n, nanos: 0 } },
    'An empty timestamp is there, with length 0.',
  ],
  ['nfc', { effect_id: NFC }, 'Composed; not the same id as nfd.'],
  ['nfd', { effect_id: NFD }, 'Decomposed; not the same id as nfc.'],
  [
    'astral',
    { effect_id: 'effect-\u{1F9FE}' },
    'Outside of the basic plane: four octets, a surrogate pair in UTF-16.',
  ],
  ['byte-order-mark', { effect_id: '\ufeffeffect-1' }, 'A character like others, which some decoders drop.'],
  ['id-256-octets', { effect_id: 'e'.repeat(256) }, 'The longest id.'],
  ['id-256-octets-utf8', { effect_id: '\u00e9'.repeat(128) }, 'The longest id, in octets, not characters.'],
  ['nonce-24', { nonce: '~'.repeat(24) }, 'The shortest nonce.'],
  ['nonce-256', { nonce: '!'.repeat(256) }, 'The longest nonce.'],
];

const splice = (values, number, bytes) => {
  const layout = STATEMENT.filter(([, fieldNumber]) => fieldNumber !== number);
  const before = encodeFields(
    layout.filter(([, n]) => n < number),
    values,
  );
  const after = encodeFields(
    layout.filter(([, n]) => n > number),
    values,
  );
  return Buffer.concat([before, bytes, after]);
};
const raw = (number, bytes) => splice(BASE, number, bytes);
const changed = (change) => encodeFields(STATEMENT, { ...BASE, ...change });
const whole = encodeFields(STATEMENT, BASE);

const NOT_CANONICAL = [
  ['unknown-field', Buffer.concat([whole, integer(21, 1)]), '', 'A field that the schema does not have.'],
  [
    'unknown-field-early',
    Buffer.concat([integer(536_870_911, 1), whole]),
    '',
    'The greatest field number, first.',
  ],
  [
    'duplicate-scalar',
    raw(15, Buffer.concat([integer(15, 7), integer(15, BASE.fence)])),
    'fence',
    'Parsers take the last one.',
  ],
  [
    'duplicate-scalar-equal',
    raw(15, Buffer.concat([integer(15, BASE.fence), integer(15, BASE.fence)])),
    'fence',
    'The same value twice.',
  ],
  [
    'duplicate-message',
    raw(
      8,
      Buffer.concat([
        delimited(8, timestamp({ seconds: 1n, nanos: 0 })),
        delimited(8, timestamp({ seconds: 0n, nanos: 1000 })),
      ]),
    ),
    'process_start_time',
    'Parsers merge them.',
  ],
  ['default-written', raw(15, integer(15, 0)), 'fence', 'A zero that no serializer writes.'],
  ['default-text-written', raw(20, delimited(20, '')), 'nonce', 'An empty text that no serializer writes.'],
  [
    'default-nested-written',
    raw(19, delimited(19, Buffer.concat([integer(1, 1_790_000_100n), integer(2, 0)]))),
    'issued_time.nanos',
    'A zero inside of a nested message.',
  ],
  [
    'fields-out-of-order',
    Buffer.concat([encodeFields(STATEMENT.slice(1), BASE), delimited(1, BASE.audience)]),
    'audience',
    'The first field last.',
  ],
  [
    'nested-out-of-order',
    raw(8, delimited(8, Buffer.concat([integer(2, 1000), integer(1, 1)]))),
    'process_start_time.seconds',
    'Out of order inside of a nested message.',
  ],
  [
    'varint-too-long',
    raw(2, Buffer.concat([varint((2 << 3) | 0), Buffer.of(0x81, 0x00)])),
    'incarnation',
    'One, written in two bytes.',
  ],
  ['tag-too-long', Buffer.concat([Buffer.of(0x8a, 0x00), whole.subarray(1)]), '', 'A tag in two bytes.'],
  [
    'length-too-long',
    raw(14, Buffer.concat([varint((14 << 3) | 2), Buffer.of(0x81, 0x00), Buffer.from('e')])),
    'effect_id',
    'A length in two bytes.',
  ],
  [
    'varint-eleven-bytes',
    raw(15, Buffer.concat([varint(15 << 3), Buffer.alloc(10, 0xff), Buffer.of(0x01)])),
    'fence',
    'No 64-bit varint is that long.',
  ],
  [
    'varint-65-bits',
    raw(15, Buffer.concat([varint(15 << 3), Buffer.alloc(9, 0xff), Buffer.of(0x03)])),
    'fence',
    'Parsers drop the 65th bit.',
  ],
  ['enum-33-bits', raw(6, integer(6, 2n ** 32n + 1n)), 'role', 'Parsers cut it to 1.'],
  ['enum-unknown', raw(6, integer(6, 99)), 'role', 'A role that the schema does not have.'],
  ['wire-type', raw(15, fixed64(15, BASE.fence)), 'fence', 'Another wire type.'],
  [
    'group',
    raw(8, Buffer.of((8 << 3) | 3, (8 << 3) | 4)),
    'process_start_time',
    'A group instead of a message.',
  ],
  ['truncated', whole.subarray(0, whole.length - 1), 'nonce', 'The last byte is missing.'],
  ['truncated-tag', Buffer.concat([whole, Buffer.of(0x80)]), '', 'A tag that never ends.'],
  [
    'lone-surrogate',
    raw(14, delimited(14, Buffer.from('65eda080', 'hex'))),
    'effect_id',
    'U+D800 as three octets is not UTF-8.',
  ],
  [
    'surrogate-pair-cesu',
    raw(14, delimited(14, Buffer.from('eda0beedb7be', 'hex'))),
    'effect_id',
    'A pair of surrogates as six octets (CESU-8).',
  ],
  ['utf8-overlong', raw(14, delimited(14, Buffer.from('65c080', 'hex'))), 'effect_id', 'NUL in two octets.'],
  [
    'utf8-invalid',
    raw(14, delimited(14, Buffer.from('65ff', 'hex'))),
    'effect_id',
    'An octet that UTF-8 does not have.',
  ],
];

const MISSING = STATEMENT.map(([name]) => [
  `missing-${name}`,
  changed({ [name]: undefined }),
  name,
  'A field that is required.',
]);

const BROKEN_RULES = [
  ['fence-negative', changed({ fence: -1n }), 'fence', 'Ten bytes of varint.'],
  ['fence-minus-2^63', changed({ fence: -(2n ** 63n) }), 'fence', 'The least int64.'],
  ['nul', changed({ effect_id: 'effect\u0000-1' }), 'effect_id', 'A NUL.'],
  ['control-c0', changed({ effect_id: 'effect\n-1' }), 'effect_id', 'A line feed.'],
  ['control-del', changed({ effect_id: 'effect\u007f-1' }), 'effect_id', 'A delete.'],
  ['control-c1', changed({ effect_id: 'effect\u0085-1' }), 'effect_id', 'A next line.'],
  ['line-separator', changed({ effect_id: 'effect\u2028-1' }), 'effect_id', 'A line separator.'],
  ['paragraph-separator', changed({ effect_id: 'effect\u2029-1' }), 'effect_id', 'A paragraph separator.'],
  ['id-257-octets', changed({ effect_id: 'e'.repeat(257) }), 'effect_id', 'One octet too long.'],
  [
    'id-258-octets-utf8',
    changed({ effect_id: '\u00e9'.repeat(129) }),
    'effect_id',
    '129 characters, 258 octets.',
  ],
  [
    'digest-31-bytes',
    changed({ evidence_digest: BASE.evidence_digest.subarray(1) }),
    'evidence_digest',
    'Not a SHA-256.',
  ],
  [
    'digest-33-bytes',
    changed({ evidence_digest: Buffer.concat([BASE.evidence_digest, Buffer.of(0)]) }),
    'evidence_digest',
    'Not a SHA-256.',
  ],
  ['nonce-23', changed({ nonce: 'n'.repeat(23) }), 'nonce', 'One character too short.'],
  ['nonce-257', changed({ nonce: 'n'.repeat(257) }), 'nonce', 'One character too long.'],
  ['nonce-space', changed({ nonce: `${'n'.repeat(23)} ` }), 'nonce', 'A space.'],
  ['nonce-not-ascii', changed({ nonce: '\u00e9'.repeat(24) }), 'nonce', 'Not ASCII.'],
  [
    'time-before-1970',
    changed({ issued_time: { seconds: -1n, nanos: 0 } }),
    'issued_time',
    'A negative second.',
  ],
  [
    'time-after-9999',
    changed({ issued_time: { seconds: 253_402_300_800n, nanos: 0 } }),
    'issued_time',
    'The year 10000.',
  ],
  [
    'time-nanos-negative',
    changed({ issued_time: { seconds: 1n, nanos: -1 } }),
    'issued_time',
    'Nanos below a second.',
  ],
  [
    'time-nanos-second',
    changed({ issued_time: { seconds: 1n, nanos: 1_000_000_000 } }),
    'issued_time',
    'Nanos above a second.',
  ],
];

const SEVERAL = [
  'several-violations',
  changed({ fence: undefined, effect_id: 'e\u0000', nonce: 'short' }),
  ['effect_id', 'fence', 'nonce'],
  'All are named at once.',
];

function vector(name, payload, rest, comment) {
  return {
    name,
    comment,
    ...rest,
    payload_hex: payload.toString('hex'),
    payload_sha256_hex: sha256(payload).toString('hex'),
    key: executor.name,
    token: token('transition', payload, executor),
  };
}

/** statements.json */
export function makeStatements() {
  const good = GOOD.map(([name, change, comment]) => {
    const values = { ...BASE, ...change };
    const json = jsonFields(STATEMENT, values);
    return vector(name, encodeFields(STATEMENT, values), { accept: true, json }, comment);
  });
  const hostile = [...NOT_CANONICAL, ...MISSING, ...BROKEN_RULES, SEVERAL].map(
    ([name, payload, fields, comment]) => {
      const paths = [fields].flat().map((field) => (field === '' ? 'proof' : `proof.${field}`));
      return vector(name, payload, { accept: false, reason: 'FIELD_INVALID', fields: paths }, comment);
    },
  );
  return [...good, ...hostile];
}
