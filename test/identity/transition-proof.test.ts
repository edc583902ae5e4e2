import { create, toBinary } from '@bufbuild/protobuf';
import { describe, expect, test } from 'vitest';
import { TransitionStatementSchema } from '../../src/gen/surety/effect/v1/proof_pb.js';
import { PossessionStatementSchema } from '../../src/gen/surety/identity/v1/workload_pb.js';
import { JwkInvalid, publicKeyOf } from '../../src/identity/jwk.js';
import {
  createSigningKey,
  importSigningKey,
  signBytes,
  signCommand,
  signPossession,
  signRenewal,
  signTransition,
} from '../../src/identity/sign.js';
import { SignedMessageError } from '../../src/identity/signed-message-error.js';
import { microsToTimestamp, timestampToMicros } from '../../src/identity/timestamp.js';
import { readTransitionStatement } from '../../src/identity/transition-statement.js';
import { verifyTransitionProof } from '../../src/identity/transition-proof.js';
import { verifyCommand, verifyPossession, verifyRenewal } from '../../src/identity/verify-signed-message.js';
import type { StatementFields } from '../../src/ledger/effect/statement.js';
import { generateKeyPairSync } from 'node:crypto';
import { errorOf, keysOf, resolverOf, STATEMENT } from './signed-message-samples.js';

const key = createSigningKey();
const other = createSigningKey();

const registration = (jwk: string) => ({
  audience: STATEMENT.audience,
  incarnation: 1n,
  registration: { registrationId: 'registration-1', domainId: 'acme.test', proofKeyJwk: jwk },
});

describe('transition proofs', () => {
  test('give back what was signed', async () => {
    const jws = await signTransition(STATEMENT, key);
    const proof = await verifyTransitionProof({ jws }, 'acme.test', keysOf(key));
    expect(proof.statement).toEqual(STATEMENT);
    expect(proof.keyThumbprint).toBe(key.publicKey.thumbprint);
    expect(proof.encoding).toBe('jws');
    expect(proof.proofBytes.toString()).toBe(jws);
  });

  test("look for the key in the caller's domain, whatever the statement says", async () => {
    const jws = await signTransition({ ...STATEMENT, domainId: 'globex.test' }, key);
    const asked: string[] = [];
    const keys = {
      find: async (domainId: string) => {
        asked.push(domainId);
        return undefined;
      },
    };
    const error = await errorOf(() => verifyTransitionProof({ jws }, 'acme.test', keys));
    expect(error).toMatchObject({ reason: 'PROOF_SIGNATURE_INVALID', rule: 'key' });
    expect(asked).toEqual(['acme.test']);
  });

  test('a payload without a good signature is never read', async () => {
    // Its bytes are no message at all: had they been parsed, the refusal would be FIELD_INVALID.
    const jws = await signBytes('transition', Buffer.from('no protobuf'), key);
    const forged = `${jws.slice(0, -86)}${(await signTransition(STATEMENT, key)).slice(-86)}`;
    const unsigned = await errorOf(() => verifyTransitionProof({ jws: forged }, 'acme.test', keysOf(key)));
    expect(unsigned).toMatchObject({ reason: 'PROOF_SIGNATURE_INVALID', rule: 'signature' });
    const signed = await errorOf(() => verifyTransitionProof({ jws }, 'acme.test', keysOf(key)));
    expect(signed).toMatchObject({ reason: 'FIELD_INVALID' });
  });

  test('names the roles and states that may be as the contract names them', async () => {
    const empty = create(TransitionStatementSchema, {});
    const error = await errorOf(async () => readTransitionStatement(empty));
    const states = 'must be one of PREPARED, EXECUTING, SUCCEEDED, FAILED, CANCELLED, UNKNOWN';
    expect((error as SignedMessageError).violations).toEqual(
      expect.arrayContaining([
        {
          field: 'proof.role',
          rule: 'must be one of EFFECT_EXECUTOR, EFFECT_RECONCILER, ACTION_WORKER',
        },
        { field: 'proof.from_state', rule: states },
        { field: 'proof.to_state', rule: states },
      ]),
    );
  });

  test('a store that cannot be reached is not a bad proof', async () => {
    const jws = await signTransition(STATEMENT, key);
    const keys = { find: async () => Promise.reject(new Error('store away')) };
    await expect(verifyTransitionProof({ jws }, 'acme.test', keys)).rejects.toThrow('store away');
  });
});

describe('the signing helper refuses what the service would', () => {
  const hostile: [string, Partial<StatementFields>, string][] = [
    ['a lone surrogate', { effectId: 'effect-\ud800' }, 'proof.effect_id'],
    ['a NUL', { grantId: 'g\u0000' }, 'proof.grant_id'],
    ['an empty nonce', { nonce: '' }, 'proof.nonce'],
    ['a fence of 0', { fence: 0n }, 'proof.fence'],
    ['a short digest', { evidenceDigest: Buffer.alloc(31) }, 'proof.evidence_digest'],
  ];
  test.each(hostile)('%s', async (_name, change, field) => {
    const error = await errorOf(() => signTransition({ ...STATEMENT, ...change }, key));
    expect(error).toBeInstanceOf(SignedMessageError);
    expect((error as SignedMessageError).violations.map((violation) => violation.field)).toEqual([field]);
  });

  test('a fence of 64 bits and a time after 9999', async () => {
    await expect(signTransition({ ...STATEMENT, fence: 2n ** 63n }, key)).rejects.toThrow();
    const late = { ...STATEMENT, issuedAt: 253_402_300_800_000_000n };
    await expect(signTransition(late, key)).rejects.toThrow(RangeError);
  });

  test('a lone surrogate anywhere in a registration or a command', async () => {
    const text = 'x\udc00';
    await expect(signPossession({ registration: { sinks: ['a', text] } }, key)).rejects.toThrow(TypeError);
    await expect(signCommand({ header: { reason: text } }, key)).rejects.toThrow(TypeError);
  });

  test('keys of other kinds', () => {
    const p384 = generateKeyPairSync('ec', { namedCurve: 'P-384' });
    expect(() => publicKeyOf(p384.publicKey)).toThrow(JwkInvalid);
    const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
    expect(() => publicKeyOf(rsa.publicKey)).toThrow(JwkInvalid);
    const pem = p384.privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
    expect(() => importSigningKey(pem)).toThrow(JwkInvalid);
  });

  test('a key from PEM is the same key', () => {
    const pem = key.privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
    expect(importSigningKey(pem).publicKey.thumbprint).toBe(key.publicKey.thumbprint);
  });
});

describe('possession, renewal and commands', () => {
  test('possession is proved by the key that the registration names', async () => {
    const token = await signPossession(registration(key.publicKey.jwk), key);
    const { proofKey, message, payload } = await verifyPossession(token);
    expect(proofKey.thumbprint).toBe(key.publicKey.thumbprint);
    expect(message.registration?.registrationId).toBe('registration-1');
    expect(
      payload.equals(
        toBinary(
          PossessionStatementSchema,
          create(PossessionStatementSchema, registration(key.publicKey.jwk)),
        ),
      ),
    ).toBe(true);
  });

  test('and by no other', async () => {
    const foreign = await signPossession(registration(key.publicKey.jwk), other);
    expect(await errorOf(() => verifyPossession(foreign))).toMatchObject({
      reason: 'POSSESSION_INVALID',
      rule: 'key',
    });
    // With the right kid, and still another key's signature.
    const claimed = { privateKey: other.privateKey, publicKey: key.publicKey };
    const forged = await signPossession(registration(key.publicKey.jwk), claimed);
    expect(await errorOf(() => verifyPossession(forged))).toMatchObject({
      reason: 'POSSESSION_INVALID',
      rule: 'signature',
    });
  });

  test('a renewal is the same payload under the current key', async () => {
    const possession = await verifyPossession(await signPossession(registration(other.publicKey.jwk), other));
    const token = await signRenewal(registration(other.publicKey.jwk), key);
    const renewal = await verifyRenewal(token, possession, resolverOf(key));
    expect(renewal.keyThumbprint).toBe(key.publicKey.thumbprint);
    const elsewhere = await signRenewal(registration(key.publicKey.jwk), key);
    expect(await errorOf(() => verifyRenewal(elsewhere, possession, resolverOf(key)))).toMatchObject({
      reason: 'PROOF_SIGNATURE_INVALID',
      rule: 'payload',
    });
    const swapped = await signPossession(registration(other.publicKey.jwk), key);
    expect(await errorOf(() => verifyRenewal(swapped, possession, resolverOf(key)))).toMatchObject({
      rule: 'header',
    });
  });

  test("a command verifies under its operator's key alone", async () => {
    const token = await signCommand({ header: { commandId: 'command-00000001' } }, key);
    const { message } = await verifyCommand(token, resolverOf(key));
    expect(message.header?.commandId).toBe('command-00000001');
    const error = await errorOf(() => verifyCommand(token, resolverOf(other)));
    expect(error).toMatchObject({ reason: 'COMMAND_SIGNATURE_INVALID', rule: 'key' });
  });
});

test('times keep every microsecond, and what lies below is cut off', () => {
  for (const micros of [0n, 1n, 999_999n, 1_000_000n, 253_402_300_799_999_999n]) {
    expect(timestampToMicros(microsToTimestamp(micros))).toBe(micros);
  }
  expect(timestampToMicros({ seconds: 1n, nanos: 999_999_999 })).toBe(1_999_999n);
  expect(timestampToMicros({ seconds: 253_402_300_800n, nanos: 0 })).toBeUndefined();
  expect(timestampToMicros({ seconds: -1n, nanos: 0 })).toBeUndefined();
  expect(timestampToMicros({ seconds: 1n, nanos: -1 })).toBeUndefined();
  expect(timestampToMicros({ seconds: 1n, nanos: 1_000_000_000 })).toBeUndefined();
  expect(() => microsToTimestamp(-1n)).toThrow(RangeError);
  expect(() => microsToTimestamp(253_402_300_800_000_000n)).toThrow(RangeError);
});
