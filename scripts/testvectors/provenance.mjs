// Provenance records with the parts of their canonical form, the bytes that are hashed, and the provenance digest.
import { absent, boolean, bytes, digestVector, integer, list, sha256Hex, text } from './canonical.mjs';

const DOMAIN = 'acme.test';
const RECORDED = '1767225600000001';

const base = {
  object_type: 'artifact',
  object_id: 'invoice-7',
  version: '1',
  content_digest_hex: sha256Hex('invoice 7'),
  classification: 3,
  policy_revision: '12',
  allowed_sinks: [],
  tainted: true,
  reviewed: false,
  scan_pending: true,
  predecessor_digest_hex: null,
  origin: {
    kind: 'external_input',
    source_id: 'mailbox:support',
    source_digest_hex: sha256Hex('a mail'),
    observed_micros: '1767225540000000',
    principal_id: null,
    harness_id: null,
  },
  parent_digests_hex: [],
  steps: [],
  recorded_micros: RECORDED,
};

const human = { ...base.origin, kind: 'human_input', principal_id: 'paula', harness_id: 'planner' };

const derived = {
  ...base,
  object_type: 'tool_output',
  object_id: 'effect-output:effect-000000000001',
  content_digest_hex: sha256Hex('a receipt'),
  origin: null,
  parent_digests_hex: [sha256Hex('a parent')],
  steps: [
    {
      ordinal: 0,
      kind: 'tool',
      operation: sha256Hex('an operation'),
      implementation: 'effect_executor:registration-payments-a',
      implementation_version: '3',
      executor: 'payments-a',
      input_digests_hex: [sha256Hex('the payload')],
      output_digest_hex: sha256Hex('a receipt'),
      started_micros: '1767225550000000',
      completed_micros: '1767225560250000',
    },
  ],
};

const secondStep = {
  ...derived.steps[0],
  ordinal: 1,
  kind: 'parser',
  implementation: 'receipt-parser',
  implementation_version: '2.0.1',
  input_digests_hex: [sha256Hex('a receipt')],
  output_digest_hex: sha256Hex('fields of a receipt'),
};

const CASES = [
  ['origin', 'Content from outside.', base],
  ['human input', 'Names a principal and a harness.', { ...base, origin: human }],
  ['any sink', 'One entry that means any.', { ...base, allowed_sinks: ['*'] }],
  ['two sinks', 'Ascending by code unit.', { ...base, allowed_sinks: ['bank', 'mail'] }],
  [
    'second version',
    'Names its predecessor.',
    { ...base, version: '2', predecessor_digest_hex: sha256Hex('version 1') },
  ],
  ['clean', 'Reviewed and scanned.', { ...base, tainted: false, reviewed: true, scan_pending: false }],
  ['tool output', 'Of an effect: one parent, one step, no origin, no sinks.', derived],
  [
    'two parents, two steps',
    'Parents ascending, steps by their ordinal.',
    {
      ...derived,
      object_id: 'summary-1',
      object_type: 'parser_output',
      content_digest_hex: sha256Hex('fields of a receipt'),
      parent_digests_hex: [sha256Hex('a parent'), sha256Hex('another')].sort(),
      steps: [derived.steps[0], secondStep],
    },
  ],
  ['int64 limit', 'Exact.', { ...base, version: '9223372036854775807', policy_revision: '9007199254740993' }],
  ['nfc', 'Texts are not normalized.', { ...base, object_id: 'caf\u00e9' }],
  ['nfd', 'Texts are not normalized.', { ...base, object_id: 'cafe\u0301' }],
];

const optional = (make, value) => (value === null ? absent : make(value));
const bytesList = (digests) => list(...digests.map(bytes));

function originPart(origin) {
  if (origin === null) return absent;
  return list(
    text(origin.kind),
    text(origin.source_id),
    bytes(origin.source_digest_hex),
    integer(origin.observed_micros),
    optional(text, origin.principal_id),
    optional(text, origin.harness_id),
  );
}

function stepPart(step) {
  return list(
    integer(step.ordinal),
    text(step.kind),
    text(step.operation),
    text(step.implementation),
    text(step.implementation_version),
    text(step.executor),
    bytesList(step.input_digests_hex),
    bytes(step.output_digest_hex),
    integer(step.started_micros),
    integer(step.completed_micros),
  );
}

function partsOf(record) {
  return [
    text(DOMAIN),
    text(record.object_type),
    text(record.object_id),
    integer(record.version),
    bytes(record.content_digest_hex),
    integer(record.classification),
    integer(record.policy_revision),
    list(...record.allowed_sinks.map(text)),
    boolean(record.tainted),
    boolean(record.reviewed),
    boolean(record.scan_pending),
    optional(bytes, record.predecessor_digest_hex),
    originPart(record.origin),
    bytesList(record.parent_digests_hex),
    list(...record.steps.map(stepPart)),
    integer(record.recorded_micros),
  ];
}

const stepsDigestOf = ({ steps }) =>
  digestVector('', '', 'surety-provenance-steps-v1', steps.map(stepPart)).sha256_hex;

export const makeProvenance = () =>
  CASES.map(([name, comment, record]) => {
    const { label, encoded_hex, sha256_hex } = digestVector(
      name,
      comment,
      'surety-provenance-v1',
      partsOf(record),
    );
    return {
      name,
      comment,
      domain_id: DOMAIN,
      record,
      label,
      encoded_hex,
      provenance_digest_hex: sha256_hex,
      // Of the steps alone, which a clearance names.
      ...(record.steps.length === 0 ? {} : { steps_digest_hex: stepsDigestOf(record) }),
    };
  });
