// DSSE envelopes whose payload is the good statement `base`.
import { sha256, signDeterministically, swapS } from './ecdsa.mjs';
import { der, executor, PAYLOAD_TYPE, reconciler, signEnvelope } from './sign.mjs';
import { BASE, STATEMENT } from './statements.mjs';
import { delimited, encodeFields } from './wire.mjs';

const payload = encodeFields(STATEMENT, BASE);
const signature = signEnvelope(payload, executor);
const GOOD = { payloadType: PAYLOAD_TYPE, payload, keyId: executor.thumbprint, signature: der(signature) };

const ALIEN_TYPE = 'application/vnd.in-toto+json';
const flipped = der(signature);
flipped[20] ^= 1;
const longLength = Buffer.concat([
  Buffer.of(0x30, 0x81, GOOD.signature.length - 2),
  GOOD.signature.subarray(2),
]);
const otherPayload = encodeFields(STATEMENT, { ...BASE, fence: BASE.fence + 1n });

const ACCEPTED = [
  ['good', {}, 'As a good client makes it.'],
  [
    'swapped-s',
    { signature: der(swapS(signature)) },
    'The other signature, (r, n - s). It verifies: a signature is never an identity.',
  ],
];

const REFUSED = [
  [
    'type-other',
    { payloadType: ALIEN_TYPE, signature: der(signEnvelope(payload, executor, ALIEN_TYPE)) },
    'header',
    'Another payload type, signed as such.',
  ],
  ['type-renamed', { payloadType: ALIEN_TYPE }, 'header', 'Another payload type than was signed.'],
  ['type-empty', { payloadType: '' }, 'header', 'No payload type.'],
  ['key-id-empty', { keyId: '' }, 'header', 'No key id.'],
  ['key-id-long', { keyId: `${executor.thumbprint}=` }, 'header', 'Not a thumbprint.'],
  ['key-id-unknown', { keyId: 'A'.repeat(43) }, 'key', 'A thumbprint that nobody has.'],
  ['key-id-of-another', { keyId: reconciler.thumbprint }, 'signature', 'The thumbprint of another key.'],
  [
    'payload-empty',
    { payload: Buffer.alloc(0), signature: der(signEnvelope(Buffer.alloc(0), executor)) },
    'encoding',
    'No payload.',
  ],
  ['payload-swapped', { payload: otherPayload }, 'signature', 'The payload of another statement.'],
  ['signature-empty', { signature: Buffer.alloc(0) }, 'encoding', 'No signature.'],
  ['signature-bit', { signature: flipped }, 'signature', 'One bit of r.'],
  ['signature-raw', { signature }, 'encoding', 'r and s as JWS has them, where DER belongs.'],
  [
    'signature-surplus-zero',
    { signature: der(signature, 1) },
    'encoding',
    'An integer with a zero too many in front.',
  ],
  ['signature-long-length', { signature: longLength }, 'encoding', 'A length in the long form.'],
  [
    'signature-surplus-byte',
    { signature: Buffer.concat([GOOD.signature, Buffer.of(0)]) },
    'encoding',
    'A byte behind the signature.',
  ],
  ['signature-cut', { signature: GOOD.signature.subarray(0, -1) }, 'encoding', 'The last byte is missing.'],
  [
    'payload-only-signed',
    { signature: der(signDeterministically(payload, executor)) },
    'signature',
    'Signed over the payload, not over its pre-authentication encoding.',
  ],
];

function vector([name, change, comment], verdict) {
  const { payloadType, payload: body, keyId, signature: sig } = { ...GOOD, ...change };
  const proto = [delimited(1, payloadType), delimited(2, body), delimited(3, keyId), delimited(4, sig)];
  const present = [payloadType, body, keyId, sig].map((value) => value.length > 0);
  return {
    name,
    comment,
    ...verdict,
    statement: 'base',
    key: executor.name,
    envelope: {
      payloadType,
      payload: body.toString('base64'),
      signatures: [{ keyid: keyId, sig: sig.toString('base64') }],
    },
    proto_hex: Buffer.concat(proto.filter((_, index) => present[index])).toString('hex'),
    payload_sha256_hex: sha256(body).toString('hex'),
  };
}

/** envelopes.json */
export function makeEnvelopes() {
  return [
    ...ACCEPTED.map((entry) => vector(entry, { accept: true })),
    ...REFUSED.map(([name, change, rule, comment]) =>
      vector([name, change, comment], { accept: false, reason: 'PROOF_SIGNATURE_INVALID', rule }),
    ),
  ];
}
