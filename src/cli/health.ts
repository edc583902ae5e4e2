import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { PeerCertificate } from 'node:tls';
import { parseArgs } from 'node:util';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { type ChannelCredentials, Client, credentials, type ServiceError } from '@grpc/grpc-js';
import { certificateLayout } from '../../certs/layout.js';
import { type Configuration, readConfiguration, type TlsPaths } from '../config/configuration.js';
import {
  Health,
  HealthCheckRequestSchema,
  HealthCheckResponseSchema,
  HealthCheckResponse_ServingStatus as ServingStatus,
} from '../gen/grpc/health/v1/health_pb.js';
import { inspectLeaf } from '../identity/certificate.js';
import { readPem } from '../identity/pem.js';
import { suretyError } from './client/surety-error.js';
import { EXIT_FAILED, UsageError } from './failure.js';
import { readTarget, TARGET_OPTIONS } from './target.js';

export const HEALTH_HELP = `surety health [--target <host:port>] [--service <name>] [--timeout <seconds>]

Asks a running service over mutual TLS whether it serves, with the service's own certificate: the three TLS
variables, or the development certificates. Prints the answer; exits 0 only where it is SERVING.

  --target    where it listens; the one of SURETY_LISTEN unless given
  --service   full name of one service, for example surety.effect.v1.EffectService; the whole unless given
  --timeout   seconds to wait for the answer, 5 unless given`;

const DEFAULT_TIMEOUT_SECONDS = 5;
const MAX_TIMEOUT_SECONDS = 300;

/** Asks once. @returns the exit code */
export async function health(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      ...TARGET_OPTIONS,
      service: { type: 'string', default: '' },
      timeout: { type: 'string', default: String(DEFAULT_TIMEOUT_SECONDS) },
    },
  });
  const timeoutMs = Number(values.timeout) * 1000;
  if (!(timeoutMs > 0 && timeoutMs <= MAX_TIMEOUT_SECONDS * 1000)) {
    throw new UsageError(`--timeout: must be a number of seconds up to ${MAX_TIMEOUT_SECONDS}`);
  }
  const given = readTarget(values);
  const configuration = readConfiguration(process.env, 'health');
  const target = given ?? addressOf(configuration);
  const client = new Client(target, ownCredentials(tlsOf(configuration)), {
    'grpc.enable_retries': 0,
    // Only the certificate says who the server is, and it is compared by its SPIFFE ID.
    'grpc.ssl_target_name_override': 'localhost',
  });
  try {
    const answer = await check(client, target, values.service, timeoutMs);
    process.stdout.write(`${answer}\n`);
    return answer === 'SERVING' ? 0 : EXIT_FAILED;
  } finally {
    client.close();
  }
}

/** The status, or the name of the gRPC code that came instead. */
function check(client: Client, target: string, service: string, timeoutMs: number): Promise<string> {
  const { check: method } = Health.method;
  return new Promise((resolve) => {
    client.makeUnaryRequest(
      `/${method.parent.typeName}/${method.name}`,
      (request: Uint8Array) => Buffer.from(request),
      (reply: Buffer) => reply,
      toBinary(HealthCheckRequestSchema, create(HealthCheckRequestSchema, { service })),
      { deadline: Date.now() + timeoutMs },
      (error, reply) => {
        if (error !== null) resolve(failureText(error, target));
        else resolve(ServingStatus[fromBinary(HealthCheckResponseSchema, reply ?? Buffer.alloc(0)).status]);
      },
    );
  });
}

function failureText(error: ServiceError, target: string): string {
  const { code, message } = suretyError(error, target);
  return `${code}: ${message.replace('of --roots', 'of the bundle beside ours').replace('of --cert', 'of SURETY_TLS_CERT_FILE')}`;
}

function tlsOf({ tls, stateDir }: Configuration): TlsPaths {
  if (tls !== undefined) return tls;
  const { service, bundlesDir } = certificateLayout(join(stateDir, 'certs'));
  return { certificateFile: service.cert, keyFile: service.key, bundlesDirectory: bundlesDir };
}

/** A wildcard address is one to listen on, not one to connect to. */
function addressOf({ listen: { host, port } }: Configuration): string {
  if (host === '0.0.0.0') return `127.0.0.1:${port}`;
  if (host === '::') return `[::1]:${port}`;
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

function ownCredentials(files: TlsPaths): ChannelCredentials {
  const { certificateFile, keyFile, bundlesDirectory } = files;
  const [certificate, key] = [read(certificateFile), read(keyFile)];
  try {
    const own = inspectLeaf(readPem(certificate.toString('latin1'), 'CERTIFICATE')[0] ?? Buffer.alloc(0));
    return credentials.createSsl(read(join(bundlesDirectory, `${own.trustDomain}.pem`)), key, certificate, {
      checkServerIdentity: (_host, peer: PeerCertificate) => identityError(peer, own.spiffeId),
    });
  } catch (error) {
    if (error instanceof UsageError) throw error;
    // What variables name has been looked into; of the development files nobody has.
    throw new UsageError(`${certificateFile} and ${keyFile}: are not a certificate in PEM and its key`);
  }
}

function identityError({ raw }: PeerCertificate, expected: string): Error | undefined {
  try {
    const { spiffeId } = inspectLeaf(raw);
    return spiffeId === expected ? undefined : new Error(`it is ${spiffeId}, not ${expected}`);
  } catch (error) {
    return error as Error;
  }
}

function read(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'cannot be read';
    throw new UsageError(`${file}: ${code}`);
  }
}
