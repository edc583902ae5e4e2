import { create, type DescMessage, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';
import { AdminService } from '../../src/gen/surety/authority/v1/admin_service_pb.js';
import { AdminCommandSchema } from '../../src/gen/surety/authority/v1/command_pb.js';
import {
  EffectService,
  StartExecutionRequestSchema,
} from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { EventService, PublishEventRequestSchema } from '../../src/gen/surety/event/v1/event_service_pb.js';
import { WorkloadService } from '../../src/gen/surety/identity/v1/workload_service_pb.js';
import { ProvenanceService } from '../../src/gen/surety/provenance/v1/provenance_service_pb.js';
import type { ServiceBinding } from '../../src/rpc/handler.js';
import { type FakeHandler, fake, start } from './fake-binding.js';
import { CALLERS } from './harness.js';

// api.md, Errors, over the real adapter: what is in a request, and in which domain it acts.

const whoAmI = WorkloadService.method.whoAmI;

describe('bytes that are no request', () => {
  const bytesOf = <S extends DescMessage>(schema: S, init: MessageInitShape<S>): Buffer =>
    Buffer.from(toBinary(schema, create(schema, init)));
  const publish = EventService.method.publishEvent;

  it.each([
    ['cut off within a text', Buffer.from([0x0a, 0x05, 0x61]), 'event_id', 'must not be cut off'],
    [
      'cut off within a tag',
      Buffer.from([0x80]),
      '',
      'cannot be decoded as a surety.event.v1.PublishEventRequest: it must not be cut off',
    ],
    ['a text that is not UTF-8', Buffer.from([0x0a, 0x02, 0xc3, 0x28]), 'event_id', 'must be valid UTF-8'],
    ['a lone surrogate', Buffer.from([0x12, 0x03, 0xed, 0xa0, 0x80]), 'type', 'must be valid UTF-8'],
    [
      'the third recipient is not UTF-8',
      Buffer.from([0x1a, 0x01, 0x61, 0x1a, 0x01, 0x62, 0x1a, 0x01, 0xff]),
      'recipient_harness_ids[2]',
      'must be valid UTF-8',
    ],
    [
      'cut off in a nested message',
      Buffer.from([0x42, 0x03, 0x12, 0x05, 0x61]),
      'origin.source_id',
      undefined,
    ],
  ])('%s: FIELD_INVALID with its path', async (_, bytes, field, rule) => {
    let called = false;
    const rpc = await start([fake(EventService, { publishEvent: async () => ((called = true), {}) })]);
    const result = await rpc.client(CALLERS.harness).call(publish, bytes);
    expect(result).toMatchObject({ code: 'INVALID_ARGUMENT', reason: 'FIELD_INVALID' });
    const [violation] = result.violations;
    if (rule !== undefined) expect(violation).toEqual({ field, description: rule });
    else expect(violation?.field).toMatch(/^origin\./);
    expect(called).toBe(false);
  });

  it('may hold fields that a newer contract has', async () => {
    const rpc = await start([fake(EventService, { publishEvent: async () => ({}) })]);
    const known = bytesOf(PublishEventRequestSchema, { eventId: 'evt' });
    const result = await rpc
      .client(CALLERS.harness)
      .call(publish, Buffer.concat([known, Buffer.from([0xf8, 0x7f, 0x01])]));
    expect(result.code).toBe('OK');
  });

  it('keeps texts that differ in normalization or a byte order mark apart', async () => {
    const seen: string[] = [];
    const rpc = await start([
      fake(EventService, {
        publishEvent: async ({ eventId }: { eventId: string }) => (seen.push(eventId), {}),
      }),
    ]);
    const client = rpc.client(CALLERS.harness);
    for (const eventId of ['é', 'e\u0301', '\ufeffx', 'x']) await client.call(publish, { eventId });
    expect(seen).toEqual(['é', 'e\u0301', '\ufeffx', 'x']);
  });

  it('are told only to a caller that may call the method', async () => {
    const rpc = await start([fake(EventService, {})]);
    const malformed = Buffer.from([0x0a, 0x05]);
    const stranger = await rpc.client('spiffe://acme.test/nobody').call(publish, malformed);
    expect(stranger).toMatchObject({ code: 'UNAUTHENTICATED', reason: 'CALLER_UNKNOWN' });
    const executor = await rpc.client(CALLERS.executor).call(publish, malformed);
    expect(executor).toMatchObject({
      code: 'PERMISSION_DENIED',
      reason: 'METHOD_NOT_ALLOWED',
      metadata: { method: 'surety.event.v1.EventService/PublishEvent', kind: 'executor' },
    });
  });

  it('in nested fields are found by the path of proto names', async () => {
    const rpc = await start([fake(EffectService, {})]);
    const request = bytesOf(StartExecutionRequestSchema, { effectId: 'eff', evidence: new Uint8Array([1]) });
    const proof = Buffer.from([0x1a, 0x03, 0x0a, 0x01, 0xff]);
    const result = await rpc
      .client(CALLERS.executor)
      .call(EffectService.method.startExecution, Buffer.concat([request, proof]));
    expect(result.violations[0]?.field).toMatch(/^proof\.\w+$/);
  });
});

describe('the domain of a call', () => {
  const domains: string[] = [];
  const note: FakeHandler = async (_, { domainId }) => (domains.push(domainId), {});
  const services = (): ServiceBinding[] => [
    fake(EffectService, { getEffect: note, listEffects: note }),
    fake(WorkloadService, { whoAmI: note }),
    fake(AdminService, { executeCommand: note, getDomain: note }),
    fake(ProvenanceService, { verifyReference: note }),
  ];
  const { getEffect } = EffectService.method;

  it('is named by operators and auditors, and is their own for the others', async () => {
    const rpc = await start(services());
    domains.length = 0;
    const operator = rpc.client(CALLERS.operator);
    expect(await operator.call(getEffect, { domainId: 'acme.test' })).toMatchObject({ code: 'OK' });
    expect(await operator.call(getEffect, {})).toMatchObject({
      reason: 'FIELD_INVALID',
      violations: [{ field: 'domain_id' }],
    });
    expect(await operator.call(getEffect, { domainId: 'ACME/../x' })).toMatchObject({
      reason: 'FIELD_INVALID',
    });
    expect(await rpc.client(CALLERS.harness).call(getEffect, {})).toMatchObject({ code: 'OK' });
    // It may be left out where nothing of a domain is asked for.
    expect(await operator.call(whoAmI, {})).toMatchObject({ code: 'OK' });
    expect(domains).toEqual(['acme.test', 'acme.test', 'surety.test']);
  });

  it('that is another one than a harness lives in looks like nothing at all', async () => {
    const rpc = await start(services());
    const client = rpc.client(CALLERS.harness);
    for (const domainId of ['globex.test', 'absent.test']) {
      expect(await client.call(getEffect, { domainId })).toMatchObject({
        code: 'PERMISSION_DENIED',
        reason: 'NOT_VISIBLE',
      });
    }
    // Not even where its name was put into the other domain's registry.
    rpc.registry.kinds.get('globex.test')?.set(CALLERS.reconciler, 'reconciler');
    const reconciler = rpc.client(CALLERS.reconciler);
    expect(await reconciler.call(getEffect, { domainId: 'globex.test' })).toMatchObject({
      reason: 'NOT_VISIBLE',
    });
  });

  it('may be one that is not there, to a platform operator', async () => {
    const rpc = await start(services());
    domains.length = 0;
    const result = await rpc
      .client(CALLERS.operator)
      .call(AdminService.method.getDomain, { domainId: 'absent.test' });
    expect(result.code).toBe('OK');
    expect(domains).toEqual(['absent.test']);
  });

  it('is read from a nested field where the contract has it there', async () => {
    const rpc = await start(services());
    domains.length = 0;
    const { verifyReference } = ProvenanceService.method;
    const client = rpc.client(CALLERS.auditor);
    expect(await client.call(verifyReference, { reference: { domainId: 'globex.test' } })).toMatchObject({
      code: 'OK',
    });
    expect(await client.call(verifyReference, {})).toMatchObject({
      violations: [{ field: 'reference.domain_id' }],
    });
    expect(domains).toEqual(['globex.test']);
  });

  it("is looked up in a signed command's header, and nothing there is believed", async () => {
    const rpc = await start(services());
    domains.length = 0;
    const payload = toBinary(
      AdminCommandSchema,
      create(AdminCommandSchema, { header: { domainId: 'acme.test' } }),
    );
    const commandJws = `e30.${Buffer.from(payload).toString('base64url')}.${'A'.repeat(86)}`;
    const { executeCommand } = AdminService.method;
    const operator = rpc.client(CALLERS.operator);
    expect(await operator.call(executeCommand, { commandJws })).toMatchObject({ code: 'OK' });
    // What cannot be read is for the method to refuse.
    expect(await operator.call(executeCommand, { commandJws: 'x.y.z' })).toMatchObject({ code: 'OK' });
    expect(domains).toEqual(['acme.test', 'surety.test']);
    expect(await rpc.client(CALLERS.harness).call(executeCommand, { commandJws })).toMatchObject({
      reason: 'METHOD_NOT_ALLOWED',
    });
  });
});
