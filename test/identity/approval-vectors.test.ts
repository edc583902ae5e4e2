import { createHash, createPrivateKey } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fromJson, type JsonValue, toBinary } from '@bufbuild/protobuf';
import { compactVerify } from 'jose';
import { describe, expect, test } from 'vitest';
import { BoundedGrantStatementSchema } from '../../src/gen/surety/action/v1/bounded_grant_pb.js';
import { parsePublicJwk } from '../../src/identity/jwk.js';
import { importSigningKey, signBoundedGrant, signEvidence } from '../../src/identity/sign.js';
import { SignedMessageError } from '../../src/identity/signed-message-error.js';
import { SIGNED_EVIDENCE, SIGNED_MESSAGES } from '../../src/identity/signed-messages.js';
import { verifyBoundedGrant, verifyEvidenceSignature } from '../../src/identity/verify-signed-message.js';
import { errorOf } from './signed-message-samples.js';

// The vectors are made by scripts/testvectors/approvals.mjs, which uses nothing of src.

interface Vector {
  readonly name: string;
  readonly accept: boolean;
  readonly reason?: string;
  readonly rule?: string;
  readonly fields?: readonly string[];
  readonly token: string;
}
interface ApprovalVector extends Vector {
  readonly evidence: string;
  readonly evidence_sha256_hex: string;
}
interface GrantVector extends Vector {
  readonly json?: JsonValue;
  readonly payload_hex: string;
  readonly payload_sha256_hex: string;
}
interface KeyVector {
  readonly name: string;
  readonly private_jwk: Record<string, string>;
  readonly public_jwk: string;
}

const load = <T>(name: string): T[] =>
  JSON.parse(readFileSync(new URL(`../../testvectors/${name}.json`, import.meta.url), 'utf8')) as T[];
const ownerVector = load<KeyVector>('keys').find(({ name }) => name === 'owner') as KeyVector;
const owner = parsePublicJwk(ownerVector.public_jwk);
/** Only the owner is known: every other key is nobody's. */
const resolve = async (thumbprint: string) => (thumbprint === owner.thumbprint ? owner.key : undefined);
const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');
const approvals = load<ApprovalVector>('approvals');
const grants = load<GrantVector>('bounded-grants');
const signingKey = importSigningKey(
  createPrivateKey({ key: ownerVector.private_jwk, format: 'jwk' }).export({
    type: 'pkcs8',
    format: 'pem',
  }) as string,
);

function expectRefusal(error: Error, { reason, rule = '', fields = [] }: Vector): void {
  expect(error).toBeInstanceOf(SignedMessageError);
  const refused = error as SignedMessageError;
  expect({
    reason: refused.reason,
    rule: refused.rule,
    fields: refused.violations.map(({ field }) => field),
  }).toEqual({ reason, rule, fields });
}

describe('approvals', () => {
  test('names are unique, and hostile ones among them', () => {
    expect(new Set(approvals.map(({ name }) => name)).size).toBe(approvals.length);
    expect(approvals.some(({ accept }) => !accept)).toBe(true);
  });

  test.each(approvals)('$name', async (vector) => {
    const evidence = Buffer.from(vector.evidence, 'utf8');
    expect(sha256(evidence)).toBe(vector.evidence_sha256_hex);
    const verifying = () => verifyEvidenceSignature(vector.token, evidence, resolve);
    if (!vector.accept) {
      expectRefusal(await errorOf(verifying), vector);
      return;
    }
    const verified = await verifying();
    expect(verified).toEqual({
      keyThumbprint: owner.thumbprint,
      token: Buffer.from(vector.token, 'latin1'),
    });
    const { payload, protectedHeader } = await compactVerify(vector.token, owner.key);
    expect(Buffer.from(payload)).toEqual(evidence);
    expect(protectedHeader).toMatchObject({ typ: SIGNED_EVIDENCE.typ, cty: SIGNED_EVIDENCE.cty });
  });

  test('the client signs the same header and payload', async () => {
    const vector = approvals.find(({ name }) => name === 'approved') as ApprovalVector;
    const token = await signEvidence(Buffer.from(vector.evidence), signingKey);
    expect(token.split('.').slice(0, 2)).toEqual(vector.token.split('.').slice(0, 2));
    await verifyEvidenceSignature(token, Buffer.from(vector.evidence), resolve);
  });

  test('no other signed message has its type', () => {
    const types = [...Object.values(SIGNED_MESSAGES), SIGNED_EVIDENCE].map(({ typ }) => typ);
    expect(new Set(types).size).toBe(types.length);
  });
});

describe('bounded grants', () => {
  test.each(grants)('$name', async (vector) => {
    const payload = Buffer.from(vector.payload_hex, 'hex');
    expect(sha256(payload)).toBe(vector.payload_sha256_hex);
    const verifying = () => verifyBoundedGrant(vector.token, resolve);
    if (!vector.accept) {
      expectRefusal(await errorOf(verifying), vector);
      return;
    }
    const verified = await verifying();
    expect(verified.payloadDigest.toString('hex')).toBe(vector.payload_sha256_hex);
    const message = fromJson(BoundedGrantStatementSchema, vector.json as JsonValue);
    expect(Buffer.from(toBinary(BoundedGrantStatementSchema, message))).toEqual(payload);
    expect(verified.message).toEqual(message);
    const again = await signBoundedGrant(message, signingKey);
    expect(again.split('.').slice(0, 2)).toEqual(vector.token.split('.').slice(0, 2));
  });
});
