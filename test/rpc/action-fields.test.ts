import { create, type MessageInitShape } from '@bufbuild/protobuf';
import type { GenMessage } from '@bufbuild/protobuf/codegenv2';
import type { Message } from '@bufbuild/protobuf';
import { describe, expect, test } from 'vitest';
import { ActionState } from '../../src/gen/surety/action/v1/action_pb.js';
import * as pb from '../../src/gen/surety/action/v1/action_service_pb.js';
import type { BoundedGrantStatementSchema } from '../../src/gen/surety/action/v1/bounded_grant_pb.js';
import { createSigningKey, signBoundedGrant, signEvidence } from '../../src/identity/sign.js';
import { SignedMessageError } from '../../src/identity/signed-message-error.js';
import type { CallerKind } from '../../src/ledger/types.js';
import type { CallContext } from '../../src/rpc/handler.js';
import * as owner from '../../src/rpc/action/owner-requests.js';
import * as proposer from '../../src/rpc/action/proposer-requests.js';
import * as worker from '../../src/rpc/action/worker-requests.js';
import { callerOf } from '../support/effect-world.js';
import { contextOf } from '../support/handlers.js';
import { refusalOf, violationsOf } from './effect-service-world.js';

// What each request may hold (action_service.proto), before anything is asked of the store.

const key = createSigningKey();
const nobody = { reader: { query: async () => [] } };
const olga = {
  reader: {
    query: async <Row extends object>(_name: string, [, thumbprint]: readonly unknown[]) =>
      (thumbprint === key.publicKey.thumbprint ? [{ signingKeyJwk: key.publicKey.jwk }] : []) as Row[],
  },
};
const newId = (prefix: string) => `${prefix}_1`;
const as = (kind: CallerKind): CallContext => contextOf(callerOf(`spiffe://acme.test/${kind}/one`), kind);
const json = (value: unknown) =>
  Uint8Array.from(Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)));
const digest = new Uint8Array(32);
const seconds = (value: bigint, nanos = 0) => ({ seconds: value, nanos });

/** A reader of requests, with a good request. */
interface Case<T extends Message> {
  readonly name: string;
  readonly schema: GenMessage<T>;
  readonly kind: CallerKind;
  readonly read: (request: T, context: CallContext) => unknown;
  readonly good: MessageInitShape<GenMessage<T>>;
  /** Changes, each with the fields that it breaks. */
  readonly bad: readonly (readonly [object, ...string[]])[];
}

const define = <T extends Message>(one: Case<T>): Case<Message> => one as unknown as Case<Message>;

const RECEIPT = {
  receiptKey: 'r-1',
  kind: 'provider',
  status: 'accepted',
  externalId: '',
  evidence: json({ a: 1 }),
};
const HELD = { actionId: 'act_1', leaseToken: 1n };
const HELD_BAD = [
  [{ actionId: '' }, 'action_id'],
  [{ actionId: 'x'.repeat(257) }, 'action_id'],
  [{ leaseToken: 0n }, 'lease_token'],
  [{ leaseToken: -1n }, 'lease_token'],
] as const;
const RECEIPT_BAD = [
  [{ receipt: undefined }, 'receipt'],
  [{ receipt: { ...RECEIPT, receiptKey: '' } }, 'receipt.receipt_key'],
  ...['gate', 'dispatch_recovery', 'dispatch_observation'].map(
    (kind) => [{ receipt: { ...RECEIPT, kind } }, 'receipt.kind'] as const,
  ),
  [{ receipt: { ...RECEIPT, status: 'x'.repeat(129) } }, 'receipt.status'],
  [{ receipt: { ...RECEIPT, externalId: 'x'.repeat(513) } }, 'receipt.external_id'],
  [{ receipt: { ...RECEIPT, evidence: json('{"a":1,"a":2}') } }, 'receipt.evidence'],
  [{ receipt: { ...RECEIPT, evidence: json(' '.repeat(16 * 1024) + '1') } }, 'receipt.evidence'],
  [
    { receipt: { ...RECEIPT, receiptKey: 'a\nb', kind: '', evidence: json('') } },
    'receipt.evidence',
    'receipt.kind',
    'receipt.receipt_key',
  ],
] as const;
const LEASE = { requestId: 'r'.repeat(16), leaseDuration: seconds(60n) };
const LEASE_BAD = [
  [{ requestId: 'r'.repeat(15) }, 'request_id'],
  [{ requestId: 'r'.repeat(65) }, 'request_id'],
  [{ leaseDuration: undefined }, 'lease_duration'],
  [{ leaseDuration: seconds(0n, 999_999_999) }, 'lease_duration'],
  [{ leaseDuration: seconds(3600n, 1000) }, 'lease_duration'],
  [{ scope: { sourceScope: { case: 'source', value: '' } } }, 'scope.source'],
  [{ scope: { sourceScope: { case: 'sourcePrefix', value: 'x'.repeat(257) } } }, 'scope.source_prefix'],
  [{ scope: { types: ['a', 'a'] } }, 'scope.types'],
  [{ scope: { types: Array.from({ length: 65 }, (_, i) => `t${i}`) } }, 'scope.types'],
  [{ scope: { actionIds: Array.from({ length: 101 }, (_, i) => `a${i}`) } }, 'scope.action_ids'],
] as const;

const CASES: readonly Case<Message>[] = [
  define({
    name: 'ProposeAction',
    schema: pb.ProposeActionRequestSchema,
    kind: 'harness',
    read: (request, context) => proposer.readProposal({ newId }, request, context),
    good: {
      idempotencyKey: 'k',
      source: 'inbox',
      type: 'mail',
      toolName: 'send',
      payload: json({ tool_name: 'send' }),
    },
    bad: [
      [{ idempotencyKey: '' }, 'idempotency_key'],
      [{ source: '\ud800' }, 'source'],
      [{ sourceRef: 'x'.repeat(513) }, 'source_ref'],
      [{ payload: json({ tool_name: 'other' }) }, 'payload'],
      [{ payload: json({}) }, 'payload'],
      [{ payload: json('["tool_name"]') }, 'payload'],
      [{ payload: json('{"tool_name":"send","tool_name":"send"}') }, 'payload'],
      [{ payload: json('{"tool_name":"send","x":"\\ud800"}') }, 'payload'],
      [{ payload: json({ tool_name: 'send', x: 'y'.repeat(64 * 1024) }) }, 'payload'],
      [{ payload: json(`{"tool_name":"send","x":${'['.repeat(32)}${']'.repeat(32)}}`) }, 'payload'],
      [{ payload: json('{"tool_name":"send","x":9007199254740993}') }, 'payload'],
      [{ proposalTtl: seconds(0n) }, 'proposal_ttl'],
      [{ proposalTtl: seconds(2_592_001n) }, 'proposal_ttl'],
      [{ registrationId: 'reg' }, 'registration_id'],
      [
        { idempotencyKey: '', source: '', type: '', toolName: '', payload: json('') },
        ...['idempotency_key', 'payload', 'source', 'tool_name', 'type'],
      ],
    ],
  }),
  define({
    name: 'GateAction',
    schema: pb.GateActionRequestSchema,
    kind: 'owner',
    read: (request, context) => owner.readGate(nobody, request, context),
    good: { actionId: 'act_1', receiptKey: 'g', approvalId: 'a', decisionId: 'd', evidence: json({}) },
    bad: [
      [{ receiptKey: '', approvalId: '', decisionId: '' }, 'approval_id', 'decision_id', 'receipt_key'],
      [{ evidence: json('') }, 'evidence'],
      [{ evidence: json('{"a":1,"\\u0061":2}') }, 'evidence'],
      [{ registrationId: 'reg' }, 'registration_id'],
    ],
  }),
  define({
    name: 'RejectAction',
    schema: pb.RejectActionRequestSchema,
    kind: 'owner',
    read: async (request, context) =>
      owner.readRejection(
        olga,
        request.signatureJws === 'sign'
          ? { ...request, signatureJws: await signEvidence(request.evidence, key) }
          : request,
        context,
      ),
    good: { actionId: 'act_1', receiptKey: 'g', decisionId: 'd', evidence: json({}), signatureJws: 'sign' },
    bad: [
      [{ signatureJws: '' }, 'signature_jws'],
      [{ actionId: '', signatureJws: '' }, 'action_id', 'signature_jws'],
    ],
  }),
  define({
    name: 'RevokeBoundedGrant',
    schema: pb.RevokeBoundedGrantRequestSchema,
    kind: 'owner',
    read: owner.readGrantRevocation,
    good: { boundedGrantId: 'grant-1' },
    bad: [[{ boundedGrantId: '' }, 'bounded_grant_id']],
  }),
  define({
    name: 'AddReceipt',
    schema: pb.AddReceiptRequestSchema,
    kind: 'harness',
    read: proposer.readAddedReceipt,
    good: { actionId: 'act_1', receipt: RECEIPT },
    bad: [[{ actionId: '' }, 'action_id'], ...RECEIPT_BAD],
  }),
  define({
    name: 'LeaseNext',
    schema: pb.LeaseNextRequestSchema,
    kind: 'worker',
    read: worker.readLeaseNext,
    good: LEASE,
    bad: [
      ...LEASE_BAD,
      ...[ActionState.PROPOSED, ActionState.DISPATCHED, ActionState.COMPLETED, ActionState.UNSPECIFIED].map(
        (state) => [{ states: [ActionState.GATED, state] }, 'states[1]'] as const,
      ),
      [{ states: [2, 2, 2, 2] }, 'states'],
    ],
  }),
  define({
    name: 'LeaseObservation',
    schema: pb.LeaseObservationRequestSchema,
    kind: 'worker',
    read: worker.readLeaseObservation,
    good: LEASE,
    bad: LEASE_BAD,
  }),
  define({
    name: 'BeginDispatch',
    schema: pb.BeginDispatchRequestSchema,
    kind: 'worker',
    read: worker.readDispatch,
    good: {
      ...HELD,
      ...{ source: 's', sourceRef: 'r', type: 't', payload: json({}), gateReceiptKey: 'g', approvalId: 'a' },
      ...{ decisionId: 'd', executionDigest: digest, observationWindow: seconds(1n), maxObservations: 1 },
    },
    bad: [
      ...HELD_BAD,
      [{ sourceRef: '' }, 'source_ref'],
      [{ payload: new Uint8Array() }, 'payload'],
      [{ payload: new Uint8Array(64 * 1024 + 1) }, 'payload'],
      [{ executionDigest: new Uint8Array(31) }, 'execution_digest'],
      [{ observationWindow: undefined }, 'observation_window'],
      [{ observationWindow: seconds(3601n) }, 'observation_window'],
      [{ maxObservations: 0 }, 'max_observations'],
      [{ maxObservations: 101 }, 'max_observations'],
      [{ viewDigest: digest }, 'authorization_expire_time'],
      [{ viewDigest: new Uint8Array(3), authorizationExpireTime: seconds(1n) }, 'view_digest'],
      [{ authorizationExpireTime: seconds(1n) }, 'authorization_expire_time'],
      [
        { source: '', type: '', gateReceiptKey: '', approvalId: '', decisionId: '' },
        ...['approval_id', 'decision_id', 'gate_receipt_key', 'source', 'type'],
      ],
    ],
  }),
  define({
    name: 'BeginObservation',
    schema: pb.BeginObservationRequestSchema,
    kind: 'worker',
    read: worker.readObservation,
    good: { ...HELD, requestId: 'r'.repeat(16), executionDigest: digest },
    bad: [
      ...HELD_BAD,
      [{ requestId: '', executionDigest: new Uint8Array() }, 'execution_digest', 'request_id'],
    ],
  }),
  define({
    name: 'DeferObservation',
    schema: pb.DeferObservationRequestSchema,
    kind: 'worker',
    read: worker.readDeferredObservation,
    good: { ...HELD, executionDigest: digest, observationNumber: 0, delay: seconds(0n, 1000) },
    bad: [
      ...HELD_BAD,
      [{ observationNumber: -1 }, 'observation_number'],
      [{ observationNumber: 101 }, 'observation_number'],
      [{ delay: undefined }, 'delay'],
      [{ delay: seconds(0n) }, 'delay'],
      [{ delay: seconds(0n, 999) }, 'delay'],
      [{ delay: seconds(86_401n) }, 'delay'],
    ],
  }),
  define({
    name: 'DeferLeased',
    schema: pb.DeferLeasedRequestSchema,
    kind: 'worker',
    read: worker.readDeferral,
    good: { ...HELD, delay: seconds(86_400n) },
    bad: [...HELD_BAD, [{ delay: seconds(-1n) }, 'delay']],
  }),
  define({
    name: 'AcceptAction',
    schema: pb.AcceptActionRequestSchema,
    kind: 'worker',
    read: worker.readAcceptance,
    good: { ...HELD, receipt: RECEIPT },
    bad: [...HELD_BAD, ...RECEIPT_BAD],
  }),
  define({
    name: 'VerifyAction',
    schema: pb.VerifyActionRequestSchema,
    kind: 'worker',
    read: worker.readVerification,
    good: { ...HELD, witnessReceiptKeys: ['r-1'] },
    bad: [
      ...HELD_BAD,
      [{ witnessReceiptKeys: [] }, 'witness_receipt_keys'],
      [{ witnessReceiptKeys: ['a', 'a'] }, 'witness_receipt_keys'],
      [{ witnessReceiptKeys: Array.from({ length: 33 }, (_, i) => `r${i}`) }, 'witness_receipt_keys'],
      ...RECEIPT_BAD.slice(1),
    ],
  }),
  define({
    name: 'CompleteAction',
    schema: pb.CompleteActionRequestSchema,
    kind: 'worker',
    read: worker.readCompletion,
    good: { ...HELD, resultDigest: digest },
    bad: [...HELD_BAD, [{ resultDigest: new Uint8Array() }, 'result_digest']],
  }),
  define({
    name: 'FailAction',
    schema: pb.FailActionRequestSchema,
    kind: 'worker',
    read: worker.readFailure,
    good: { ...HELD, detail: 'no' },
    bad: [...HELD_BAD, [{ detail: '' }, 'detail'], [{ resultDigest: new Uint8Array(1) }, 'result_digest']],
  }),
];

describe.each(CASES.map((one) => [one.name, one] as const))('%s', (_, { schema, kind, read, good, bad }) => {
  const reading = async (over: object = {}) => read(create(schema, { ...good, ...over }), as(kind));

  test('takes a good request', async () => {
    expect(await reading()).toMatchObject({ domainId: 'acme.test', kind });
  });

  test.each(bad.map(([over, ...fields]) => [fields.join(', '), over, fields] as const))(
    'names %s',
    async (_fields, over, fields) => {
      expect(await violationsOf(reading(over))).toEqual(fields);
    },
  );
});

describe('what an owner signs', () => {
  const evidence = json({ decision: 'approved' });
  const gate = async (signatureJws: string, tools = olga) =>
    owner.readGate(
      tools,
      create(pb.GateActionRequestSchema, {
        ...{ actionId: 'act_1', receiptKey: 'g', approvalId: 'a', decisionId: 'd', evidence, signatureJws },
      }),
      as('owner'),
    );
  const ruleOf = async (call: Promise<unknown>) => {
    const error = await call.then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(SignedMessageError);
    const { reason, rule } = error as SignedMessageError;
    expect(reason).toBe('APPROVAL_SIGNATURE_INVALID');
    return rule;
  };

  test('is the exact evidence, under a registered key', async () => {
    const command = await gate(await signEvidence(evidence, key));
    expect(command.signature).toMatchObject({ keyThumbprint: key.publicKey.thumbprint });
    expect((await gate('')).signature).toBeNull();
    expect(await ruleOf(gate(await signEvidence(json({ decision: 'approved ' }), key)))).toBe('payload');
    expect(await ruleOf(gate(await signEvidence(evidence, createSigningKey())))).toBe('key');
    expect(await ruleOf(gate('a.b.c'))).toBe('encoding');
  });

  const statement: MessageInitShape<typeof BoundedGrantStatementSchema> = {
    ...{ audience: 'spiffe://surety.test/surety', incarnation: 1n, domainId: 'acme.test' },
    ...{ boundedGrantId: 'g-1', ownerSpiffeId: 'spiffe://acme.test/owner/olga', sources: ['inbox'] },
    ...{ types: ['mail'], tools: ['send'], maxUses: 1n, issuedTime: seconds(1_790_000_000n) },
  };
  const grant = async (over: Partial<typeof statement>) => {
    const grantJws = await signBoundedGrant({ ...statement, ...over }, key);
    return owner.readBoundedGrant(olga, create(pb.AddBoundedGrantRequestSchema, { grantJws }), as('owner'));
  };

  test('may be a bounded grant, every rule of which is told at once', async () => {
    expect((await grant({})).statement).toMatchObject({ maxUses: 1n, expiresAt: null, tools: ['send'] });
    expect(
      await violationsOf(
        grant({ sources: [], types: ['*'], tools: ['a', 'a'], maxUses: 0n, issuedTime: undefined }),
      ),
    ).toEqual(['issued_time', 'max_uses', 'sources', 'tools', 'types'].map((field) => `grant_jws.${field}`));
    expect((await refusalOf(grant({ maxUses: 2n ** 31n }))).reason).toBe('FIELD_INVALID');
  });
});
