import { execFileSync } from 'node:child_process';
import { createHash, createPrivateKey, createPublicKey, type KeyObject, verify } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type DescMessage, fromBinary, fromJson, type JsonValue, toBinary } from '@bufbuild/protobuf';
import { compactVerify } from 'jose';
import { describe, expect, test } from 'vitest';
import { DsseEnvelopeSchema, TransitionStatementSchema } from '../../src/gen/surety/effect/v1/proof_pb.js';
import * as evidencePb from '../../src/gen/surety/effect/v1/evidence_pb.js';
import { preAuthenticationEncoding } from '../../src/identity/dsse.js';
import { JwkInvalid, parsePublicJwk, publicKeyOf } from '../../src/identity/jwk.js';
import type { ProofKeys } from '../../src/identity/proof-key-cache.js';
import { SignedMessageError } from '../../src/identity/signed-message-error.js';
import { SIGNED_MESSAGES, type SignedMessageKind } from '../../src/identity/signed-messages.js';
import { type TransitionProofInput, verifyTransitionProof } from '../../src/identity/transition-proof.js';
import { encodeTransitionStatement } from '../../src/identity/transition-statement.js';
import { decodeUtf8 } from '../../src/identity/utf8.js';
import { verifyPossession, verifySignedMessage } from '../../src/identity/verify-signed-message.js';
import type { EvidenceKind } from '../../src/ledger/effect/evidence.js';
import { checkIdText, isCleanText, utf8Length } from '../../src/ledger/text.js';
import { Refused } from '../../src/ledger/run-decision.js';
import { decodeEvidence } from '../../src/rpc/evidence.js';
import { errorOf } from './signed-message-samples.js';

// The vectors are made by scripts/make-testvectors.mjs, which uses nothing of src, no protobuf library and no JOSE library.

interface Vector {
  name: string;
  comment: string;
  accept: boolean;
  reason?: string;
  rule?: string;
  fields?: string[];
}
interface KeyVector {
  name: string;
  private_jwk: Record<string, string>;
  public_jwk: string;
  thumbprint: string;
}
interface TokenVector extends Vector {
  kind: SignedMessageKind;
  key: string;
  token: string;
  statement: string;
}
interface PayloadVector extends TokenVector {
  json?: JsonValue;
  payload_hex: string;
  payload_sha256_hex: string;
}
interface EnvelopeVector extends Vector {
  envelope: { payloadType: string; payload: string; signatures: { keyid: string; sig: string }[] };
  proto_hex: string;
  payload_sha256_hex: string;
}
interface EvidenceVector extends Vector {
  kind: EvidenceKind;
  json?: JsonValue;
  bytes_hex: string;
  sha256_hex: string;
}

const root = fileURLToPath(new URL('../../', import.meta.url));
const load = <T>(name: string): T[] =>
  JSON.parse(readFileSync(`${root}testvectors/${name}.json`, 'utf8')) as T[];
const bytesOf = (hex: string) => Buffer.from(hex, 'hex');
const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

const keyVectors = load<KeyVector>('keys');
const statements = load<PayloadVector>('statements');
const named = <T extends { name: string }>(list: T[], name: string): T => {
  const found = list.find((item) => item.name === name);
  if (found === undefined) throw new Error(`no vector ${name}`);
  return found;
};
const keyByThumbprint = new Map<string, KeyObject>(
  keyVectors.map((vector) => [vector.thumbprint, parsePublicJwk(vector.public_jwk).key]),
);
const resolve = async (thumbprint: string) => keyByThumbprint.get(thumbprint);
const keys: ProofKeys = { find: async (_domain, thumbprint) => resolve(thumbprint) };

function expectRefusal(error: Error, vector: Vector): void {
  expect(error).toBeInstanceOf(SignedMessageError);
  const { reason, rule, violations } = error as SignedMessageError;
  expect({ reason, rule, fields: violations.map(({ field }) => field) }).toEqual({
    reason: vector.reason,
    rule: vector.rule ?? '',
    fields: vector.fields ?? [],
  });
}

async function verifyWithJose(token: string, kind: SignedMessageKind, key: KeyObject) {
  const { typ, cty } = SIGNED_MESSAGES[kind];
  const { payload, protectedHeader } = await compactVerify(token, key, { algorithms: ['ES256'] });
  expect(protectedHeader).toMatchObject({ typ, cty });
  return Buffer.from(payload);
}

test('making the vectors again changes nothing', () => {
  execFileSync(process.execPath, [`${root}scripts/make-testvectors.mjs`, '--check'], { stdio: 'pipe' });
});

test('names are unique in each file', () => {
  for (const file of ['keys', 'jwks', 'texts', 'statements', 'tokens', 'envelopes', 'messages', 'evidence']) {
    const names = load<Vector>(file).map(({ name }) => name);
    expect(new Set(names).size, file).toBe(names.length);
  }
});

describe('keys', () => {
  test.each(keyVectors)('$name', (vector) => {
    const privateKey = createPrivateKey({ key: vector.private_jwk, format: 'jwk' });
    expect(publicKeyOf(privateKey)).toMatchObject({ jwk: vector.public_jwk, thumbprint: vector.thumbprint });
    expect(parsePublicJwk(vector.public_jwk).thumbprint).toBe(vector.thumbprint);
  });

  test.each(load<Vector & { jwk: string; canonical: string; thumbprint: string }>('jwks'))(
    'jwk $name',
    (vector) => {
      if (!vector.accept) {
        expect(() => parsePublicJwk(vector.jwk)).toThrow(JwkInvalid);
        return;
      }
      const { jwk, thumbprint } = parsePublicJwk(vector.jwk);
      expect({ jwk, thumbprint }).toEqual({ jwk: vector.canonical, thumbprint: vector.thumbprint });
    },
  );
});

describe('texts', () => {
  test.each(load<Vector & { utf8_hex: string; octets?: number; utf16be_hex?: string }>('texts'))(
    '$name',
    (vector) => {
      const text = decodeUtf8(bytesOf(vector.utf8_hex));
      expect(text !== undefined && checkIdText(text, 1, 256) === undefined).toBe(vector.accept);
      if (vector.octets !== undefined) expect(utf8Length(text as string)).toBe(vector.octets);
      if (vector.utf16be_hex !== undefined) {
        const utf16 = bytesOf(vector.utf16be_hex).swap16().toString('utf16le');
        expect(isCleanText(utf16)).toBe(false);
        expect(checkIdText(utf16, 1, 256)).toBe('lone surrogate');
      }
    },
  );
});

describe('statements', () => {
  test.each(statements)('$name', async (vector) => {
    const payload = bytesOf(vector.payload_hex);
    expect(sha256(payload)).toBe(vector.payload_sha256_hex);
    const verifying = () => verifyTransitionProof({ jws: vector.token }, 'acme.test', keys);
    // The signature is right in all of them: only the payload can be the reason.
    const key = keyByThumbprint.get(named(keyVectors, vector.key).thumbprint) as KeyObject;
    expect(await verifyWithJose(vector.token, 'transition', key)).toEqual(payload);
    if (!vector.accept) {
      expectRefusal(await errorOf(verifying), vector);
      return;
    }
    const proof = await verifying();
    expect(proof.statementBytes).toEqual(payload);
    expect(proof.statementDigest.toString('hex')).toBe(vector.payload_sha256_hex);
    // The library's own serializer writes the same bytes from the same fields.
    const message = fromJson(TransitionStatementSchema, vector.json as JsonValue);
    expect(Buffer.from(toBinary(TransitionStatementSchema, message))).toEqual(payload);
    if (vector.name !== 'nanoseconds') {
      expect(Buffer.from(encodeTransitionStatement(proof.statement))).toEqual(payload);
    }
  });

  test('fences beyond 2^53 keep every digit', async () => {
    const fenceOf = async (name: string) =>
      (await verifyTransitionProof({ jws: named(statements, name).token }, 'acme.test', keys)).statement
        .fence;
    expect(await fenceOf('fence-2^53+1')).toBe(9_007_199_254_740_993n);
    expect(await fenceOf('fence-2^63-1')).toBe(9_223_372_036_854_775_807n);
  });

  test('NFC and NFD ids stay distinct', async () => {
    const idOf = async (name: string) =>
      (await verifyTransitionProof({ jws: named(statements, name).token }, 'acme.test', keys)).statement
        .effectId;
    const [nfc, nfd] = [await idOf('nfc'), await idOf('nfd')];
    expect(nfc).not.toBe(nfd);
    expect(nfc).toBe(nfd.normalize('NFC'));
  });

  test('a byte order mark stays', async () => {
    const { token } = named(statements, 'byte-order-mark');
    const { statement } = await verifyTransitionProof({ jws: token }, 'acme.test', keys);
    expect(statement.effectId).toBe('\ufeffeffect-1');
  });

  test('digits below a microsecond are cut off in the fields and kept in the bytes', async () => {
    const { token } = named(statements, 'nanoseconds');
    const { statement } = await verifyTransitionProof({ jws: token }, 'acme.test', keys);
    expect(statement.issuedAt).toBe(1_790_000_100_999_999n);
  });
});

describe('tokens', () => {
  const tokens = load<TokenVector>('tokens');

  test.each(tokens)('$name', async (vector) => {
    const verifying = () => verifyTransitionProof({ jws: vector.token }, 'acme.test', keys);
    if (!vector.accept) {
      expectRefusal(await errorOf(verifying), vector);
      return;
    }
    const statement = named(statements, vector.statement);
    const proof = await verifying();
    expect(proof.statementDigest.toString('hex')).toBe(statement.payload_sha256_hex);
    expect(proof.proofBytes.toString('latin1')).toBe(vector.token);
    const key = keyByThumbprint.get(proof.keyThumbprint) as KeyObject;
    expect(await verifyWithJose(vector.token, 'transition', key)).toEqual(bytesOf(statement.payload_hex));
  });

  test('two signatures of one statement are one statement', async () => {
    const [good, swapped] = [named(tokens, 'good'), named(tokens, 'swapped-s')];
    expect(good.token).not.toBe(swapped.token);
    const digestOf = async (jws: string) =>
      (await verifyTransitionProof({ jws }, 'acme.test', keys)).statementDigest;
    expect(await digestOf(good.token)).toEqual(await digestOf(swapped.token));
  });
});

describe('envelopes', () => {
  test.each(load<EnvelopeVector>('envelopes'))('$name', async (vector) => {
    const { payloadType, payload, keyId, signature } = fromBinary(
      DsseEnvelopeSchema,
      bytesOf(vector.proto_hex),
    );
    const [{ keyid, sig }] = vector.envelope.signatures as [{ keyid: string; sig: string }];
    expect({ payloadType, keyId, payload: Buffer.from(payload), signature: Buffer.from(signature) }).toEqual({
      payloadType: vector.envelope.payloadType,
      keyId: keyid,
      payload: Buffer.from(vector.envelope.payload, 'base64'),
      signature: Buffer.from(sig, 'base64'),
    });
    const input: TransitionProofInput = { dsse: { payloadType, payload, keyId, signature } };
    const verifying = () => verifyTransitionProof(input, 'acme.test', keys);
    if (!vector.accept) {
      expectRefusal(await errorOf(verifying), vector);
      return;
    }
    const proof = await verifying();
    expect(proof.statementDigest.toString('hex')).toBe(vector.payload_sha256_hex);
    expect(proof.encoding).toBe('dsse');
    expect(proof.proofBytes.toString('hex')).toBe(vector.proto_hex);
    // As a program with nothing but a standard library verifies it.
    const jwk = JSON.parse(named(keyVectors, 'executor').public_jwk) as Record<string, string>;
    const key = createPublicKey({ key: jwk, format: 'jwk' });
    expect(verify('sha256', preAuthenticationEncoding(payloadType, payload), key, signature)).toBe(true);
  });
});

describe('messages', () => {
  test.each(load<PayloadVector>('messages'))('$name', async (vector) => {
    const payload = bytesOf(vector.payload_hex);
    expect(sha256(payload)).toBe(vector.payload_sha256_hex);
    const key = keyByThumbprint.get(named(keyVectors, vector.key).thumbprint) as KeyObject;
    expect(await verifyWithJose(vector.token, vector.kind, key)).toEqual(payload);
    const verifying = () =>
      vector.kind === 'possession'
        ? verifyPossession(vector.token)
        : verifySignedMessage(vector.kind, vector.token, resolve);
    if (!vector.accept) {
      expectRefusal(await errorOf(verifying), vector);
      return;
    }
    const verified = await verifying();
    expect(verified.payloadDigest.toString('hex')).toBe(vector.payload_sha256_hex);
    const schema: DescMessage = SIGNED_MESSAGES[vector.kind].schema;
    expect(Buffer.from(toBinary(schema, fromJson(schema, vector.json as JsonValue)))).toEqual(payload);
    expect(Buffer.from(toBinary(schema, verified.message))).toEqual(payload);
  });
});

describe('evidence', () => {
  const schemas: Record<EvidenceKind, DescMessage> = {
    execution: evidencePb.ExecutionEvidenceSchema,
    uncertainty: evidencePb.UncertaintyEvidenceSchema,
    terminal: evidencePb.TerminalEvidenceSchema,
    reconciliation: evidencePb.ReconciliationEvidenceSchema,
  };

  test.each(load<EvidenceVector>('evidence'))('$name', async (vector) => {
    const bytes = bytesOf(vector.bytes_hex);
    expect(sha256(bytes)).toBe(vector.sha256_hex);
    if (!vector.accept) {
      const error = await errorOf(() => decodeEvidence(vector.kind, bytes));
      expect(error).toBeInstanceOf(Refused);
      const { reason, violations } = (error as Refused).refusal;
      expect(reason).toBe(vector.reason);
      expect(violations?.map(({ field }) => field)).toEqual(vector.fields);
      return;
    }
    const evidence = decodeEvidence(vector.kind, bytes);
    expect(evidence.bytes).toEqual(bytes);
    expect(evidence.digest.toString('hex')).toBe(vector.sha256_hex);
    const schema = schemas[vector.kind];
    expect(Buffer.from(toBinary(schema, fromJson(schema, vector.json as JsonValue)))).toEqual(bytes);
  });
});
