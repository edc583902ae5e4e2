// The four kinds of evidence, good and hostile.
import { sha256 } from './ecdsa.mjs';
import { STATES } from './statements.mjs';
import { delimited, encodeFields, integer, jsonFields } from './wire.mjs';

const LAYOUTS = {
  execution: [
    ['attempt_id', 1, 'text'],
    ['executor_instance_id', 2, 'text'],
    ['request_digest', 3, 'bytes'],
    ['start_time', 4, 'time'],
  ],
  uncertainty: [
    ['attempt_id', 1, 'text'],
    ['reason', 2, 'enum'],
    ['observation_digest', 3, 'bytes'],
    ['observed_time', 4, 'time'],
  ],
  terminal: [
    ['attempt_id', 1, 'text'],
    ['external_receipt_id', 2, 'text'],
    ['external_receipt_digest', 3, 'bytes'],
    ['observed_time', 4, 'time'],
  ],
  reconciliation: [
    ['attempt_id', 1, 'text'],
    ['authority_system_id', 2, 'text'],
    ['query_id', 3, 'text'],
    ['query_response_digest', 4, 'bytes'],
    ['observed_time', 5, 'time'],
    ['terminal_state', 6, 'enum'],
  ],
};

const TIME = { seconds: 1_790_000_050n, nanos: 250_000_000 };
const ATTEMPT = 'attempt-00000001';
const GOOD = {
  execution: {
    attempt_id: ATTEMPT,
    executor_instance_id: 'instance-0000001',
    request_digest: sha256(Buffer.from('request')),
    start_time: TIME,
  },
  uncertainty: {
    attempt_id: ATTEMPT,
    reason: [2, 'UNCERTAINTY_REASON_COMMIT_RESPONSE_LOST'],
    observation_digest: sha256(Buffer.from('observation')),
    observed_time: TIME,
  },
  terminal: {
    attempt_id: ATTEMPT,
    external_receipt_id: 'receipt-1',
    external_receipt_digest: sha256(Buffer.from('receipt')),
    observed_time: TIME,
  },
  reconciliation: {
    attempt_id: ATTEMPT,
    authority_system_id: 'bank',
    query_id: 'query-01',
    query_response_digest: sha256(Buffer.from('answer')),
    observed_time: TIME,
    terminal_state: STATES.SUCCEEDED,
  },
};

const encode = (kind, change = {}) => encodeFields(LAYOUTS[kind], { ...GOOD[kind], ...change });

const MISSING = Object.entries(LAYOUTS).flatMap(([kind, layout]) =>
  layout.map(([field]) => [`${kind}-missing-${field}`, kind, encode(kind, { [field]: undefined }), [field]]),
);

const HOSTILE = [
  ['execution-unknown-field', 'execution', Buffer.concat([encode('execution'), integer(5, 1)]), ['']],
  [
    'execution-default-written',
    'execution',
    Buffer.concat([delimited(1, ''), encode('execution', { attempt_id: undefined })]),
    ['attempt_id'],
  ],
  [
    'execution-duplicate-scalar',
    'execution',
    Buffer.concat([delimited(1, 'attempt-00000000'), encode('execution')]),
    ['attempt_id'],
  ],
  [
    'execution-attempt-15-octets',
    'execution',
    encode('execution', { attempt_id: 'a'.repeat(15) }),
    ['attempt_id'],
  ],
  [
    'execution-attempt-257-octets',
    'execution',
    encode('execution', { attempt_id: 'a'.repeat(257) }),
    ['attempt_id'],
  ],
  [
    'execution-attempt-control',
    'execution',
    encode('execution', { attempt_id: `${ATTEMPT}\u0007` }),
    ['attempt_id'],
  ],
  [
    'execution-several',
    'execution',
    encode('execution', {
      attempt_id: 'a',
      executor_instance_id: 'b',
      request_digest: Buffer.alloc(31),
      start_time: undefined,
    }),
    ['attempt_id', 'executor_instance_id', 'request_digest', 'start_time'],
  ],
  ['execution-empty', 'execution', Buffer.alloc(0), ['']],
  ['execution-too-long', 'execution', encode('execution', { attempt_id: 'a'.repeat(4096) }), ['']],
  [
    'execution-is-terminal',
    'execution',
    encode('terminal', { external_receipt_id: 'r' }),
    ['executor_instance_id'],
  ],
  ['uncertainty-reason-unknown', 'uncertainty', encode('uncertainty', { reason: [9] }), ['reason']],
  [
    'terminal-receipt-7-octets',
    'terminal',
    encode('terminal', { external_receipt_id: 'r'.repeat(7) }),
    ['external_receipt_id'],
  ],
  [
    'terminal-receipt-513-octets',
    'terminal',
    encode('terminal', { external_receipt_id: 'r'.repeat(513) }),
    ['external_receipt_id'],
  ],
  [
    'terminal-receipt-lone-surrogate',
    'terminal',
    encode('terminal', { external_receipt_id: Buffer.from(`${'61'.repeat(8)}edb080`, 'hex') }),
    ['external_receipt_id'],
  ],
  [
    'terminal-time-after-9999',
    'terminal',
    encode('terminal', { observed_time: { seconds: 253_402_300_800n, nanos: 0 } }),
    ['observed_time'],
  ],
  [
    'reconciliation-system-2-octets',
    'reconciliation',
    encode('reconciliation', { authority_system_id: 'ba' }),
    ['authority_system_id'],
  ],
  [
    'reconciliation-state-unknown',
    'reconciliation',
    encode('reconciliation', { terminal_state: STATES.UNKNOWN }),
    ['terminal_state'],
  ],
  [
    'reconciliation-state-executing',
    'reconciliation',
    encode('reconciliation', { terminal_state: STATES.EXECUTING }),
    ['terminal_state'],
  ],
];

/** evidence.json */
export function makeEvidence() {
  const bytesOf = (bytes) => ({
    bytes_hex: bytes.toString('hex'),
    sha256_hex: sha256(bytes).toString('hex'),
  });
  const good = Object.keys(LAYOUTS).map((kind) => ({
    name: kind,
    kind,
    accept: true,
    json: jsonFields(LAYOUTS[kind], GOOD[kind]),
    ...bytesOf(encode(kind)),
  }));
  const hostile = [...MISSING, ...HOSTILE].map(([name, kind, bytes, fields]) => ({
    name,
    kind,
    accept: false,
    reason: 'FIELD_INVALID',
    fields: fields.map((field) => (field === '' ? 'evidence' : `evidence.${field}`)),
    ...bytesOf(bytes),
  }));
  return [...good, ...hostile];
}
