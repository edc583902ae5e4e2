import { CompactSign, compactVerify } from 'jose';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseCompactJws, protectedHeader, verifyJws } from '../../src/identity/jws.js';
import { createSigningKey, type SigningKey, signBytes } from '../../src/identity/sign.js';
import { SignedMessageError } from '../../src/identity/signed-message-error.js';
import { SIGNED_MESSAGES, type SignedMessageKind } from '../../src/identity/signed-messages.js';
import { errorOf } from './signed-message-samples.js';

const type = SIGNED_MESSAGES.transition;
const key = createSigningKey();
const kinds = Object.keys(SIGNED_MESSAGES) as SignedMessageKind[];

/** Whether jose and a check of typ, cty and kid by hand take the token. */
async function acceptedByJose(token: string, signer: SigningKey): Promise<boolean> {
  try {
    const { protectedHeader: header } = await compactVerify(token, signer.publicKey.key, {
      algorithms: ['ES256'],
    });
    const { typ, cty, kid } = header;
    return typ === type.typ && cty === type.cty && kid === signer.publicKey.thumbprint;
  } catch {
    return false;
  }
}

async function acceptedByUs(token: string, signer: SigningKey): Promise<boolean> {
  try {
    const jws = parseCompactJws(token, type);
    return jws.kid === signer.publicKey.thumbprint && (await verifyJws(jws, signer.publicKey.key));
  } catch (error) {
    expect(error).toBeInstanceOf(SignedMessageError);
    return false;
  }
}

test('each kind of message has a type and a content type of its own', () => {
  expect(kinds.map((kind) => SIGNED_MESSAGES[kind].typ)).toEqual([
    'surety-transition+jws',
    'surety-possession+jws',
    'surety-renewal+jws',
    'surety-command+jws',
    'surety-clearance+jws',
    'surety-bounded-grant+jws',
  ]);
  expect(type.cty).toBe('application/x-protobuf; messageType="surety.effect.v1.TransitionStatement"');
});

test('a token of one kind is no token of another', async () => {
  for (const kind of kinds) {
    const token = await signBytes(kind, Buffer.from('payload'), key);
    for (const other of kinds) {
      const parse = () => parseCompactJws(token, SIGNED_MESSAGES[other]);
      if (other === kind) expect(parse().kid).toBe(key.publicKey.thumbprint);
      else
        expect(await errorOf(parse)).toMatchObject({ rule: 'header', reason: SIGNED_MESSAGES[other].reason });
    }
  }
});

test('random payloads: what we sign verifies here and in jose, to the same bytes', async () => {
  const payloads = fc.uint8Array({ minLength: 1, maxLength: 2048 });
  await fc.assert(
    fc.asyncProperty(payloads, async (payload) => {
      const token = await signBytes('transition', payload, key);
      const jws = parseCompactJws(token, type);
      expect(await verifyJws(jws, key.publicKey.key)).toBe(true);
      expect(jws.payload).toEqual(Buffer.from(payload));
      expect(Buffer.from((await compactVerify(token, key.publicKey.key)).payload)).toEqual(jws.payload);
    }),
    { numRuns: 100 },
  );
});

test('random headers: taken exactly where alg, typ, cty and kid alone stand in it', async () => {
  const right = protectedHeader(type, key.publicKey.thumbprint);
  const extra = fc.dictionary(fc.string({ maxLength: 6 }), fc.string({ maxLength: 6 }), { maxKeys: 2 });
  await fc.assert(
    fc.asyncProperty(extra, fc.shuffledSubarray(Object.entries(right)), async (surplus, members) => {
      const header = { ...surplus, ...Object.fromEntries(members), alg: 'ES256' };
      const exact = Object.keys(header).length === 4 && members.some(([name]) => name === 'kid');
      const complete = Object.entries(right).every(
        ([name, value]) => (header as Record<string, string>)[name] === value,
      );
      const token = await new CompactSign(Buffer.from('x')).setProtectedHeader(header).sign(key.privateKey);
      expect(await acceptedByUs(token, key)).toBe(exact && complete);
    }),
    { numRuns: 100 },
  );
});

test('one changed bit anywhere: refused, and never taken where jose refuses', async () => {
  const token = await signBytes('transition', Buffer.from('a payload of some length'), key);
  await fc.assert(
    fc.asyncProperty(fc.nat(token.length - 1), fc.integer({ min: 0, max: 6 }), async (index, bit) => {
      const flipped = String.fromCharCode(token.charCodeAt(index) ^ (1 << bit));
      const changed = token.slice(0, index) + flipped + token.slice(index + 1);
      expect(await acceptedByUs(changed, key)).toBe(false);
    }),
    { numRuns: 500 },
  );
});

test('inserted, removed and replaced characters: never taken where jose refuses', async () => {
  const token = await signBytes('transition', Buffer.from('payload'), key);
  const piece = fc.constantFrom('=', '\n', ' ', '.', 'A', '+', '/', '\u0000', '%3D', '\u00e9', '\ud800');
  await fc.assert(
    fc.asyncProperty(fc.nat(token.length), fc.nat(2), piece, async (index, removed, inserted) => {
      const changed = token.slice(0, index) + inserted + token.slice(index + removed);
      if (changed === token) return;
      if (await acceptedByUs(changed, key)) expect(await acceptedByJose(changed, key)).toBe(true);
      expect(await acceptedByUs(changed, key)).toBe(false);
    }),
    { numRuns: 500 },
  );
});

describe('what jose takes and we do not', () => {
  test('padding and line feeds', async () => {
    const token = await signBytes('transition', Buffer.from('payload'), key);
    const [header, payload, signature] = token.split('.') as [string, string, string];
    // Holds our reason for the re-encoding against the library of today.
    const loose = [`${header}.${payload}.${signature}==`, `${header}.${payload}.${signature}\n`];
    expect(await Promise.all(loose.map((text) => acceptedByJose(text, key)))).toEqual([true, true]);
    expect(await Promise.all(loose.map((text) => acceptedByUs(text, key)))).toEqual([false, false]);
  });

  test('a header with more in it', async () => {
    const header = { ...protectedHeader(type, key.publicKey.thumbprint), jku: 'https://example.test/keys' };
    const token = await new CompactSign(Buffer.from('x')).setProtectedHeader(header).sign(key.privateKey);
    expect(await acceptedByJose(token, key)).toBe(true);
    expect(await acceptedByUs(token, key)).toBe(false);
  });
});

test('the payload may be as long as its kind allows, and not a byte longer', async () => {
  const longest = await signBytes('transition', Buffer.alloc(type.maxPayloadBytes, 1), key);
  expect(parseCompactJws(longest, type).payload).toHaveLength(type.maxPayloadBytes);
  const tooLong = await signBytes('transition', Buffer.alloc(type.maxPayloadBytes + 1, 1), key);
  expect(await errorOf(() => parseCompactJws(tooLong, type))).toMatchObject({ rule: 'encoding' });
  const huge = `${'A'.repeat(1 << 20)}.AAAA.${'A'.repeat(86)}`;
  expect(await errorOf(() => parseCompactJws(huge, type))).toMatchObject({ rule: 'encoding' });
});

test('errors quote nothing of the token', async () => {
  const token = await signBytes('possession', Buffer.from('secret payload'), key);
  const error = await errorOf(() => parseCompactJws(token, type));
  for (const segment of token.split('.')) expect(error.message).not.toContain(segment);
});
