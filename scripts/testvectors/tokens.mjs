// Tokens whose payload is the good statement `base`, and whose header, encoding or signature is not what it should be.
import { createHmac } from 'node:crypto';
import { ORDER, replaceScalar, signDeterministically, swapS } from './ecdsa.mjs';
import { base64url, der, executor, headerOf, join, reconciler, segments, token } from './sign.mjs';
import { BASE, STATEMENT } from './statements.mjs';
import { encodeFields } from './wire.mjs';

const payload = encodeFields(STATEMENT, BASE);
const HEADER = headerOf('transition', executor);
const GOOD = segments(JSON.stringify(HEADER), payload, executor);
const good = join(GOOD);

const withHeader = (header, key = executor) =>
  join(segments(typeof header === 'string' ? header : JSON.stringify(header), payload, key));
const without = (name) => Object.fromEntries(Object.entries(HEADER).filter(([key]) => key !== name));
const withSignature = (signature) => join({ ...GOOD, signature });

/** The same token with the last character of a segment replaced by one that differs in bits that no byte has. */
function withTrailingBits(segment) {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  const last = segment.at(-1);
  return segment.slice(0, -1) + alphabet[alphabet.indexOf(last) ^ 1];
}

// A header whose length is not a multiple of three has bits to spare in its last character.
const spacedHeader = (() => {
  let text = JSON.stringify(HEADER);
  while (Buffer.byteLength(text) % 3 === 0) text = text.replace('{', '{ ');
  return segments(text, payload, executor);
})();
const signatureText = base64url(GOOD.signature);
const raw = (header, body, signature) => `${header}.${body}.${signature}`;

function signedByHmac() {
  const header = base64url(JSON.stringify({ ...HEADER, alg: 'HS256' }));
  const signed = `${header}.${base64url(payload)}`;
  return `${signed}.${createHmac('sha256', executor.publicJwk).update(signed).digest('base64url')}`;
}

const ACCEPTED = [
  ['good', good, 'As a good client makes it.'],
  [
    'swapped-s',
    withSignature(swapS(GOOD.signature)),
    'The other signature, (r, n - s). It verifies: a signature is never an identity.',
  ],
  [
    'header-reordered',
    withHeader({ kid: HEADER.kid, cty: HEADER.cty, typ: HEADER.typ, alg: HEADER.alg }),
    'The order of members means nothing.',
  ],
  [
    'header-white-space',
    withHeader(JSON.stringify(HEADER, null, 2)),
    'White space between members means nothing.',
  ],
  [
    'header-escapes',
    withHeader(
      JSON.stringify(HEADER)
        .replace('surety-transition', 'surety\\u002dtransition')
        .replace('application/x', 'application\\/x'),
    ),
    'Escapes that mean the same text.',
  ],
];

const HEADERS = [
  ['typ-possession', withHeader({ ...HEADER, typ: 'surety-possession+jws' }), 'The type of another message.'],
  ['typ-upper-case', withHeader({ ...HEADER, typ: 'Surety-Transition+JWS' }), 'Compared octet by octet.'],
  [
    'typ-application',
    withHeader({ ...HEADER, typ: 'application/surety-transition+jws' }),
    'The long form of a media type.',
  ],
  ['typ-missing', withHeader(without('typ')), 'No type.'],
  [
    'cty-other',
    withHeader({ ...HEADER, cty: 'application/x-protobuf; messageType="surety.authority.v1.AdminCommand"' }),
    'The content type of another message.',
  ],
  ['cty-missing', withHeader(without('cty')), 'No content type.'],
  ['alg-none', withHeader({ ...HEADER, alg: 'none' }), 'No algorithm, and a signature all the same.'],
  ['alg-es384', withHeader({ ...HEADER, alg: 'ES384' }), 'Another algorithm.'],
  ['alg-missing', withHeader(without('alg')), 'No algorithm.'],
  ['kid-missing', withHeader(without('kid')), 'No key.'],
  ['kid-empty', withHeader({ ...HEADER, kid: '' }), 'An empty key id.'],
  ['kid-number', withHeader({ ...HEADER, kid: 1 }), 'A key id that is no text.'],
  [
    'kid-path',
    withHeader({ ...HEADER, kid: '../../../../../../../../../../../../../etc/key' }),
    'Not a thumbprint.',
  ],
  ['extra-crit', withHeader({ ...HEADER, crit: ['exp'], exp: 1 }), 'A critical extension.'],
  ['extra-b64', withHeader({ ...HEADER, b64: true }), 'An unencoded-payload switch.'],
  ['extra-jwk', withHeader({ ...HEADER, jwk: JSON.parse(executor.publicJwk) }), 'A key in the header.'],
  ['extra-x5u', withHeader({ ...HEADER, x5u: 'https://example.test/key' }), 'An address in the header.'],
  ['extra-text', withHeader({ ...HEADER, note: '' }), 'A fifth member.'],
  [
    'duplicate-member',
    withHeader(JSON.stringify(HEADER).replace('{', '{"alg":"none",')),
    'Parsers take the last one, or the first.',
  ],
  [
    'duplicate-member-equal',
    withHeader(JSON.stringify(HEADER).replace('{', '{"alg":"ES256",')),
    'The same value twice.',
  ],
  [
    'duplicate-member-escaped',
    withHeader(JSON.stringify(HEADER).replace('{', '{"\\u0061lg":"none",')),
    'The same name in another spelling.',
  ],
  ['header-byte-order-mark', withHeader(`\ufeff${JSON.stringify(HEADER)}`), 'A byte order mark.'],
  ['header-nul', withHeader(`${JSON.stringify(HEADER)}\u0000`), 'A NUL behind the object.'],
  ['header-two-values', withHeader(`${JSON.stringify(HEADER)}{}`), 'Two values.'],
  ['header-array', withHeader(`[${JSON.stringify(HEADER)}]`), 'Not an object.'],
  ['header-empty', withHeader('{}'), 'No members.'],
  ['header-not-json', withHeader('alg=ES256'), 'No JSON.'],
  [
    'header-invalid-utf8',
    join(segments(Buffer.from('7b22ff223a22227d', 'hex'), payload, executor)),
    'Not UTF-8.',
  ],
  [
    'header-long',
    withHeader(JSON.stringify(HEADER).replace('{', `{${' '.repeat(1100)}`)),
    'Longer than 1024 characters.',
  ],
];

const ENCODINGS = [
  [
    'der-in-jws',
    raw(GOOD.header, GOOD.payload, base64url(der(GOOD.signature))),
    'ASN.1 DER where r and s belong.',
  ],
  ['padding-payload', raw(GOOD.header, `${GOOD.payload}=`, signatureText), 'Padding.'],
  ['padding-signature', `${good}==`, 'Padding behind the signature.'],
  ['newline-end', `${good}\n`, 'A line feed behind the token.'],
  [
    'newline-inside',
    raw(GOOD.header, `${GOOD.payload.slice(0, 8)}\n${GOOD.payload.slice(8)}`, signatureText),
    'A line feed that decoders skip.',
  ],
  ['space-front', ` ${good}`, 'A space before the token.'],
  ['bearer', `Bearer ${good}`, 'An authentication scheme before the token.'],
  [
    'base64-alphabet',
    withSignature(GOOD.signature).replaceAll('-', '+').replaceAll('_', '/'),
    'The alphabet of plain base64.',
  ],
  [
    'trailing-bits-signature',
    raw(GOOD.header, GOOD.payload, withTrailingBits(signatureText)),
    'Bits of the last character that no byte has.',
  ],
  [
    'trailing-bits-header',
    raw(withTrailingBits(spacedHeader.header), spacedHeader.payload, base64url(spacedHeader.signature)),
    'Bits of the last character that no byte has.',
  ],
  ['payload-empty', raw(GOOD.header, '', signatureText), 'No payload.'],
  ['payload-detached', `${GOOD.header}..${signatureText}`, 'A detached payload.'],
  ['two-segments', `${GOOD.header}.${GOOD.payload}`, 'No signature.'],
  ['four-segments', `${good}.AAAA`, 'A segment too many.'],
  ['five-segments', `${good}.AAAA.AAAA`, 'The form of an encrypted token.'],
  [
    'json-serialization',
    JSON.stringify({ protected: GOOD.header, payload: GOOD.payload, signature: signatureText }),
    'The JSON form of JWS.',
  ],
  ['signature-63-bytes', withSignature(GOOD.signature.subarray(1)), 'One byte too short.'],
  ['signature-65-bytes', withSignature(Buffer.concat([GOOD.signature, Buffer.of(0)])), 'One byte too long.'],
  ['signature-empty', `${GOOD.header}.${GOOD.payload}.`, 'An empty signature.'],
  ['empty', '', 'Nothing.'],
];

const flipped = Buffer.from(GOOD.signature);
flipped[40] ^= 1;
const otherPayload = encodeFields(STATEMENT, { ...BASE, fence: BASE.fence + 1n });

const SIGNATURES = [
  ['signature-bit', withSignature(flipped), 'signature', 'One bit of s.'],
  [
    'payload-swapped',
    raw(GOOD.header, base64url(otherPayload), signatureText),
    'signature',
    'The payload of another statement.',
  ],
  ['other-key', withHeader(HEADER, reconciler), 'signature', "Signed by another key, under this one's id."],
  ['kid-unknown', withHeader({ ...HEADER, kid: 'A'.repeat(43) }), 'key', 'A thumbprint that nobody has.'],
  [
    'payload-only-signed',
    withSignature(signDeterministically(payload, executor)),
    'signature',
    'Signed over the payload without the header.',
  ],
  ['hmac-with-public-key', signedByHmac(), 'encoding', 'HS256 with the public key as the secret.'],
  ['r-zero', withSignature(replaceScalar(GOOD.signature, 'r', 0n)), 'signature', 'r is 0.'],
  ['s-zero', withSignature(replaceScalar(GOOD.signature, 's', 0n)), 'signature', 's is 0.'],
  ['both-zero', withSignature(Buffer.alloc(64)), 'signature', 'Both are 0.'],
  [
    'r-order',
    withSignature(replaceScalar(GOOD.signature, 'r', ORDER)),
    'signature',
    'r is the order of the curve.',
  ],
  [
    's-all-ones',
    withSignature(replaceScalar(GOOD.signature, 's', 2n ** 256n - 1n)),
    'signature',
    's is above the order.',
  ],
];

/** tokens.json */
export function makeTokens() {
  const refuse = (rule) => ({ accept: false, reason: 'PROOF_SIGNATURE_INVALID', rule });
  const common = { kind: 'transition', statement: 'base', key: executor.name };
  return [
    ...ACCEPTED.map(([name, text, comment]) => ({ name, comment, accept: true, ...common, token: text })),
    ...HEADERS.map(([name, text, comment]) => ({
      name,
      comment,
      ...refuse('header'),
      ...common,
      token: text,
    })),
    ...ENCODINGS.map(([name, text, comment]) => ({
      name,
      comment,
      ...refuse('encoding'),
      ...common,
      token: text,
    })),
    ...SIGNATURES.map(([name, text, rule, comment]) => ({
      name,
      comment,
      ...refuse(rule),
      ...common,
      token: text,
    })),
    {
      name: 'possession-as-transition',
      comment: 'A token of another kind, as it is.',
      ...refuse('header'),
      ...common,
      token: token('possession', payload, executor),
    },
  ];
}
