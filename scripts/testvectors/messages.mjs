// The other signed messages: possession, renewal, command, clearance.
import { sha256 } from './ecdsa.mjs';
import { executor, operator, reconciler, token } from './sign.mjs';
import { delimited, encodeFields, integer, message } from './wire.mjs';

const REGISTRATION = [
  ['registration_id', 1, 'text'],
  ['domain_id', 2, 'text'],
  ['workload_id', 3, 'text'],
  ['role', 4, 'enum'],
  ['recipient_scope', 5, 'text'],
  ['process_id', 6, 'text'],
  ['process_start_time', 7, 'time'],
  ['session_id', 8, 'text'],
  ['spiffe_id', 9, 'text'],
  ['certificate_binding', 10, 'enum'],
  ['certificate_digest', 11, 'bytes'],
  ['proof_key_jwk', 12, 'text'],
  ['credential_epoch', 13, 'int64'],
  ['revocation_epoch', 14, 'int64'],
  ['parent_event_id', 15, 'text'],
  ['grant_id', 16, 'text'],
  ['sinks', 17, 'texts'],
  ['issued_time', 18, 'time'],
  ['expire_time', 19, 'time'],
  ['renewable_until_time', 20, 'time'],
];
const POSSESSION = [
  ['audience', 1, 'text'],
  ['incarnation', 2, 'int64'],
  ['registration', 3, 'message'],
];
const COMMAND = [
  ['header', 1, 'message'],
  ['set_freeze', 15, 'message'],
];
const HEADER = [
  ['audience', 1, 'text'],
  ['incarnation', 2, 'int64'],
  ['domain_id', 3, 'text'],
  ['command_id', 4, 'text'],
  ['expected_policy_revision', 5, 'int64'],
  ['expected_entity_revision', 6, 'int64'],
  ['reason', 7, 'text'],
  ['issued_time', 8, 'time'],
  ['expire_time', 9, 'time'],
];
const FREEZE = [
  ['sink', 1, 'text'],
  ['frozen', 2, 'bool'],
];
const CLEARANCE = [
  ['audience', 1, 'text'],
  ['incarnation', 2, 'int64'],
  ['domain_id', 3, 'text'],
  ['object_type', 4, 'enum'],
  ['object_id', 5, 'text'],
  ['version', 6, 'int64'],
  ['predecessor_digest', 7, 'bytes'],
  ['content_digest', 8, 'bytes'],
  ['parent_digests', 9, 'digests'],
  ['steps_digest', 10, 'bytes'],
  ['classification', 11, 'enum'],
  ['allowed_sinks', 12, 'texts'],
  ['policy_revision', 13, 'int64'],
  ['purpose', 14, 'enum'],
  ['approver_spiffe_id', 15, 'text'],
  ['receipt_id', 16, 'text'],
  ['issued_time', 17, 'time'],
  ['expire_time', 18, 'time'],
];

const at = (seconds) => ({ seconds: 1_790_000_000n + BigInt(seconds), nanos: 0 });

const STANDING = {
  registration_id: 'registration-payments-a',
  domain_id: 'acme.test',
  workload_id: 'payments-a',
  role: [1, 'WORKLOAD_ROLE_EFFECT_EXECUTOR'],
  recipient_scope: '*',
  process_id: 'host-7/4242',
  process_start_time: at(0),
  session_id: 'session-0001',
  spiffe_id: 'spiffe://acme.test/executor/payments-a',
  certificate_binding: [1, 'CERTIFICATE_BINDING_SPIFFE_ID'],
  proof_key_jwk: executor.publicJwk,
  credential_epoch: 1n,
  revocation_epoch: 1n,
  sinks: ['bank', 'ledger'],
  issued_time: at(10),
  expire_time: at(3610),
};

const possession = (change = {}) =>
  message(POSSESSION, {
    audience: 'spiffe://surety.test/surety',
    incarnation: 1n,
    registration: message(REGISTRATION, { ...STANDING, ...change }),
  });

const commandHeader = message(HEADER, {
  audience: 'spiffe://surety.test/surety',
  incarnation: 1n,
  domain_id: 'acme.test',
  command_id: 'command-00000001',
  expected_policy_revision: 1n,
  reason: 'Duplicate refunds were seen.',
  issued_time: at(20),
  expire_time: at(320),
});
const command = message(COMMAND, {
  header: commandHeader,
  set_freeze: message(FREEZE, { sink: 'bank', frozen: true }),
});

const REVIEWED = {
  audience: 'spiffe://surety.test/surety',
  incarnation: 1n,
  domain_id: 'acme.test',
  object_type: [4, 'OBJECT_TYPE_MODEL_OUTPUT'],
  object_id: 'answer-1',
  version: 2n,
  predecessor_digest: sha256('version 1'),
  content_digest: sha256('an answer'),
  parent_digests: [sha256('a parent'), sha256('another')].sort(Buffer.compare),
  steps_digest: sha256('steps'),
  classification: [3, 'DATA_CLASS_C2_RESTRICTED'],
  allowed_sinks: ['bank', 'mail'],
  policy_revision: 12n,
  purpose: [1, 'CLEARANCE_PURPOSE_REVIEW'],
  approver_spiffe_id: 'spiffe://acme.test/owner/olga',
  receipt_id: 'receipt-00000001',
  issued_time: at(30),
  expire_time: at(3630),
};
const clearance = (change = {}) => message(CLEARANCE, { ...REVIEWED, ...change });

const otherJwk = JSON.stringify(executor.privateJwk);
const privateKey = possession({ proof_key_jwk: otherJwk }).bytes;
const twoMutations = Buffer.concat([delimited(1, commandHeader.bytes), delimited(13, ''), delimited(15, '')]);
const falseWritten = Buffer.concat([
  delimited(1, commandHeader.bytes),
  delimited(15, Buffer.concat([delimited(1, 'bank'), integer(2, 0)])),
]);
const boolTwo = Buffer.concat([delimited(1, commandHeader.bytes), delimited(15, integer(2, 2))]);
const unknownMutation = Buffer.concat([encodeFields(COMMAND, { header: commandHeader }), delimited(99, '')]);
const badSink = possession({ sinks: ['bank', Buffer.from('eda080', 'hex')] }).bytes;

const ACCEPTED = [
  ['possession', 'possession', possession(), executor, 'A standing registration.'],
  [
    'renewal',
    'renewal',
    possession(),
    reconciler,
    'The same payload under the key that is current until then.',
  ],
  ['command', 'command', command, operator, 'A freeze of one sink.'],
  ['clearance', 'clearance', clearance(), operator, 'A review of the second version of a model output.'],
  [
    'clearance-first-version',
    'clearance',
    clearance({
      version: 1n,
      predecessor_digest: undefined,
      allowed_sinks: [],
      purpose: [2, 'CLEARANCE_PURPOSE_SCAN'],
    }),
    operator,
    'A scan; no predecessor and no sinks.',
  ],
];

const REFUSED = [
  [
    'possession-private-key',
    'possession',
    privateKey,
    executor,
    invalid('possession_jws.registration.proof_key_jwk'),
    'A private key in the registration.',
  ],
  [
    'possession-other-key',
    'possession',
    possession().bytes,
    reconciler,
    broken('POSSESSION_INVALID', 'key'),
    'Signed by another key than the one in the payload.',
  ],
  [
    'possession-no-registration',
    'possession',
    integer(2, 1),
    executor,
    invalid('possession_jws.registration.proof_key_jwk'),
    'No registration.',
  ],
  [
    'possession-sink-surrogate',
    'possession',
    badSink,
    executor,
    invalid('possession_jws.registration.sinks[1]'),
    'A lone surrogate in the second sink.',
  ],
  [
    'command-two-mutations',
    'command',
    twoMutations,
    operator,
    invalid('command_jws.set_freeze'),
    'Parsers take the last one.',
  ],
  [
    'command-false-written',
    'command',
    falseWritten,
    operator,
    invalid('command_jws.set_freeze.frozen'),
    'A false that no serializer writes.',
  ],
  [
    'command-bool-two',
    'command',
    boolTwo,
    operator,
    invalid('command_jws.set_freeze.frozen'),
    'A bool that is neither 0 nor 1.',
  ],
  [
    'command-unknown-mutation',
    'command',
    unknownMutation,
    operator,
    invalid('command_jws'),
    'A mutation that the schema does not have.',
  ],
  [
    'clearance-empty-predecessor',
    'clearance',
    clearance({ version: 1n, predecessor_digest: '' }).bytes,
    operator,
    invalid('clearance_jws.predecessor_digest'),
    'A default that no serializer writes.',
  ],
  [
    'clearance-unknown-purpose',
    'clearance',
    clearance({ purpose: [3, ''] }).bytes,
    operator,
    invalid('clearance_jws.purpose'),
    'A purpose that the schema does not have.',
  ],
];

function invalid(...fields) {
  return { accept: false, reason: 'FIELD_INVALID', fields };
}

function broken(reason, rule) {
  return { accept: false, reason, rule };
}

const digests = (payload) => ({
  payload_hex: payload.toString('hex'),
  payload_sha256_hex: sha256(payload).toString('hex'),
});

/** messages.json */
export function makeMessages() {
  const good = ACCEPTED.map(([name, kind, { bytes, json }, key, comment]) => ({
    name,
    comment,
    kind,
    accept: true,
    key: key.name,
    json,
    ...digests(bytes),
    token: token(kind, bytes, key),
  }));
  const hostile = REFUSED.map(([name, kind, payload, key, verdict, comment]) => ({
    name,
    comment,
    kind,
    ...verdict,
    key: key.name,
    ...digests(payload),
    token: token(kind, payload, key),
  }));
  return [...good, ...hostile];
}
