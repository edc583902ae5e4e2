import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { connect as connectTcp } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { TLSSocket } from 'node:tls';
import { createGzip, deflateSync, gzipSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { callLimits } from '../../src/server/call-limits.js';
import { CONNECTION_LIMITS, MAX_HEADER_LIST_BYTES, MAX_MESSAGE_BYTES } from '../../src/server/limits.js';
import {
  CALLER_ID,
  Caller,
  FLOOD_MESSAGE_BYTES,
  frame,
  type Harness,
  HTTP2_OPENING,
  RawCaller,
  rawTls,
  startHarness,
  until,
  whoAmI,
} from './harness.js';

const MIB = 1024 * 1024;
const here = import.meta.dirname;

let harness: Harness;
let raw: RawCaller;
beforeAll(async () => {
  harness = await startHarness({ interceptors: [callLimits()] });
});
afterAll(() => harness.stop());
beforeEach(() => {
  raw = new RawCaller(harness);
});
/** After everything hostile, somebody else is served. */
afterEach(async () => {
  raw.close();
  const bystander = harness.authorities.globex.leaf('spiffe://globex.test/worker/mailer');
  expect(await whoAmI(harness, bystander)).toMatchObject({ code: 'OK' });
});

/** The most that resident memory grew while `act` ran, in MiB. */
async function growthOf(act: () => Promise<unknown>): Promise<number> {
  const before = process.memoryUsage().rss;
  let peak = before;
  const watch = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage().rss);
  }, 2);
  await act();
  clearInterval(watch);
  return (Math.max(peak, process.memoryUsage().rss) - before) / MIB;
}

/**
 * A connection that was let in, whose first bytes of HTTP/2 have come, and of which no more is read. What the server sent
 * is there however late it is looked at, also where the server has ended it meanwhile.
 */
async function greeted(server: Harness): Promise<TLSSocket> {
  const leaf = server.authorities.acme.leaf(CALLER_ID);
  const socket = await rawTls(server, { cert: leaf.pem, key: leaf.keyPem });
  await once(socket, 'data');
  socket.pause();
  return socket;
}

async function gzippedZeros(size: number): Promise<Buffer> {
  const gzip = createGzip({ level: 9 });
  const chunks: Buffer[] = [];
  gzip.on('data', (chunk: Buffer) => chunks.push(chunk));
  const zeros = Buffer.alloc(MIB);
  for (let left = size; left > 0; left -= zeros.length) {
    if (!gzip.write(zeros.subarray(0, Math.min(left, zeros.length)))) await once(gzip, 'drain');
  }
  gzip.end();
  await once(gzip, 'end');
  return Buffer.concat(chunks);
}

describe('message size', () => {
  it.each([
    [MAX_MESSAGE_BYTES - 1, 'OK'],
    [MAX_MESSAGE_BYTES, 'OK'],
    [MAX_MESSAGE_BYTES + 1, 'RESOURCE_EXHAUSTED'],
  ])('%i bytes: %s', async (size, code) => {
    expect(await raw.send('Size', frame(Buffer.alloc(size)))).toMatchObject({ code });
    expect(
      await raw.send('Size', frame(gzipSync(Buffer.alloc(size)), true), { 'grpc-encoding': 'gzip' }),
    ).toMatchObject({ code });
    expect(
      await raw.send('Size', frame(deflateSync(Buffer.alloc(size)), true), { 'grpc-encoding': 'deflate' }),
    ).toMatchObject({ code });
  });

  it('refuses a gigabyte that was a megabyte on the wire, without holding it', async () => {
    const bomb = await gzippedZeros(1024 * MIB);
    expect(bomb.length).toBeLessThan(MAX_MESSAGE_BYTES);
    const grown = await growthOf(async () => {
      const outcome = await raw.send('Size', frame(bomb, true), { 'grpc-encoding': 'gzip' });
      expect(outcome).toMatchObject({ code: 'RESOURCE_EXHAUSTED' });
    });
    expect(grown).toBeLessThan(64);
  });

  it('decompresses nothing of a call that packs many small bombs into one chunk', async () => {
    const small = frame(gzipSync(Buffer.alloc(MAX_MESSAGE_BYTES), { level: 9 }), true);
    const pack = Buffer.concat(Array.from({ length: 15 }, () => small));
    expect(pack.length).toBeLessThan(16_384);
    const grown = await growthOf(async () => {
      const calls = Array.from({ length: 100 }, () => raw.send('Size', pack, { 'grpc-encoding': 'gzip' }));
      for (const outcome of await Promise.all(calls))
        expect(outcome).toMatchObject({ code: 'RESOURCE_EXHAUSTED' });
    });
    expect(grown).toBeLessThan(128);
  });
});

describe('malformed bytes', () => {
  it.each<[string, Buffer, Record<string, string>]>([
    ['a length of four gigabytes', Buffer.from([0, 0xff, 0xff, 0xff, 0xff, 1]), {}],
    ['a length that is more than what comes', Buffer.from([0, 0, 0, 0, 9, 1]), {}],
    ['half a frame header', Buffer.from([0, 0]), {}],
    ['nothing', Buffer.alloc(0), {}],
    ['a compression flag without a compression', frame(Buffer.from('x'), true), { 'grpc-encoding': 'br' }],
    ['gzip that is none', frame(Buffer.from('not gzip'), true), { 'grpc-encoding': 'gzip' }],
    [
      'gzip that is cut short',
      frame(gzipSync(Buffer.alloc(99)).subarray(0, 20), true),
      { 'grpc-encoding': 'gzip' },
    ],
    ['a timeout that is none', frame(Buffer.from('x')), { 'grpc-timeout': 'soon' }],
    ['another content type', frame(Buffer.from('x')), { 'content-type': 'text/html' }],
    ['a path that no service has', frame(Buffer.from('x')), { ':path': '/%00/../x' }],
  ])('%s is an error of that call alone', async (_, body, headers) => {
    expect((await raw.send('Size', body, headers)).code).not.toBe('OK');
    expect(await raw.send('Size', frame(Buffer.alloc(2)))).toEqual({ code: 'OK', text: '2' });
  });

  it.each(['[', '[::1', '[::1]:x', '%', '\\', 'a:b:c'])(
    'an authority of %s ends nothing',
    async (authority) => {
      const outcome = await raw.send('Size', frame(Buffer.alloc(2)), { ':authority': authority });
      expect(['OK', 'RESET']).toContain(outcome.code);
    },
  );

  it('refuses a header list beyond the limit, and one header of it too', async () => {
    const fits = await raw.send('Size', frame(Buffer.alloc(2)), {
      'x-large': 'x'.repeat(MAX_HEADER_LIST_BYTES - 1_000),
    });
    expect(fits).toEqual({ code: 'OK', text: '2' });
    const large = { 'x-a': 'x'.repeat(40_000), 'x-b': 'x'.repeat(40_000) };
    expect((await raw.send('Size', frame(Buffer.alloc(2)), large)).code).toBe('RESET');
  });

  it('bytes that are no TLS end that socket alone', async () => {
    for (const content of [
      '\x16\x03\x01\xff\xff',
      '\x16\x03\x01\0\x05\x01\0\0\x01\0',
      '\0'.repeat(1_000),
      'SSH-2.0-x\r\n',
    ]) {
      const socket = connectTcp(harness.port, '127.0.0.1');
      socket.on('error', () => {});
      socket.resume();
      socket.end(Buffer.from(content, 'latin1'));
      await once(socket, 'close');
    }
  });

  it('streams that are opened and reset at once do no harm', async () => {
    for (let each = 0; each < 2_000; each += 1) raw.open('Size').close(8);
    raw.close();
    raw = new RawCaller(harness);
    expect(await raw.send('Size', frame(Buffer.alloc(2)))).toEqual({ code: 'OK', text: '2' });
  });
});

describe('frames that no client sends', () => {
  // Node answers some of them with GOAWAY and waits; it is the PING that ends those.
  let watchful: Harness;
  beforeAll(async () => {
    watchful = await startHarness({
      server: { 'grpc.keepalive_time_ms': 200, 'grpc.keepalive_timeout_ms': 200 },
    });
  });
  afterAll(() => watchful.stop());

  it.each<[string, Buffer]>([
    ['no preface', Buffer.from('GET / HTTP/1.1\r\nhost: x\r\n\r\n')],
    ['random bytes', Buffer.from(Array.from({ length: 4_096 }, (_, at) => (at * 7919) % 251))],
    [
      'a frame of sixteen megabytes',
      Buffer.concat([HTTP2_OPENING, Buffer.from([0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1])]),
    ],
    [
      'DATA for a stream that is not open',
      Buffer.concat([HTTP2_OPENING, Buffer.from([0, 0, 1, 0, 0, 0, 0, 0, 7, 0])]),
    ],
    [
      'headers that HPACK cannot read',
      Buffer.concat([HTTP2_OPENING, Buffer.from([0, 0, 4, 1, 5, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff])]),
    ],
    [
      'a window beyond its limit',
      Buffer.concat([HTTP2_OPENING, Buffer.from([0, 0, 4, 8, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff])]),
    ],
    [
      'CONTINUATION without headers',
      Buffer.concat([HTTP2_OPENING, Buffer.from([0, 0, 1, 9, 4, 0, 0, 0, 1, 0])]),
    ],
  ])('%s ends that connection alone', async (_, content) => {
    const leaf = watchful.authorities.acme.leaf(CALLER_ID);
    const socket = await rawTls(watchful, { cert: leaf.pem, key: leaf.keyPem });
    socket.resume();
    socket.write(content);
    await once(socket, 'close');
    (await greeted(watchful)).destroy();
  });
});

describe('readers that do not read', () => {
  it('hold what one buffer takes, and no more comes', async () => {
    const slow = Array.from({ length: 20 }, () => raw.open('Flood'));
    const before = harness.flood.sent;
    const grown = await growthOf(async () => {
      for (const stream of slow) {
        stream.end(frame(Buffer.alloc(0)));
        stream.pause();
      }
      await until(() => harness.flood.sent > before, 'the first message');
      let sent = 0;
      while (sent !== harness.flood.sent) {
        sent = harness.flood.sent;
        await new Promise((resolve) => setTimeout(resolve, 300));
      }
    });
    // grpc-js takes sixteen messages of a stream before it says that it is full.
    expect(harness.flood.sent - before).toBeLessThanOrEqual(slow.length * 18);
    expect(grown).toBeLessThan((slow.length * 18 * FLOOD_MESSAGE_BYTES) / MIB + 64);
  });

  it('are found by the PING that they do not answer', async () => {
    const strict = await startHarness({
      server: { 'grpc.keepalive_time_ms': 100, 'grpc.keepalive_timeout_ms': 200 },
    });
    // One never sends its preface, one stalls within a header block, one stops reading its socket.
    const stalled = Buffer.concat([HTTP2_OPENING, Buffer.from([0, 0, 9, 1, 4, 0, 0, 0, 1, 0x82])]);
    for (const opening of [Buffer.alloc(0), stalled, HTTP2_OPENING]) {
      const socket = await greeted(strict);
      if (opening.length > 0) socket.write(opening);
      await until(() => strict.listener.openConnections === 0, 'its end');
      socket.destroy();
    }
    await strict.stop();
  });

  it('are not those that answer it', async () => {
    const patient = await startHarness({
      server: { 'grpc.keepalive_time_ms': 50, 'grpc.keepalive_timeout_ms': 60_000 },
    });
    const reading = new RawCaller(patient);
    let pings = 0;
    reading.session.on('ping', () => (pings += 1));
    // The next PING goes out only when the one before it was answered.
    await until(() => pings >= 3, 'three PINGs');
    expect(await reading.send('Size', frame(Buffer.alloc(2)))).toEqual({ code: 'OK', text: '2' });
    expect(patient.listener.openConnections).toBe(1);
    reading.close();
    await patient.stop();
  });
});

describe('more sockets than anybody needs', () => {
  const children: ChildProcess[] = [];
  afterEach(() => {
    for (const child of children.splice(0)) child.kill('SIGKILL');
  });

  interface Lines {
    has(line: RegExp): boolean;
    until(line: RegExp): Promise<string>;
  }

  function linesOf(child: ChildProcess): Lines {
    const seen: string[] = [];
    if (child.stdout !== null) createInterface({ input: child.stdout }).on('line', (line) => seen.push(line));
    const has = (line: RegExp): boolean => seen.some((each) => line.test(each));
    return {
      has,
      until: async (line) => {
        await until(() => has(line), `${line} of a child`, 50_000);
        return seen.find((each) => line.test(each)) ?? '';
      },
    };
  }

  it('ten thousand that say nothing leave the process flat and others served', {
    timeout: 60_000,
  }, async () => {
    const caller = new Caller(harness, harness.authorities.acme.leaf(CALLER_ID));
    await caller.whoAmI();
    const grown = await growthOf(async () => {
      const child = spawn(process.execPath, [join(here, 'idle-sockets.mjs'), String(harness.port), '10000'], {
        stdio: ['pipe', 'pipe', 'inherit'],
      });
      children.push(child);
      const lines = linesOf(child);
      while (!lines.has(/^open$/)) {
        expect(await whoAmI(harness, harness.authorities.acme.leaf(CALLER_ID))).toMatchObject({ code: 'OK' });
        expect(await caller.whoAmI()).toMatchObject({ code: 'OK' });
        expect(harness.listener.openHandshakes).toBeLessThanOrEqual(CONNECTION_LIMITS.maxHandshakes);
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    });
    expect(grown).toBeLessThan(128);
    caller.close();
  });

  it('no descriptor left is not the end of the process', { timeout: 60_000 }, async () => {
    writeFileSync(join(harness.folder.path, 'service.crt'), harness.service.pem);
    writeFileSync(join(harness.folder.path, 'service.key'), harness.service.keyPem);
    const script = join(here, 'starved-listener.mjs');
    const command = `ulimit -n 96 && exec "${process.execPath}" "${script}" "${harness.folder.path}"`;
    const child = spawn('sh', ['-c', command], { stdio: ['pipe', 'pipe', 'inherit'] });
    children.push(child);
    const lines = linesOf(child);
    const port = Number((await lines.until(/^port /)).slice('port '.length));
    const reach = async (): Promise<boolean> => {
      const leaf = harness.authorities.acme.leaf(CALLER_ID);
      return rawTls({ ...harness, port }, { cert: leaf.pem, key: leaf.keyPem }).then(
        (socket) => socket.destroy() !== undefined,
        () => false,
      );
    };
    expect(await reach()).toBe(true);
    child.stdin?.write('starve\n');
    await lines.until(/^starved$/);
    expect(await reach()).toBe(false);
    child.stdin?.write('feed\n');
    await lines.until(/^fed$/);
    expect(await reach()).toBe(true);
    expect(child.exitCode).toBe(null);
  });
});
