// What owners sign: the exact evidence of an approval or a refusal, and bounded grants.
import { bytes, encode, sha256Hex, text } from './canonical.mjs';
import { sha256, swapS } from './ecdsa.mjs';
import { executor, headerOf, join, owner, segments, token } from './sign.mjs';
import { delimited, integer, message } from './wire.mjs';

const PAYLOAD = '{"tool_name":"mail.send","to":"ada@example.test"}';
const DECIDED = 1_790_000_040_000_000;
const HOUR = 3_600_000_000;

/** The action that is approved: its digest is over the canonical encoding of these parts. */
export const ACTION = [
  text('acme.test'),
  text('act_0001'),
  text('reply-to-ticket-7'),
  text('support'),
  text('ticket-7'),
  text('mail.reply'),
  text('mail.send'),
  bytes(sha256Hex(PAYLOAD)),
];

const APPROVAL = {
  audience: 'spiffe://surety.test/surety',
  incarnation: 1,
  domain_id: 'acme.test',
  action_id: 'act_0001',
  action_digest: sha256Hex(encode('surety-action-v1', ACTION)),
  payload_digest: sha256Hex(PAYLOAD),
  approval_id: 'approval-0001',
  decision_id: 'decision-0001',
  decision: 'approved',
  authority: 'owner',
  revision: 1,
  decided_at: DECIDED,
  expires_at: DECIDED + HOUR,
};
const DELIVERY = {
  channel: 'mail',
  thread: 'thread-7',
  event: 'event-7',
  event_key: 'event-key-7',
  delivery: 'delivery-1',
  delivery_message: 'message-1',
  binding_method: 'reply',
};

const approved = JSON.stringify({ ...APPROVAL, ...DELIVERY });
const spaced = JSON.stringify({ ...APPROVAL, ...DELIVERY }, null, 2);
const rejected = JSON.stringify({ ...APPROVAL, decision: 'rejected' });
const reversed = JSON.stringify(Object.fromEntries(Object.entries({ ...APPROVAL, ...DELIVERY }).reverse()));
const foreign = JSON.stringify({ ...APPROVAL, ...DELIVERY, thread: 'Gr\u00fc\u00dfe \ud83d\ude42' });

const HEADER = headerOf('approval', owner);
const tokenOf = (evidence, key = owner) => token('approval', Buffer.from(evidence), key);
const withHeader = (change, evidence = approved) =>
  join(segments(JSON.stringify({ ...HEADER, ...change }), Buffer.from(evidence), owner));
const swapped = (() => {
  const parts = segments(JSON.stringify(HEADER), Buffer.from(approved), owner);
  return join({ ...parts, signature: swapS(parts.signature) });
})();

const ACCEPTED = [
  ['approved', approved, tokenOf(approved), 'An approval of the shape of message delivery.'],
  [
    'rejected',
    rejected,
    tokenOf(rejected),
    'A refusal: the members of an approval without those of a shape.',
  ],
  ['white-space', spaced, tokenOf(spaced), 'White space is signed as it stands.'],
  ['reordered', reversed, tokenOf(reversed), 'Any order of members: nobody canonicalizes JSON.'],
  ['not-ascii', foreign, tokenOf(foreign), 'UTF-8 as it is.'],
  ['swapped-s', approved, swapped, 'The other signature, (r, n - s). It verifies: it is never an identity.'],
];

const REFUSED = [
  ['other-white-space', spaced, tokenOf(approved), 'payload', 'The same members and other bytes.'],
  ['other-order', reversed, tokenOf(approved), 'payload', 'The same members in another order.'],
  ['other-decision', rejected, tokenOf(approved), 'payload', 'Evidence of something else.'],
  ['nothing', '', tokenOf(approved), 'payload', 'No evidence beside the token.'],
  ['other-key', approved, tokenOf(approved, executor), 'key', "A key that is not an owner's."],
  [
    'borrowed-kid',
    approved,
    join(segments(JSON.stringify(HEADER), Buffer.from(approved), executor)),
    'signature',
    "An owner's key id over the signature of another key.",
  ],
  [
    'clearance',
    approved,
    withHeader({ typ: headerOf('clearance', owner).typ }),
    'header',
    'The type of another signed message.',
  ],
  [
    'protobuf',
    approved,
    withHeader({ cty: headerOf('bounded-grant', owner).cty }),
    'header',
    'A content type that evidence does not have.',
  ],
  ['no-kid', approved, withHeader({ kid: undefined }), 'header', 'No key id.'],
  ['critical', approved, withHeader({ crit: ['exp'] }), 'header', 'A member that is not known.'],
  ['padding', approved, `${tokenOf(approved)}==`, 'encoding', 'Padding.'],
];

/** approvals.json */
export function makeApprovals() {
  const vector = (name, evidence, comment) => ({
    name,
    comment,
    kind: 'approval',
    key: 'owner',
    evidence,
    evidence_sha256_hex: sha256Hex(evidence),
  });
  return [
    ...ACCEPTED.map(([name, evidence, jws, comment]) => ({
      ...vector(name, evidence, comment),
      accept: true,
      token: jws,
    })),
    ...REFUSED.map(([name, evidence, jws, rule, comment]) => ({
      ...vector(name, evidence, comment),
      accept: false,
      reason: 'APPROVAL_SIGNATURE_INVALID',
      rule,
      token: jws,
    })),
  ];
}

const GRANT = [
  ['audience', 1, 'text'],
  ['incarnation', 2, 'int64'],
  ['domain_id', 3, 'text'],
  ['bounded_grant_id', 4, 'text'],
  ['owner_spiffe_id', 5, 'text'],
  ['sources', 6, 'texts'],
  ['types', 7, 'texts'],
  ['tools', 8, 'texts'],
  ['max_uses', 9, 'int64'],
  ['expire_time', 10, 'time'],
  ['issued_time', 11, 'time'],
];
const at = (seconds) => ({ seconds: 1_790_000_000n + BigInt(seconds), nanos: 0 });
const BOUNDED = {
  audience: 'spiffe://surety.test/surety',
  incarnation: 1n,
  domain_id: 'acme.test',
  bounded_grant_id: 'grant-replies',
  owner_spiffe_id: 'spiffe://acme.test/owner/olga',
  sources: ['support'],
  types: ['mail.reply'],
  tools: ['mail.send', 'mail.forward'],
  max_uses: 20n,
  expire_time: at(86_400),
  issued_time: at(30),
};
const grant = (change = {}) => message(GRANT, { ...BOUNDED, ...change });
const grantToken = (payload, key = owner) => token('bounded-grant', payload, key);

const GRANTS = [
  ['bounded', grant(), 'Twenty replies within a day.'],
  ['unlimited', grant({ expire_time: undefined, max_uses: 2_147_483_647n }), 'It does not end by itself.'],
];
const HOSTILE_GRANTS = [
  [
    'uses-zero-written',
    Buffer.concat([
      grant({ max_uses: undefined, expire_time: undefined, issued_time: undefined }).bytes,
      integer(9, 0),
    ]),
    grantToken,
    { reason: 'FIELD_INVALID', fields: ['grant_jws.max_uses'] },
    'A default that no serializer writes.',
  ],
  [
    'tool-surrogate',
    grant({ tools: ['mail.send', Buffer.from('eda080', 'hex')] }).bytes,
    grantToken,
    { reason: 'FIELD_INVALID', fields: ['grant_jws.tools[1]'] },
    'A lone surrogate in a tool.',
  ],
  [
    'unknown-field',
    Buffer.concat([grant().bytes, delimited(99, 'x')]),
    grantToken,
    { reason: 'FIELD_INVALID', fields: ['grant_jws'] },
    'A field that the schema does not have.',
  ],
  [
    'as-an-approval',
    grant().bytes,
    (payload) => token('approval', payload, owner),
    { reason: 'APPROVAL_SIGNATURE_INVALID', rule: 'header' },
    'Signed as evidence.',
  ],
  [
    'other-key',
    grant().bytes,
    (payload) => grantToken(payload, executor),
    { reason: 'APPROVAL_SIGNATURE_INVALID', rule: 'key' },
    "A key that is not an owner's.",
  ],
];

const digests = (payload) => ({
  payload_hex: payload.toString('hex'),
  payload_sha256_hex: sha256(payload).toString('hex'),
});

/** bounded-grants.json */
export function makeBoundedGrants() {
  return [
    ...GRANTS.map(([name, { bytes: payload, json }, comment]) => ({
      name,
      comment,
      kind: 'boundedGrant',
      accept: true,
      key: 'owner',
      json,
      ...digests(payload),
      token: grantToken(payload),
    })),
    ...HOSTILE_GRANTS.map(([name, payload, sign, verdict, comment]) => ({
      name,
      comment,
      kind: 'boundedGrant',
      accept: false,
      ...verdict,
      key: 'owner',
      ...digests(payload),
      token: sign(payload),
    })),
  ];
}
