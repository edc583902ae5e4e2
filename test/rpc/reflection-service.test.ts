import { create, createFileRegistry, fromBinary, toBinary } from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema, FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  ServerReflection,
  type ServerReflectionRequest,
  ServerReflectionRequestSchema,
  type ServerReflectionResponse,
  ServerReflectionResponseSchema,
} from '../../src/gen/grpc/reflection/v1/reflection_pb.js';
import { ServerReflection as ServerReflectionAlpha } from '../../src/gen/grpc/reflection/v1alpha/reflection_pb.js';
import { CONTRACT_SERVICES } from '../../src/rpc/contract.js';
import { reflectionServices } from '../../src/rpc/reflection-service.js';
import { CALLERS, pathOf, type RpcHarness, resultOf, startRpc } from './harness.js';

let rpc: RpcHarness;
const REFLECTION = ['grpc.reflection.v1.ServerReflection', 'grpc.reflection.v1alpha.ServerReflection'];
const SERVED = ['surety.effect.v1.EffectService', 'grpc.health.v1.Health'];

beforeAll(async () => {
  rpc = await startRpc(reflectionServices(SERVED));
});
afterAll(() => rpc.stop());

type MessageRequest = ServerReflectionRequest['messageRequest'];
type Answer = ServerReflectionResponse['messageResponse'];
const method = ServerReflection.method.serverReflectionInfo;

/** Asks on one stream, one after the other; the messages of both versions have the same bytes. */
function ask(
  requests: readonly MessageRequest[],
  caller = CALLERS.operator as string,
  path = pathOf(method),
) {
  const bytes = (value: Buffer): Buffer => value;
  const call = rpc.client(caller).client.makeBidiStreamRequest(path, bytes, bytes);
  for (const messageRequest of requests) {
    const request = create(ServerReflectionRequestSchema, { messageRequest });
    call.write(Buffer.from(toBinary(ServerReflectionRequestSchema, request)));
  }
  call.end();
  const answers: Answer[] = [];
  return new Promise<{ answers: Answer[]; code: string; reason: string | undefined }>((resolve) => {
    call.on('data', (reply: Buffer) =>
      answers.push(fromBinary(ServerReflectionResponseSchema, reply).messageResponse),
    );
    call.on('error', (error) => {
      const { code, reason } = resultOf(error as never, undefined);
      resolve({ answers, code, reason });
    });
    call.on('end', () => resolve({ answers, code: 'OK', reason: undefined }));
  });
}

/** The registry that a client builds from what one answer holds: it fails when an import is missing. */
function registryOf(answer: Answer | undefined) {
  if (answer?.case !== 'fileDescriptorResponse') throw new Error(`no files, but ${answer?.case}`);
  const file = answer.value.fileDescriptorProto.map((bytes) => fromBinary(FileDescriptorProtoSchema, bytes));
  return createFileRegistry(create(FileDescriptorSetSchema, { file: file.reverse() }));
}

describe('reflection', () => {
  it.each([method, ServerReflectionAlpha.method.serverReflectionInfo])(
    'lists what is served: %s',
    async (version) => {
      const { answers, code } = await ask(
        [{ case: 'listServices', value: '' }],
        CALLERS.operator,
        pathOf(version),
      );
      expect(code).toBe('OK');
      expect(answers).toMatchObject([
        {
          case: 'listServicesResponse',
          value: { service: [...SERVED, ...REFLECTION].map((name) => ({ name })) },
        },
      ]);
    },
  );

  it('gives each service of the contract, whole, by its name', async () => {
    const names = CONTRACT_SERVICES.map(({ typeName }) => typeName);
    const { answers } = await ask(names.map((value) => ({ case: 'fileContainingSymbol', value })));
    names.forEach((name, index) => {
      const found = registryOf(answers[index]).getService(name);
      const expected = CONTRACT_SERVICES[index]?.methods.map((one) => [
        one.name,
        one.input.typeName,
        one.output.typeName,
      ]);
      expect(found?.methods.map((one) => [one.name, one.input.typeName, one.output.typeName])).toEqual(
        expected,
      );
    });
  });

  it('finds files, methods, messages, enums and what travels in errors', async () => {
    const { answers } = await ask([
      { case: 'fileByFilename', value: 'surety/effect/v1/effect.proto' },
      { case: 'fileContainingSymbol', value: 'surety.effect.v1.EffectService.ReserveEffect' },
      { case: 'fileContainingSymbol', value: 'surety.effect.v1.EffectState' },
      { case: 'fileContainingSymbol', value: 'google.rpc.ErrorInfo' },
      { case: 'allExtensionNumbersOfType', value: 'surety.effect.v1.Effect' },
    ]);
    expect(registryOf(answers[0]).getMessage('surety.effect.v1.Effect')).toBeDefined();
    expect(registryOf(answers[1]).getService('surety.effect.v1.EffectService')).toBeDefined();
    expect(registryOf(answers[2]).getEnum('surety.effect.v1.EffectState')).toBeDefined();
    expect(registryOf(answers[3]).getMessage('google.rpc.ErrorInfo')).toBeDefined();
    expect(answers[4]).toMatchObject({ case: 'allExtensionNumbersResponse' });
  });

  it('answers what is not there, and goes on', async () => {
    const { answers, code } = await ask([
      { case: 'fileByFilename', value: '../../etc/passwd' },
      { case: 'fileContainingSymbol', value: 'surety.Nothing' },
      { case: 'allExtensionNumbersOfType', value: 'surety.Nothing' },
      { case: 'fileContainingExtension', value: { containingType: 'x', extensionNumber: 1 } as never },
      { case: undefined },
      { case: 'listServices', value: '' },
    ]);
    expect(code).toBe('OK');
    const codes = answers.map((answer) =>
      answer.case === 'errorResponse' ? answer.value.errorCode : answer.case,
    );
    expect(codes).toEqual([5, 5, 5, 5, 3, 'listServicesResponse']);
  });

  it.each(['harness', 'executor', 'auditor'] as const)('is closed to other kinds: %s', async (kind) => {
    const { answers, code, reason } = await ask([{ case: 'listServices', value: '' }], CALLERS[kind]);
    expect({ answers, code, reason }).toEqual({
      answers: [],
      code: 'PERMISSION_DENIED',
      reason: 'METHOD_NOT_ALLOWED',
    });
  });

  it('refuses bytes that are no request', async () => {
    const bytes = (value: Buffer): Buffer => value;
    const call = rpc.client(CALLERS.operator).client.makeBidiStreamRequest(pathOf(method), bytes, bytes);
    call.write(Buffer.from([0x0a, 0x05]));
    const error = await new Promise((resolve) => call.on('error', resolve));
    expect(resultOf(error as never, undefined)).toMatchObject({
      reason: 'FIELD_INVALID',
      violations: [{ field: 'host' }],
    });
  });
});
