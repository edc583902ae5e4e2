// Digests other than the log's: parts, the bytes that are hashed, and their SHA-256.
import { createHash } from 'node:crypto';
import { ACTION } from './approvals.mjs';
import { absent, boolean, bytes, digestVector, integer, list, sha256Hex, text } from './canonical.mjs';

const DOMAIN = 'acme.test';
const REQUEST = sha256Hex('refund order-1184');
const PAYLOAD = sha256Hex('please refund order-1184');
const PROVENANCE = sha256Hex('a provenance record');

const encodings = [
  ['no parts', 'The label alone.', []],
  ['empty text', 'An empty text is not an absent one.', [text('')]],
  ['absent', 'Has a tag and no bytes.', [absent]],
  ['empty list', 'Nor is an empty list.', [list()]],
  ['empty bytes', 'Nor are empty bytes.', [bytes('')]],
  ['two texts', 'Lengths keep the parts apart.', [text('ab'), text('c')]],
  ['two other texts', 'The same letters, parted elsewhere.', [text('a'), text('bc')]],
  ['a list of two', 'The same parts within a list.', [list(text('ab'), text('c'))]],
  ['text 1', 'A text.', [text('1')]],
  ['integer 1', 'An integer is its decimal text, with a tag of its own.', [integer(1)]],
  ['bytes 31', 'The same byte as bytes.', [bytes('31')]],
  ['true', 'A boolean is one byte.', [boolean(true)]],
  ['false', 'Zero, not absent.', [boolean(false)]],
  ['integer 2^53+1', 'Exact beyond what a double holds.', [integer(2n ** 53n + 1n)]],
  ['integer 2^63-1', 'The greatest int64.', [integer(2n ** 63n - 1n)]],
  ['integer -1', 'A sign is part of the text.', [integer(-1)]],
  ['nfc', 'Texts are not normalized.', [text('caf\u00e9')]],
  ['nfd', 'Texts are not normalized.', [text('cafe\u0301')]],
  ['nested lists', 'Lists hold encoded parts.', [list(list(text('a')), list(), absent)]],
];

export const makeDigests = () => [
  ...encodings.map(([name, comment, parts]) => digestVector(name, comment, 'surety-test-v1', parts)),
  digestVector('another label', 'Digests of different things never meet.', 'surety-test-v2', []),
  digestVector('effect identity', 'domain, event, sink, request digest', 'surety-effect-identity-v1', [
    text(DOMAIN),
    text('event-refund-1184'),
    text('bank'),
    bytes(REQUEST),
  ]),
  digestVector('effect key, default', 'event, resource', 'surety-effect-key-default-v1', [
    text('event-refund-1184'),
    text('order-1184'),
  ]),
  digestVector('effect key, explicit', 'the key', 'surety-effect-key-explicit-v1', [
    text('refund:order-1184'),
  ]),
  digestVector('transition nonce', 'the nonce', 'surety-transition-nonce-v1', [
    text('AAECAwQFBgcICQoLDA0ODw=='),
  ]),
  digestVector('replay nonce', 'SPIFFE ID of the caller, scope, nonce', 'surety-replay-nonce-v1', [
    text('spiffe://acme.test/harness/planner'),
    text('webhooks'),
    text('AAECAwQFBgcICQoLDA0ODw=='),
  ]),
  digestVector('tool operation', 'domain, effect, attempt', 'surety-tool-operation-v1', [
    text(DOMAIN),
    text('effect-000000000001'),
    text('attempt-00000001'),
  ]),
  digestVector(
    'action',
    'domain, action id, idempotency key, source, source ref, type, tool name, payload digest',
    'surety-action-v1',
    ACTION,
  ),
  digestVector(
    'event',
    'domain, id, type, origin harness, recipients, class, payload digest, effect deadline or absent, policy revision, parent or absent, hops, published, object type, provenance digest; times in microseconds',
    'surety-event-v1',
    [
      text(DOMAIN),
      text('event-refund-1184'),
      text('task.assigned'),
      text('planner'),
      list(text('payer'), text('planner')),
      integer(2),
      bytes(PAYLOAD),
      absent,
      integer(7),
      text('event-complaint-1184'),
      integer(1),
      integer(1_767_225_600_000_001n),
      text('task'),
      bytes(PROVENANCE),
    ],
  ),
];

const hash = (...chunks) => {
  const digest = createHash('sha256');
  for (const chunk of chunks) digest.update(chunk);
  return digest.digest();
};

/** The chain of a log over entries whose bytes mean nothing here: only the hashing is shown. */
export function makeChain() {
  const genesis = hash(Buffer.from('surety-audit-v1\0'), DOMAIN);
  let chain = genesis;
  const entries = ['first entry', '', 'third entry'].map((entry, index) => {
    const bytesOfEntry = Buffer.from(entry);
    const leaf = hash(Buffer.from([0]), bytesOfEntry);
    chain = hash(Buffer.from([2]), chain, leaf);
    return {
      name: `entry ${index + 1}`,
      entry_hex: bytesOfEntry.toString('hex'),
      leaf_hash_hex: leaf.toString('hex'),
      chain_hash_hex: chain.toString('hex'),
    };
  });
  return [{ name: 'genesis', domain_id: DOMAIN, chain_hash_hex: genesis.toString('hex') }, ...entries];
}
