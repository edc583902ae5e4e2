import { createHash, generateKeyPairSync } from 'node:crypto';
import { calculateJwkThumbprint, exportJWK } from 'jose';
import { expect, test } from 'vitest';
import { FlatJsonInvalid, parseFlatJson } from '../../src/identity/flat-json.js';
import { JwkInvalid, keyThumbprint, parsePublicJwk, publicKeyOf } from '../../src/identity/jwk.js';
import { createSigningKey } from '../../src/identity/sign.js';

function ruleOf(jwk: string): string {
  try {
    parsePublicJwk(jwk);
  } catch (error) {
    if (error instanceof JwkInvalid) return error.rule;
    throw error;
  }
  return 'accepted';
}

test('thumbprints are those of jose', async () => {
  for (let round = 0; round < 50; round += 1) {
    const { publicKey, privateKey } = createSigningKey();
    const jwk = await exportJWK(publicKey.key);
    expect(publicKey.thumbprint).toBe(await calculateJwkThumbprint(jwk, 'sha256'));
    expect(publicKeyOf(privateKey)).toMatchObject({ jwk: publicKey.jwk, thumbprint: publicKey.thumbprint });
    expect(parsePublicJwk(JSON.stringify(jwk)).key.equals(publicKey.key)).toBe(true);
    expect(createHash('sha256').update(publicKey.jwk).digest('base64url')).toBe(publicKey.thumbprint);
  }
});

test('a refusal says which rule, and quotes nothing', () => {
  const { privateKey, publicKey } = createSigningKey();
  const secret = privateKey.export({ format: 'jwk' });
  expect(ruleOf(JSON.stringify(secret))).toBe('must not hold a private key');
  const short = JSON.stringify({ ...JSON.parse(publicKey.jwk), x: 'AAAA' });
  expect(ruleOf(short)).toBe('x must be 32 bytes in base64url without padding');
  expect(ruleOf('{"kty":1}')).toBe('must be a JSON object of strings, no name twice');
  expect(ruleOf(JSON.stringify(secret))).not.toContain(secret.d as string);
});

test('flat JSON: what it takes is what JSON.parse reads', () => {
  const texts = ['{}', ' {"a" : "b"}\n', '{"a":[]}', '{"a":["b","c"],"d":"\\u0041\\"\\\\\\/"}', '{"":""}'];
  for (const text of texts) expect(Object.fromEntries(parseFlatJson(text))).toEqual(JSON.parse(text));
});

test('flat JSON: everything else is refused', () => {
  const texts = [
    '',
    '[]',
    'null',
    '"a"',
    '{',
    '{"a"}',
    '{"a":}',
    '{"a":1}',
    '{"a":true}',
    '{"a":null}',
    '{"a":{}}',
    '{"a":[1]}',
    '{"a":["b",]}',
    '{"a":"b",}',
    '{,"a":"b"}',
    '{"a":"b"}{',
    '{"a":"b"} x',
    '{"a":"\n"}',
    '{"a":"\\x"}',
    '{"a":"\\u12"}',
    "{'a':'b'}",
    '{a:"b"}',
    '{"a":"b","a":"b"}',
    '{"a":"b","\\u0061":"c"}',
    '\ufeff{}',
    '{"a":"b"/**/}',
    '{"a":["b"',
  ];
  for (const text of texts) expect(() => parseFlatJson(text), text).toThrow(FlatJsonInvalid);
});

test('flat JSON: a name like __proto__ is a name like others', () => {
  expect([...parseFlatJson('{"__proto__":"a","constructor":"b"}').keys()]).toEqual([
    '__proto__',
    'constructor',
  ]);
});

test("a certificate's key has jose's thumbprint too, of whatever kind it is", async () => {
  for (const key of [
    generateKeyPairSync('rsa', { modulusLength: 2048 }).publicKey,
    generateKeyPairSync('ed25519').publicKey,
    ...['P-256', 'P-384', 'P-521'].map((namedCurve) => generateKeyPairSync('ec', { namedCurve }).publicKey),
  ]) {
    expect(keyThumbprint(key)).toBe(await calculateJwkThumbprint(await exportJWK(key), 'sha256'));
  }
  const { publicKey } = createSigningKey();
  expect(keyThumbprint(publicKey.key)).toBe(publicKey.thumbprint);
});
