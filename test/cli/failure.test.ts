import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createServer as createTlsServer } from 'node:tls';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import {
  type DevelopmentCertificates,
  ensureDevelopmentCertificates,
} from '../../certs/development-certificates.js';
import { ClientIdentityInvalid } from '../../src/cli/client/client-identity.js';
import { Channel } from '../../src/cli/client/service-client.js';
import { SuretyError } from '../../src/cli/client/surety-error.js';
import { reportFailure } from '../../src/cli/failure.js';
import { WorkloadService } from '../../src/gen/surety/identity/v1/workload_service_pb.js';

// Whoever called a command reads sentences of ours, never those of Node, OpenSSL or gRPC.

const folder = mkdtempSync(path.join(tmpdir(), 'surety-failure-'));
let certificates: DevelopmentCertificates;
const servers: Server[] = [];
beforeAll(async () => {
  certificates = await ensureDevelopmentCertificates({ directory: folder });
});
afterAll(() => {
  for (const server of servers) server.close();
  rmSync(folder, { recursive: true, force: true });
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
});

const OPERATOR = 'spiffe://surety.test/operator/root';

function identity() {
  const own = certificates.callers[OPERATOR];
  return {
    certificate: readFileSync(own?.cert ?? ''),
    key: readFileSync(own?.key ?? ''),
    roots: readFileSync(certificates.serviceBundle),
  };
}

function reported(error: unknown, command = 'start'): { code: number; text: string } {
  let text = '';
  vi.spyOn(process.stderr, 'write').mockImplementation((chunk) => {
    text += String(chunk);
    return true;
  });
  const code = reportFailure(command, error);
  return { code, text };
}

async function listening(server: Server): Promise<string> {
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `127.0.0.1:${(server.address() as { port: number }).port}`;
}

async function messageOf(target: string, given = identity(), timeoutMs = 5_000): Promise<string> {
  const channel = new Channel(target, given);
  try {
    await channel.service(WorkloadService).whoAmI({}, { timeoutMs });
    return 'answered';
  } catch (error) {
    return (error as Error).message;
  } finally {
    channel.close();
  }
}

describe("a caller's files", () => {
  const garbage = Buffer.from('root:x:0:0');
  const problemsOf = (given: Partial<ReturnType<typeof identity>>): readonly string[] => {
    try {
      new Channel('127.0.0.1:1', { ...identity(), ...given }).close();
    } catch (error) {
      if (error instanceof ClientIdentityInvalid) return error.problems;
      throw error;
    }
    return [];
  };

  it('are all named by their options, with exit 2', () => {
    const problems = problemsOf({ certificate: garbage, key: garbage, roots: garbage });
    expect(problems).toEqual([
      '--cert: is not a certificate in PEM',
      '--key: is not a private key in PEM without a passphrase',
      '--roots: is not a bundle of certificates in PEM',
    ]);
    expect(reported(new ClientIdentityInvalid(problems), 'admin')).toEqual({
      code: 2,
      text: problems.map((problem) => `surety admin: ${problem}\n`).join(''),
    });
  });

  it('belong together', () => {
    expect(problemsOf({})).toEqual([]);
    expect(problemsOf({ key: readFileSync(certificates.service.key) })).toEqual([
      '--key: does not belong to the certificate of --cert',
    ]);
  });
});

describe('a call without an answer', () => {
  it('says that nobody listens', async () => {
    const target = await listening(createServer());
    await new Promise((resolve) => servers.pop()?.close(resolve));
    expect(await messageOf(target)).toBe(`nothing answers at ${target}`);
  });

  it('says that what answers is not trusted, or speaks no TLS, or nothing at all', async () => {
    const tls = createTlsServer({
      cert: readFileSync(certificates.service.cert),
      key: readFileSync(certificates.service.key),
    });
    const trusted = await listening(tls);
    const acme = readFileSync(path.join(certificates.bundlesDir, 'acme.test.pem'));
    expect(await messageOf(trusted, { ...identity(), roots: acme })).toBe(
      `the service's certificate is not of --roots: ${trusted} is not trusted`,
    );
    const plain = await listening(
      createServer((socket) => void socket.on('error', () => {}).end('HTTP/1.1 400 Bad Request\r\n\r\n')),
    );
    expect(await messageOf(plain)).toBe(`what answers at ${plain} does not speak TLS 1.3`);
    const silent = await listening(createServer((socket) => void socket.on('error', () => {})));
    expect(await messageOf(silent, identity(), 700)).toBe(`${silent} did not answer in time`);
  }, 30_000);
});

describe('a refusal', () => {
  it('is told with its code, its reason and its facts', () => {
    const refused = new SuretyError(
      'PERMISSION_DENIED',
      'DOMAIN_FORBIDDEN',
      'Not here.',
      { a: 'b' },
      [],
      undefined,
    );
    expect(reported(refused, 'audit')).toEqual({
      code: 1,
      text: 'surety audit: PERMISSION_DENIED DOMAIN_FORBIDDEN: Not here. (a b)\n',
    });
  });

  it('of a signature names the option that the key came from', () => {
    const facts = { rule: 'key' };
    const refused = new SuretyError(
      'UNAUTHENTICATED',
      'COMMAND_SIGNATURE_INVALID',
      'No.',
      facts,
      [],
      undefined,
    );
    expect(reported(refused, 'admin').text).toMatch(/\n {2}--signing-key: must be the key that [^\n]+\n$/);
  });

  it('of bytes that are no message names the request', () => {
    const undecodable = [{ field: '', description: 'cannot be decoded' }];
    const refused = new SuretyError('INVALID_ARGUMENT', 'FIELD_INVALID', 'No.', {}, undecodable, undefined);
    expect(reported(refused, 'admin').text).toMatch(/\n {2}the request: cannot be decoded\n$/);
  });
});

describe('a failure', () => {
  const ofSystem = (facts: object): Error => Object.assign(new Error('listen EXXX raw'), facts);

  it.each([
    [
      { code: 'EADDRNOTAVAIL', address: '203.0.113.1', port: 7 },
      '203.0.113.1:7 is not an address of this machine',
    ],
    [{ code: 'EADDRINUSE', address: '127.0.0.1', port: 7 }, '127.0.0.1:7 is in use'],
    [{ code: 'EADDRINUSE', address: '127.0.0.1', port: 7480 }, 'SURETY_LISTEN: 127.0.0.1:7480 is in use'],
    [{ code: 'ENOTFOUND', syscall: 'getaddrinfo', hostname: 'x.test' }, 'the name x.test is not known'],
    [{ code: 'EROFS', path: '/x' }, '/x is on a file system that cannot be written to (EROFS)'],
  ])('of the system is a sentence: %j', (facts, sentence) => {
    expect(reported(ofSystem(facts))).toEqual({ code: 1, text: `surety start: ${sentence}\n` });
  });

  it('that nobody thought of shows where only to whoever asks', () => {
    const bug = new Error('error:0480006C:PEM routines::no start line');
    expect(reported(bug)).toEqual({
      code: 1,
      text: 'surety start: internal error; SURETY_LOG_LEVEL=debug shows where\n',
    });
    vi.stubEnv('SURETY_LOG_LEVEL', 'debug');
    expect(reported(bug).text).toMatch(/^surety start: internal error\n[^]+\n {4}at /);
  });
});
