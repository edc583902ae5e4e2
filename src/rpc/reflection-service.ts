import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { Code } from '../gen/google/rpc/code_pb.js';
import {
  ServerReflection,
  type ServerReflectionRequest,
  ServerReflectionRequestSchema,
  ServerReflectionResponseSchema,
} from '../gen/grpc/reflection/v1/reflection_pb.js';
import {
  ServerReflectionRequestSchema as AlphaRequestSchema,
  ServerReflectionResponseSchema as AlphaResponseSchema,
  ServerReflection as ServerReflectionAlpha,
} from '../gen/grpc/reflection/v1alpha/reflection_pb.js';
import { CONTRACT_FILES } from './contract.js';
import { bind, type ServiceBinding } from './handler.js';
import { type DescriptorBundle, ReflectionIndex } from './reflection-index.js';

type Response = MessageInitShape<typeof ServerReflectionResponseSchema>;
type MessageRequest = ServerReflectionRequest['messageRequest'];
type MessageResponse = NonNullable<Response['messageResponse']>;

/**
 * Server reflection, v1 and the older v1alpha, which have the same messages: what a command-line tool needs to call the
 * service without the contract at hand. Off unless configured, and for operators only (api.md).
 *
 * @param others full names of the other services that are served
 */
export function reflectionServices(others: readonly string[]): readonly ServiceBinding[] {
  const services = [...others, ServerReflection.typeName, ServerReflectionAlpha.typeName];
  const index = new ReflectionIndex(CONTRACT_FILES);
  const answer = (originalRequest: ServerReflectionRequest): Response => ({
    validHost: originalRequest.host,
    originalRequest,
    messageResponse: messageResponse(index, services, originalRequest.messageRequest),
  });
  return [
    bind(ServerReflection, {
      async *serverReflectionInfo(requests) {
        for await (const request of requests) yield answer(request);
      },
    }),
    bind(ServerReflectionAlpha, {
      async *serverReflectionInfo(requests) {
        for await (const request of requests) {
          const current = fromBinary(ServerReflectionRequestSchema, toBinary(AlphaRequestSchema, request));
          const response = create(ServerReflectionResponseSchema, answer(current));
          yield fromBinary(AlphaResponseSchema, toBinary(ServerReflectionResponseSchema, response));
        }
      },
    }),
  ];
}

function messageResponse(
  index: ReflectionIndex,
  services: readonly string[],
  request: MessageRequest,
): MessageResponse {
  switch (request.case) {
    case 'listServices':
      return { case: 'listServicesResponse', value: { service: services.map((name) => ({ name })) } };
    case 'fileByFilename':
      return files(index.byFileName(request.value));
    case 'fileContainingSymbol':
      return files(index.bySymbol(request.value));
    case 'allExtensionNumbersOfType':
      // The contract extends nothing.
      if (!index.hasMessage(request.value)) return failure(Code.NOT_FOUND, 'there is no such message');
      return { case: 'allExtensionNumbersResponse', value: { baseTypeName: request.value } };
    case 'fileContainingExtension':
      return failure(Code.NOT_FOUND, 'there is no such extension');
    case undefined:
      return failure(Code.INVALID_ARGUMENT, 'the request asks for nothing');
  }
}

function files(bundle: DescriptorBundle | undefined): MessageResponse {
  if (bundle === undefined) return failure(Code.NOT_FOUND, 'there is no such file or symbol');
  return { case: 'fileDescriptorResponse', value: { fileDescriptorProto: [...bundle] } };
}

function failure(errorCode: Code, errorMessage: string): MessageResponse {
  return { case: 'errorResponse', value: { errorCode, errorMessage } };
}
