// Test keys, and JWKs that are to be taken or refused.
import { executor, KEYS } from './sign.mjs';

const good = JSON.parse(executor.publicJwk);
const text = (change) => JSON.stringify({ ...good, ...change });

/** The same point's y with another last byte: not on the curve. */
function offCurve() {
  const y = Buffer.from(executor.y, 'base64url');
  y[31] ^= 1;
  return y.toString('base64url');
}

/** A coordinate with surplus or missing bytes in front. */
const shortened = Buffer.from(executor.x, 'base64url').subarray(1).toString('base64url');
const lengthened = Buffer.concat([Buffer.of(0), Buffer.from(executor.x, 'base64url')]).toString('base64url');
const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
const trailing = executor.x.slice(0, -1) + alphabet[alphabet.indexOf(executor.x.at(-1)) ^ 1];

const ACCEPTED = [
  ['canonical', executor.publicJwk, 'The four members that the thumbprint hashes.'],
  [
    'reordered',
    `{ "y": "${good.y}", "x": "${good.x}", "kty": "EC", "crv": "P-256" }`,
    'Order and white space mean nothing.',
  ],
  [
    'described',
    text({ kid: 'payments-a', use: 'sig', alg: 'ES256', key_ops: ['verify'] }),
    'Members that allow verifying ES256.',
  ],
];

const REFUSED = [
  ['private', JSON.stringify(executor.privateJwk), 'A private key: whoever sends it has given it away.'],
  ['off-curve', text({ y: offCurve() }), 'Not a point of the curve.'],
  ['zero', text({ x: 'A'.repeat(43), y: 'A'.repeat(43) }), 'Not a point of the curve.'],
  ['x-31-bytes', text({ x: shortened }), 'A coordinate without its first byte.'],
  ['x-33-bytes', text({ x: lengthened }), 'A coordinate with a zero in front.'],
  ['x-padding', text({ x: `${good.x}=` }), 'Padding.'],
  ['x-trailing-bits', text({ x: trailing }), 'Bits of the last character that no byte has.'],
  ['x-newline', text({ x: `${good.x}\n` }), 'A line feed that decoders skip.'],
  ['y-missing', JSON.stringify({ kty: 'EC', crv: 'P-256', x: good.x }), 'No y.'],
  ['crv-p384', text({ crv: 'P-384' }), 'Another curve.'],
  ['crv-secp256k1', text({ crv: 'secp256k1' }), 'Another curve.'],
  ['kty-okp', text({ kty: 'OKP' }), 'Another kind of key.'],
  ['kty-oct', JSON.stringify({ kty: 'oct', k: 'AAAA' }), 'A secret.'],
  ['use-enc', text({ use: 'enc' }), 'For encryption.'],
  ['alg-es384', text({ alg: 'ES384' }), 'For another algorithm.'],
  ['key-ops-sign', text({ key_ops: ['sign'] }), 'For signing.'],
  ['key-ops-both', text({ key_ops: ['verify', 'sign'] }), 'For signing too.'],
  ['key-ops-empty', text({ key_ops: [] }), 'For nothing.'],
  ['kid-array', text({ kid: ['a'] }), 'A key id that is no text.'],
  ['unknown-member', text({ x5u: 'https://example.test/key' }), 'A member that is not known.'],
  ['duplicate-member', executor.publicJwk.replace('{', '{"crv":"P-256",'), 'The same name twice.'],
  ['number', text({ kid: 1 }), 'A number.'],
  ['key-set', JSON.stringify({ keys: [good] }), 'A set of keys.'],
  ['array', `[${executor.publicJwk}]`, 'Not an object.'],
  ['empty', '', 'Nothing.'],
  ['pem', '-----BEGIN PUBLIC KEY-----', 'PEM.'],
  ['long', text({ kid: 'k'.repeat(1024) }), 'Longer than 1024 characters.'],
];

/** keys.json */
export function makeKeys() {
  return KEYS.map(({ name, privateJwk, publicJwk, thumbprint }) => ({
    name,
    warning: 'A test key that everybody knows. Never trust it.',
    private_jwk: privateJwk,
    public_jwk: publicJwk,
    thumbprint,
  }));
}

/** jwks.json */
export function makeJwks() {
  return [
    ...ACCEPTED.map(([name, jwk, comment]) => ({
      name,
      comment,
      accept: true,
      jwk,
      canonical: executor.publicJwk,
      thumbprint: executor.thumbprint,
    })),
    ...REFUSED.map(([name, jwk, comment]) => ({ name, comment, accept: false, jwk })),
  ];
}
