import { BinaryReader, BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { registerWorkload } from '../../src/cli/client/register-workload.js';
import { digest, type WorkloadSession } from '../../src/cli/client/workload-session.js';
import { DEMO_SINK } from '../../src/cli/demo/set-up-domain.js';
import { WorkloadRole } from '../../src/gen/surety/identity/v1/workload_pb.js';
import { createSigningKey, signBytes } from '../../src/identity/sign.js';
import { EffectService } from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { ACME, GLOBEX, OPERATOR, refusedWith } from '../support/e2e-world.js';
import { envelope, jwsProof, type ProofInit, swapped, token } from '../support/signed-as.js';
import { hex, type Target, TransitionRig } from '../support/transition-rig.js';

let rig: TransitionRig;
let executor: WorkloadSession;

beforeAll(async () => {
  rig = await TransitionRig.open({ globex: true });
  executor = await rig.world.executor();
});
afterAll(() => rig.close());

const dsse = (value: ReturnType<typeof envelope>): ProofInit => ({ encoding: { case: 'dsse', value } });
const jwsOf = ({ proof }: { proof: ProofInit }): string => proof.encoding?.value as string;

describe('a proof is a JWS or a DSSE envelope', () => {
  test.each(['jws', 'dsse'] as const)('%s is taken, and kept as it came', async (encoding) => {
    const target = await rig.prepared();
    const request = rig.request('start', executor, target, { encoding });
    expect(await rig.send('start', request, executor.channel)).toMatchObject({ duplicate: false });
    const { rows } = await rig.world.sql.query(
      'SELECT proof, proof_encoding FROM transitions WHERE domain_id = $1 AND effect_id = $2',
      [ACME, target.effectId],
    );
    expect(rows).toHaveLength(1);
    expect(rows[0].proof_encoding).toBe(encoding);
    expect(hex(rows[0].proof)).toContain(
      encoding === 'jws' ? hex(Buffer.from(jwsOf(request))) : hex(request.statement),
    );
    // In both it is the statement's digest that the log has.
    const entry = await rig.lastEntry();
    expect(hex(entry.effect?.proofDigest)).toBe(hex(digest(request.statement)));
  });

  test('the same statement in the other encoding, or under (r, n − s), is the same statement', async () => {
    const target = await rig.prepared();
    const request = rig.request('start', executor, target);
    const jws = jwsOf(request);
    const first = await rig.send('start', request, executor.channel);
    const traces = await rig.traces();
    const others = [
      jwsProof(swapped(jws)),
      jwsProof(token(request.statement, executor.key)),
      dsse(envelope(request.statement, executor.key)),
    ];
    expect(swapped(jws)).not.toBe(jws);
    for (const proof of others) {
      const result = await rig.send('start', { ...request, proof }, executor.channel);
      expect(result).toEqual({ ...first, duplicate: true });
    }
    expect(await rig.traces()).toEqual(traces);
  });

  test('and spends the same nonce: a token with the other s is no way to spend it again', async () => {
    const target = await rig.prepared();
    const request = rig.request('start', executor, target);
    const proof = jwsProof(swapped(jwsOf(request)));
    expect(await rig.send('start', { ...request, proof }, executor.channel)).toMatchObject({
      duplicate: false,
    });
    const traces = await rig.traces();
    expect(await rig.send('start', request, executor.channel)).toMatchObject({ duplicate: true });
    expect(await rig.traces()).toEqual(traces);
  });
});

describe('refused, and nothing is spent', () => {
  let target: Target;
  let statement: Uint8Array<ArrayBuffer>;
  let jws: string;

  beforeAll(async () => {
    target = await rig.prepared();
    const request = rig.request('start', executor, target);
    statement = request.statement;
    jws = jwsOf(request);
  });

  /** The request with this proof in place of its own. */
  const refused = (proof: ProofInit) => {
    const { evidence } = rig.request('start', executor, target);
    return refusedWith(
      executor.channel.service(EffectService).startExecution({ effectId: target.effectId, evidence, proof }),
    );
  };

  async function unsigned(proof: ProofInit, rule: string): Promise<void> {
    const { code, reason, metadata } = await refused(proof);
    const field = proof.encoding?.case === 'dsse' ? 'proof.dsse' : 'proof.jws';
    expect({ code, reason, metadata }).toEqual({
      code: 'UNAUTHENTICATED',
      reason: 'PROOF_SIGNATURE_INVALID',
      metadata: { rule, field },
    });
  }

  const headers: readonly [string, Record<string, unknown>][] = [
    ['another typ', { typ: 'surety-possession+jws' }],
    ['no typ', { typ: undefined }],
    ['another cty', { cty: 'application/x-protobuf; messageType="surety.authority.v1.AdminCommand"' }],
    ['no cty', { cty: undefined }],
    ['a further member', { jku: 'https://example.com/keys' }],
    ['a critical member', { crit: ['b64'], b64: false }],
    ['alg none', { alg: 'none' }],
    ['alg HS256', { alg: 'HS256' }],
    ['no kid', { kid: undefined }],
    ['a kid that is no thumbprint', { kid: 'key-1' }],
  ];
  test.each(headers)('a JWS with %s', async (_name, header) => {
    await unsigned(jwsProof(token(statement, executor.key, { header })), 'header');
  });

  test('a JWS in another form', async () => {
    const [header, payload, signature] = jws.split('.') as [string, string, string];
    const twice = Buffer.from(Buffer.from(header, 'base64url').toString().replace('{', '{"alg":"ES256",'));
    const forms = {
      empty: '',
      'no signature': `${header}.${payload}.`,
      'the signature in DER': token(statement, executor.key, { der: true }),
      padding: `${header}.${payload}=.${signature}`,
      'a newline behind it': `${jws}\n`,
      'a fourth part': `${jws}.AA`,
      'other trailing bits': `${jws.slice(0, -1)}${jws.endsWith('A') ? 'B' : String.fromCharCode(jws.charCodeAt(jws.length - 1) + 1)}`,
      'too long': `${header}.${'A'.repeat(12_000)}.${signature}`,
    };
    for (const form of Object.values(forms)) await unsigned(jwsProof(form), 'encoding');
    await unsigned(jwsProof(`${twice.toString('base64url')}.${payload}.${signature}`), 'header');
  });

  test('a signature of something else', async () => {
    const [header, payload] = jws.split('.') as [string, string];
    const other = token(rig.request('start', executor, target).statement, executor.key).split('.')[2];
    await unsigned(jwsProof(`${header}.${payload}.${other}`), 'signature');
    // The same bytes, signed as another kind of message.
    await unsigned(jwsProof(await signBytes('possession', statement, executor.key)), 'header');
  });

  test('another key: one that nobody registered, one that claims to be ours, one of another domain', async () => {
    const stranger = createSigningKey();
    await unsigned(jwsProof(token(statement, stranger)), 'key');
    await unsigned(dsse(envelope(statement, stranger)), 'key');
    const liar = { ...stranger, publicKey: executor.key.publicKey };
    await unsigned(jwsProof(token(statement, liar)), 'signature');
    await unsigned(dsse(envelope(statement, liar)), 'signature');

    const channel = rig.world.channel(`spiffe://${GLOBEX}/executor/payments-a`);
    const foreign = await registerWorkload(rig.world.admin, channel, rig.world.channel(OPERATOR), {
      domainId: GLOBEX,
      spiffeId: `spiffe://${GLOBEX}/executor/payments-a`,
      role: WorkloadRole.EFFECT_EXECUTOR,
      workloadId: 'payments',
      sinks: [DEMO_SINK],
    });
    await unsigned(jwsProof(token(statement, foreign.key)), 'key');
  });

  test('an envelope of another form', async () => {
    const { key } = executor;
    const type = 'application/vnd.surety.effect.v1.transition+json';
    const good = envelope(statement, key);
    const raw = Buffer.from(jws.split('.')[2] ?? '', 'base64url');
    await unsigned(dsse(envelope(statement, key, {}, type)), 'header');
    await unsigned(dsse(envelope(statement, key, { keyId: '' })), 'header');
    await unsigned(dsse(envelope(statement, key, { signature: Uint8Array.from(raw) })), 'encoding');
    const longer = Uint8Array.from([...good.signature, 0]);
    await unsigned(dsse(envelope(statement, key, { signature: longer })), 'encoding');
    await unsigned(dsse(envelope(statement, key, { payload: new Uint8Array() })), 'encoding');
    const payload = rig.request('start', executor, target).statement;
    await unsigned(dsse(envelope(statement, key, { payload })), 'signature');
  });

  test('no proof at all', async () => {
    for (const proof of [{}, undefined]) {
      expect(await refused(proof as ProofInit)).toMatchObject({
        code: 'INVALID_ARGUMENT',
        reason: 'FIELD_INVALID',
        violations: [{ field: 'proof' }],
      });
    }
  });

  test('a statement that is not the one encoding of its message, in either', async () => {
    const scalar = (number: number, value: number) =>
      new BinaryWriter().tag(number, WireType.Varint).uint32(value).finish();
    const text = (number: number, value: Uint8Array) =>
      new BinaryWriter().tag(number, WireType.LengthDelimited).bytes(value).finish();
    const surrogate = Uint8Array.from([0xed, 0xa0, 0x80]);
    const own = (field: string): StatementParts => partsOf(statement, field);
    const hostile: readonly [string, Uint8Array, string][] = [
      ['an unknown field', Buffer.concat([statement, scalar(99, 1)]), 'proof'],
      ['a scalar twice', Buffer.concat([statement, text(20, Buffer.from('n'.repeat(24)))]), 'proof.nonce'],
      ['a default that is written', own('fence').with(scalar(15, 0)), 'proof.fence'],
      ['fields out of order', Buffer.concat([own('audience').rest, own('audience').bytes]), 'proof.audience'],
      ['another wire type', own('nonce').with(scalar(20, 7)), 'proof.nonce'],
      ['a varint longer than needed', own('role').with(Uint8Array.from([0x30, 0x81, 0])), 'proof.role'],
      ['a value of no enum', own('role').with(scalar(6, 9)), 'proof.role'],
      ['a lone surrogate', own('process_id').with(text(7, surrogate)), 'proof.process_id'],
      ['cut bytes', statement.subarray(0, -1), 'proof.nonce'],
      ['no message at all', Buffer.from([0xff]), 'proof'],
    ];
    for (const [, payload, field] of hostile) {
      for (const proof of [jwsProof(token(payload, executor.key)), dsse(envelope(payload, executor.key))]) {
        const { code, reason, violations } = await refused(proof);
        expect({ code, reason, fields: violations.map((one) => one.field) }).toEqual({
          code: 'INVALID_ARGUMENT',
          reason: 'FIELD_INVALID',
          fields: [field],
        });
      }
    }
  });

  test('fields that break a rule of their form, all of them at once', async () => {
    const error = await rig.refused('start', executor, target, {
      statement: {
        effectId: '',
        fence: -1n,
        incarnation: 0n,
        grantId: `grant\u0000`,
        sessionId: `line\u2028separator`,
        processId: 'x'.repeat(257),
        evidenceDigest: new Uint8Array(31),
        nonce: '',
      },
    });
    expect(error).toMatchObject({ code: 'INVALID_ARGUMENT', reason: 'FIELD_INVALID' });
    expect(error.violations.map((one) => one.field)).toEqual(
      [
        'incarnation',
        'process_id',
        'session_id',
        'grant_id',
        'effect_id',
        'fence',
        'evidence_digest',
        'nonce',
      ].map((field) => `proof.${field}`),
    );
  });

  test('the statement itself is good: after all of these it is taken, once', async () => {
    const { rows } = await rig.world.sql.query(
      'SELECT count(*)::int AS count FROM transitions WHERE domain_id = $1 AND effect_id = $2',
      [ACME, target.effectId],
    );
    expect(rows[0].count).toBe(0);
    const { evidence } = rig.request('start', executor, target);
    const request = { effectId: target.effectId, evidence, proof: jwsProof(jws), statement };
    expect(await rig.send('start', request, executor.channel)).toMatchObject({ duplicate: false });
  });
});

/** One field of a serialized statement, and the rest around it. */
interface StatementParts {
  readonly bytes: Uint8Array;
  readonly rest: Uint8Array;
  /** The statement with other bytes in the place of the field. */
  readonly with: (bytes: Uint8Array) => Uint8Array;
}

const NUMBERS: Readonly<Record<string, number>> = {
  audience: 1,
  role: 6,
  process_id: 7,
  fence: 15,
  nonce: 20,
};

function partsOf(statement: Uint8Array, field: string): StatementParts {
  const reader = new BinaryReader(statement);
  while (reader.pos < reader.len) {
    const from = reader.pos;
    const [number, wireType] = reader.tag();
    reader.skip(wireType);
    if (number !== NUMBERS[field]) continue;
    const [head, tail] = [statement.subarray(0, from), statement.subarray(reader.pos)];
    return {
      bytes: statement.subarray(from, reader.pos),
      rest: Buffer.concat([head, tail]),
      with: (other) => Buffer.concat([head, other, tail]),
    };
  }
  throw new Error(`no field ${field}`);
}
