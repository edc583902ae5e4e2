import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import {
  type AddressInfo,
  connect,
  createServer as createTcpServer,
  type Server as TcpServer,
} from 'node:net';
import { performance } from 'node:perf_hooks';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { executionRequest } from '../../src/cli/worker/execution-request.js';
import { HttpProvider } from '../../src/cli/worker/http-provider.js';
import { readAnswer } from '../../src/cli/worker/provider-answer.js';
import { judge } from '../../src/cli/worker/validator.js';
import { checkIdText } from '../../src/ledger/text.js';
import { Authority } from '../support/pki.js';

const DIGEST = new Uint8Array(32).fill(7);
const HEX = '07'.repeat(32);
const answer = (fields: object): Buffer => Buffer.from(JSON.stringify({ execution_digest: HEX, ...fields }));
const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

describe('the request of a dispatch', () => {
  const action = { actionId: 'act-1', type: 'mail.reply', toolName: 'mail.send' };
  const payload = Uint8Array.from(Buffer.from('{ "tool_name":"mail.send",\n "amount": 1.0 }'));

  test('holds the payload as the bytes that were approved, and its digest is of exactly these bytes', () => {
    const { body, executionDigest } = executionRequest({ ...action, payload });
    expect(body.toString()).toContain(Buffer.from(payload).toString());
    expect(JSON.parse(body.toString())).toEqual({
      ...{ action_id: 'act-1', type: 'mail.reply', tool_name: 'mail.send' },
      payload: { tool_name: 'mail.send', amount: 1 },
    });
    expect(Buffer.from(executionDigest).toString('hex')).toBe(sha256(body));
  });

  test('is the same in every process, and another for another action with the same payload', () => {
    const first = executionRequest({ ...action, payload });
    expect(executionRequest({ ...action, payload })).toEqual(first);
    const other = executionRequest({ ...action, actionId: 'act-2', payload });
    expect(other.executionDigest).not.toEqual(first.executionDigest);
  });
});

describe('an answer of the provider', () => {
  test.each([
    [
      { status: 'done', id: 'm-1' },
      { is: 'done', id: 'm-1' },
    ],
    [
      { status: 'done', id: 'm-1', more: [1] },
      { is: 'done', id: 'm-1' },
    ],
    [
      { status: 'refused', id: 'm-1' },
      { is: 'refused', id: 'm-1', retryable: false },
    ],
    [
      { status: 'refused', id: 'm-1', retryable: true },
      { is: 'refused', id: 'm-1', retryable: true },
    ],
    [{ status: 'pending' }, { is: 'doubt', why: 'pending' }],
    [{ status: 'unknown' }, { is: 'doubt', why: 'unknown' }],
  ])('%j', (fields, expected) => {
    expect(readAnswer(answer(fields), DIGEST)).toMatchObject(expected);
  });

  test.each([
    ['no JSON', Buffer.from('<html>')],
    ['no object', Buffer.from('[]')],
    [
      'a name twice',
      Buffer.from(`{"execution_digest":"${HEX}","status":"done","status":"refused","id":"m"}`),
    ],
    [
      'another digest',
      answer({ execution_digest: HEX.toUpperCase().replace('07', '08'), status: 'done', id: 'm' }),
    ],
    ['no digest', Buffer.from('{"status":"done","id":"m"}')],
    ['a status that there is not', answer({ status: 'perhaps', id: 'm' })],
    ['a member of every object for a status', answer({ status: 'constructor', id: 'm' })],
    ['done without an id', answer({ status: 'done' })],
    ['an id that is empty', answer({ status: 'done', id: '' })],
    ['an id with a control character', answer({ status: 'done', id: 'm\n1' })],
    ['an id that is too long', answer({ status: 'done', id: 'm'.repeat(257) })],
    ['retryable that is a word', answer({ status: 'refused', id: 'm', retryable: 'yes' })],
  ])('that is %s is none', (_, body) => {
    expect(readAnswer(body, DIGEST)).toEqual({ is: 'doubt', why: 'unreadable' });
  });

  test('is kept by its digest', () => {
    const body = answer({ status: 'done', id: 'm-1' });
    const read = readAnswer(body, DIGEST);
    expect(read.is === 'done' && Buffer.from(read.answerDigest).toString('hex')).toBe(sha256(body));
  });
});

const clock = (): number => performance.now();
const inMs = (ms: number): number => clock() + ms;
const portOf = (server: TcpServer): number => (server.address() as AddressInfo).port;

describe('a provider over HTTP', () => {
  let server: Server | undefined;
  afterEach(() => {
    server?.closeAllConnections();
    server?.close();
    server = undefined;
  });

  async function serving(
    serve: (request: IncomingMessage, response: ServerResponse) => void,
  ): Promise<HttpProvider> {
    const started = createServer(serve);
    server = started;
    await new Promise<void>((resolve) => started.listen(0, '127.0.0.1', resolve));
    return new HttpProvider(new URL(`http://127.0.0.1:${portOf(started)}/base/`), clock);
  }

  test('is sent the exact bytes with the digest as idempotency key, and asked by it', async () => {
    const seen: string[] = [];
    const receive = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
      let body = '';
      for await (const chunk of request) body += String(chunk);
      const { method = '', url = '', headers } = request;
      seen.push([method, url, headers['idempotency-key'] ?? '', body].join(' ').trim());
      response.end(answer({ status: 'done', id: 'm-1' }));
    };
    const provider = await serving((request, response) => void receive(request, response));
    expect(await provider.send(Buffer.from('{"a": 1}'), DIGEST, inMs(5_000))).toMatchObject({ is: 'done' });
    expect(await provider.read(DIGEST, inMs(5_000.5))).toMatchObject({ is: 'done' });
    expect(seen).toEqual([`POST /base/executions ${HEX} {"a": 1}`, `GET /base/executions/${HEX}`]);
  });

  test.each([
    [
      'closes the connection',
      (_: IncomingMessage, response: ServerResponse) => response.destroy(),
      'disconnected',
    ],
    ['says nothing', () => undefined, 'timeout'],
    [
      'breaks off in the middle',
      (_: IncomingMessage, response: ServerResponse) => {
        response.writeHead(200, { 'content-length': 1000 });
        response.write('{', () => response.destroy());
      },
      'disconnected',
    ],
    [
      'answers without an end',
      (_: IncomingMessage, response: ServerResponse) => void response.end(Buffer.alloc(100_000, '1')),
      'unreadable',
    ],
    [
      'sends elsewhere',
      (_: IncomingMessage, response: ServerResponse) =>
        void response.writeHead(307, { location: '/x' }).end(),
      'unreadable',
    ],
  ])('that %s leaves doubt, and is sent nothing again', async (_, serve, why) => {
    let requests = 0;
    const provider = await serving((request, response) => {
      requests += 1;
      serve(request, response);
    });
    const untilMs = inMs(why === 'timeout' ? 1_000 : 10_000);
    expect(await provider.send(Buffer.from('{}'), DIGEST, untilMs)).toEqual({ is: 'doubt', why });
    expect(requests).toBe(1);
  });

  test('that is not there is sent nothing, and tells nothing', async () => {
    const provider = await serving(() => undefined);
    await new Promise((resolve) => server?.close(resolve));
    expect(await provider.send(Buffer.from('{}'), DIGEST, inMs(5_000))).toEqual({ is: 'not_sent' });
    expect(await provider.read(DIGEST, inMs(5_000))).toEqual({ is: 'doubt', why: 'disconnected' });
  });
});

describe('a connection that stands only when the time is over', () => {
  const opened: { close(): void }[] = [];
  afterEach(() => {
    for (const each of opened.splice(0)) each.close();
    vi.unstubAllEnvs();
  });

  async function listening<S extends TcpServer>(server: S): Promise<S> {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    opened.push(server);
    return server;
  }

  /** A provider that does what it is sent, and how much that was. */
  function provider() {
    const seen = { requests: 0 };
    const serve = (_: IncomingMessage, response: ServerResponse): void => {
      seen.requests += 1;
      response.end(answer({ status: 'done', id: 'm-1' }));
    };
    return { seen, serve };
  }

  test('(TCP) is sent nothing', async () => {
    const { seen, serve } = provider();
    const server = await listening(createServer(serve));
    let now = 0;
    const client = new HttpProvider(new URL(`http://127.0.0.1:${portOf(server)}`), () => now);
    expect(await client.send(Buffer.from('{}'), DIGEST, 60_000)).toMatchObject({ is: 'done' });
    const sending = client.send(Buffer.from('{}'), DIGEST, 60_000);
    now = 60_000;
    expect(await sending).toEqual({ is: 'not_sent' });
    expect(seen.requests).toBe(1);
  });

  /** Passes the octets of a TLS connection on once `hold` lets it. */
  async function secureProvider(hold: () => Promise<void>) {
    // Whom the client trusts is not what this is about.
    vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0');
    const { seen, serve } = provider();
    const leaf = Authority.root('provider').leaf('spiffe://acme.test/provider');
    const secure = await listening(createSecureServer({ cert: leaf.pem, key: leaf.keyPem }, serve));
    const front = await listening(
      createTcpServer((socket) => {
        socket.on('error', () => {});
        void hold().then(() => {
          const behind = connect(portOf(secure), '127.0.0.1').on('error', () => {});
          socket.pipe(behind).pipe(socket);
        });
      }),
    );
    return { seen, url: new URL(`https://127.0.0.1:${portOf(front)}`) };
  }

  test('(TLS, its handshake held) is sent nothing', async () => {
    let now = 0;
    let over = 0;
    const { seen, url } = await secureProvider(async () => void (now = over));
    const client = new HttpProvider(url, () => now);
    expect(await client.send(Buffer.from('{}'), DIGEST, 60_000)).toMatchObject({ is: 'done' });
    over = 60_000;
    expect(await client.send(Buffer.from('{}'), DIGEST, 60_000)).toEqual({ is: 'not_sent' });
    expect(seen.requests).toBe(1);
  });

  test('(TLS, its handshake never made) is given up in time', async () => {
    const { seen, url } = await secureProvider(() => new Promise(() => {}));
    const client = new HttpProvider(url, clock);
    expect(await client.send(Buffer.from('{}'), DIGEST, inMs(50))).toEqual({ is: 'not_sent' });
    expect(await client.read(DIGEST, inMs(50))).toEqual({ is: 'doubt', why: 'timeout' });
    expect(seen.requests).toBe(0);
  });
});

describe('a validator of the caller', () => {
  const view = {} as Parameters<typeof judge>[1];
  test.each([
    [{ verdict: 'send', goodForMs: 1000 }, 'send'],
    [{ verdict: 'wait' }, 'wait'],
    [{ verdict: 'refuse', detail: 'no' }, 'refuse'],
    [{ verdict: 'send' }, 'wait'],
    [{ verdict: 'send', goodForMs: 0 }, 'wait'],
    [{ verdict: 'send', goodForMs: Number.NaN }, 'wait'],
    [{ verdict: 'send', goodForMs: 3_600_001 }, 'wait'],
    [{ verdict: 'refuse', detail: '' }, 'wait'],
    [{ verdict: 'refuse', detail: 'x'.repeat(513) }, 'wait'],
    [true, 'wait'],
    [null, 'wait'],
    ['send', 'wait'],
  ])('that answers %j means %s', async (judgement, verdict) => {
    expect(await judge(() => judgement as never, view)).toMatchObject({ verdict });
    expect(await judge(async () => judgement as never, view)).toMatchObject({ verdict });
  });

  test.each([
    ['amount is 120\nlimit is 100', 'amount is 120 limit is 100'],
    ['\u001b[31mno\u009f\u2028\u2029', ' [31mno   '],
    ['half \ud83d of 🙂', 'half   of 🙂'],
    ['\u2028'.repeat(512), ' '.repeat(512)],
  ])('is quoted on one line: %j', async (detail, said) => {
    const judgement = await judge(() => ({ verdict: 'refuse', detail }), view);
    expect(judgement).toEqual({ verdict: 'refuse', detail: said });
    expect(checkIdText(said, 1, 512)).toBeUndefined();
  });

  test('that throws changes nothing', async () => {
    const raise = (): never => {
      throw new Error('no');
    };
    expect(await judge(raise, view)).toEqual({ verdict: 'wait' });
    expect(await judge(async () => raise(), view)).toEqual({ verdict: 'wait' });
  });
});
