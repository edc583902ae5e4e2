import { createHash, sign, verify } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseDsse, preAuthenticationEncoding, verifyDsse } from '../../src/identity/dsse.js';
import { derFromSignature, signatureFromDer } from '../../src/identity/es256.js';
import { createSigningKey, signDsse, signTransition } from '../../src/identity/sign.js';
import { SIGNED_MESSAGES } from '../../src/identity/signed-messages.js';
import { verifyTransitionProof } from '../../src/identity/transition-proof.js';
import { errorOf, keysOf, STATEMENT } from './signed-message-samples.js';

const type = SIGNED_MESSAGES.transition;
const key = createSigningKey();
const bytes = fc.uint8Array({ minLength: 1, maxLength: 512 });

test("the pre-authentication encoding is the specification's example", () => {
  const pae = preAuthenticationEncoding('http://example.com/HelloWorld', Buffer.from('hello world'));
  expect(pae.toString()).toBe('DSSEv1 29 http://example.com/HelloWorld 11 hello world');
});

test('lengths are octets, so that no two envelopes have one encoding', () => {
  expect(preAuthenticationEncoding('\u00e9', Buffer.from('\u00e9')).toString()).toBe(
    'DSSEv1 2 \u00e9 2 \u00e9',
  );
  fc.assert(
    fc.property(fc.string(), bytes, fc.string(), bytes, (typeA, a, typeB, b) => {
      const same = typeA === typeB && Buffer.from(a).equals(b);
      const equal = preAuthenticationEncoding(typeA, a).equals(preAuthenticationEncoding(typeB, b));
      expect(equal).toBe(same);
    }),
  );
});

test('signatures of node in DER become r and s, and back, and verify in both forms', () => {
  fc.assert(
    fc.property(bytes, (data) => {
      const der = sign('sha256', data, key.privateKey);
      const signature = signatureFromDer(der) as Buffer;
      expect(derFromSignature(signature)).toEqual(der);
      const p1363 = { key: key.publicKey.key, dsaEncoding: 'ieee-p1363' } as const;
      expect(verify('sha256', data, p1363, signature)).toBe(true);
    }),
    { numRuns: 300 },
  );
});

test('r and s of any size have exactly one DER', () => {
  const scalar = fc.oneof(
    fc.uint8Array({ minLength: 32, maxLength: 32 }),
    // Leading zeros, and leading zeros before a high bit.
    fc.integer({ min: 0, max: 32 }).map((zeros) => Buffer.alloc(32, 0xff).fill(0, 0, zeros)),
    fc.integer({ min: 0, max: 32 }).map((zeros) => Buffer.alloc(32, 0x7f).fill(0, 0, zeros)),
  );
  fc.assert(
    fc.property(scalar, scalar, (r, s) => {
      const signature = Buffer.concat([r, s]);
      expect(signatureFromDer(derFromSignature(signature))).toEqual(signature);
    }),
  );
});

test('any bytes that are taken as DER are the DER of what was read', () => {
  const der = sign('sha256', Buffer.from('x'), key.privateKey);
  const mutated = fc
    .tuple(fc.nat(der.length), fc.nat(3), fc.uint8Array({ maxLength: 3 }))
    .map(([at, cut, put]) => Buffer.concat([der.subarray(0, at), put, der.subarray(at + cut)]));
  fc.assert(
    fc.property(fc.oneof(mutated, fc.uint8Array({ maxLength: 80 })), (candidate) => {
      const signature = signatureFromDer(candidate);
      if (signature !== undefined) expect(derFromSignature(signature)).toEqual(Buffer.from(candidate));
    }),
    { numRuns: 2000 },
  );
});

test('one changed bit anywhere in an envelope: refused', async () => {
  const envelope = signDsse(STATEMENT, key);
  const parts = ['payload', 'signature', 'keyId', 'payloadType'] as const;
  const flip = (part: Uint8Array, bit: number) => {
    const copy = Buffer.from(part);
    const index = (bit >> 3) % copy.length;
    copy[index] = (copy[index] as number) ^ (1 << (bit & 7));
    return copy;
  };
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...parts), fc.nat(8 * 256), async (part, bit) => {
      const value = envelope[part];
      const changed =
        typeof value === 'string' ? flip(Buffer.from(value), bit).toString('latin1') : flip(value, bit);
      const input = { dsse: { ...envelope, [part]: changed } };
      const error = await errorOf(() => verifyTransitionProof(input, 'acme.test', keysOf(key)));
      expect(error).toMatchObject({ reason: 'PROOF_SIGNATURE_INVALID' });
    }),
    { numRuns: 500 },
  );
});

test('both encodings prove the same statement', async () => {
  const keys = keysOf(key);
  const jws = await verifyTransitionProof({ jws: await signTransition(STATEMENT, key) }, 'acme.test', keys);
  const dsse = await verifyTransitionProof({ dsse: signDsse(STATEMENT, key) }, 'acme.test', keys);
  expect(dsse.statement).toEqual(jws.statement);
  expect(dsse.statementDigest).toEqual(jws.statementDigest);
  expect(dsse.statementDigest).toEqual(createHash('sha256').update(jws.statementBytes).digest());
});

test('a JWS signature is none in DSSE: the two sign different bytes', async () => {
  const token = await signTransition(STATEMENT, key);
  const signature = derFromSignature(Buffer.from(token.split('.')[2] as string, 'base64url'));
  const envelope = { ...signDsse(STATEMENT, key), signature };
  expect(await verifyDsse(parseDsse(envelope, type), key.publicKey.key)).toBe(false);
});

test('only kinds with a payload type have envelopes', async () => {
  const envelope = signDsse(STATEMENT, key);
  for (const kind of ['possession', 'renewal', 'command'] as const) {
    const error = await errorOf(() => parseDsse(envelope, SIGNED_MESSAGES[kind]));
    expect(error).toMatchObject({ rule: 'header' });
  }
});

test('what was verified is a copy: bytes that change afterwards change nothing', async () => {
  const { payload, ...rest } = signDsse(STATEMENT, key);
  const shared = Buffer.from(payload);
  const keys = keysOf(key);
  // The key is looked for before the signature is: a caller's buffer may be reused meanwhile.
  const find = async (domainId: string, thumbprint: string) => {
    shared.fill(0);
    return keys.find(domainId, thumbprint);
  };
  const proof = await verifyTransitionProof({ dsse: { ...rest, payload: shared } }, 'acme.test', { find });
  expect(proof.statement).toEqual(STATEMENT);
  expect(proof.statementBytes).toEqual(Buffer.from(payload));
});
