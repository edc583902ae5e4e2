import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect as connectHttp2,
  type SecureClientSessionOptions,
} from 'node:http2';
import { connect as connectTcp, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { deflateSync, gzipSync } from 'node:zlib';
import { create, type DescMethod, toBinary } from '@bufbuild/protobuf';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { ClientIdentity } from '../../src/cli/client/service-client.js';
import { AuditService, WatchEntriesRequestSchema } from '../../src/gen/surety/audit/v1/audit_service_pb.js';
import { EffectService } from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { WorkloadService } from '../../src/gen/surety/identity/v1/workload_service_pb.js';
import { METHOD_TABLE } from '../../src/identity/method-table.js';
import { CONTRACT_SERVICES } from '../../src/rpc/contract.js';
import { connectionLimits, MAX_MESSAGE_BYTES } from '../../src/server/limits.js';
import { OWNER, registerWorker, WORKER } from '../support/action-parties.js';
import {
  ACME,
  AUDITOR,
  type E2eWorld,
  EXECUTOR_A,
  HARNESS,
  OPERATOR,
  openE2eWorld,
  RECONCILER,
  SERVICE_DOMAIN,
} from '../support/e2e-world.js';
import { NONSENSE, nonsenseOf } from '../support/nonsense.js';
import { frame, pathOf, RawCaller } from '../support/raw-caller.js';
import { growthOf } from '../support/service-memory.js';

// Hostile bytes against the whole service: the process lives, its memory stays flat, and others are served, down to the
// store. What the listener alone can show is in test/server/hostile-bytes.test.ts.

const MIB = 1024 * 1024;

let world: E2eWorld;
beforeAll(async () => {
  world = await openE2eWorld({ env: { SURETY_REFLECTION: '1' } });
  await world.executor();
  await world.reconciler();
  await registerWorker(world);
});
afterAll(() => world?.close());

function identityOf(spiffeId: string): ClientIdentity {
  const { cert, key } = world.layout.callers[spiffeId] ?? { cert: '', key: '' };
  return {
    certificate: readFileSync(cert),
    key: readFileSync(key),
    roots: readFileSync(world.layout.serviceBundle),
  };
}

function raw(spiffeId: string): RawCaller {
  const caller = new RawCaller(world.service.target, identityOf(spiffeId));
  raws.push(caller);
  return caller;
}
const raws: RawCaller[] = [];
/** As much of the log has been looked at. */
let judged = 0;

/** After everything hostile others are served: who was connected, who comes now, through the lane and to the store. */
afterEach(async () => {
  for (const caller of raws.splice(0)) caller.close();
  await world.publish();
  expect(await raw(EXECUTOR_A).call(WorkloadService.method.whoAmI)).toMatchObject({ code: 'OK' });
  const log = world.service.log();
  expect(log.slice(judged)).not.toContain('internal error');
  judged = log.length;
  raws.splice(0).forEach((caller) => caller.close());
});

/** A request to WhoAmI of exactly so many bytes, by a field that nobody knows. */
function whoAmIOf(size: number): Buffer {
  // Field 15, length-delimited, its length in three octets however short it is.
  const length = size - 4;
  const head = [0x7a, (length & 0x7f) | 0x80, ((length >> 7) & 0x7f) | 0x80, length >> 14];
  return Buffer.concat([Buffer.from(head), Buffer.alloc(length)]);
}

const WHO_AM_I = pathOf(WorkloadService.method.whoAmI);

describe('message size', () => {
  test.each([
    [MAX_MESSAGE_BYTES - 1, 'OK'],
    [MAX_MESSAGE_BYTES, 'OK'],
    [MAX_MESSAGE_BYTES + 1, 'RESOURCE_EXHAUSTED'],
  ])('%i bytes: %s', async (size, code) => {
    const message = whoAmIOf(size);
    const caller = raw(HARNESS);
    expect(await caller.send(WHO_AM_I, frame(message))).toMatchObject({ code });
    for (const [name, compressed] of [
      ['gzip', gzipSync(message)],
      ['deflate', deflateSync(message)],
    ] as const) {
      const headers = { 'grpc-encoding': name };
      expect(await caller.send(WHO_AM_I, frame(compressed, true), headers)).toMatchObject({ code });
    }
  });

  test('twenty gigabytes that were twenty megabytes on the wire are not held', async () => {
    // Members of a gzip file are decompressed one after the other, as if they were one.
    const member = gzipSync(Buffer.alloc(64 * MIB), { level: 9 });
    const bomb = Buffer.concat(Array.from({ length: 16 }, () => member));
    expect(bomb.length).toBeLessThan(MAX_MESSAGE_BYTES);
    const caller = raw(HARNESS);
    const grown = await growthOf(world.service.pid, async () => {
      const headers = { 'grpc-encoding': 'gzip' };
      const bombs = Array.from({ length: 20 }, () => caller.send(WHO_AM_I, frame(bomb, true), headers));
      for (const outcome of await Promise.all(bombs))
        expect(outcome).toMatchObject({ code: 'RESOURCE_EXHAUSTED' });
    });
    expect(grown).toBeLessThan(160);
  });
});

describe('bytes that are no call', () => {
  test.each<[string, Buffer, Record<string, string>]>([
    ['a length of four gigabytes', Buffer.from([0, 0xff, 0xff, 0xff, 0xff, 1]), {}],
    ['a length that is more than what comes', Buffer.from([0, 0, 0, 0, 9, 1]), {}],
    ['half a frame header', Buffer.from([0, 0]), {}],
    ['nothing', Buffer.alloc(0), {}],
    ['two messages', Buffer.concat([frame(Buffer.alloc(0)), frame(Buffer.alloc(0))]), {}],
    ['a compression that nobody knows', frame(Buffer.from('x'), true), { 'grpc-encoding': 'br' }],
    ['gzip that is none', frame(Buffer.from('not gzip'), true), { 'grpc-encoding': 'gzip' }],
    ['a timeout that is none', frame(Buffer.alloc(0)), { 'grpc-timeout': 'soon' }],
    ['a timeout of no time', frame(Buffer.alloc(0)), { 'grpc-timeout': '0n' }],
    ['another content type', frame(Buffer.alloc(0)), { 'content-type': 'text/html' }],
    ['GET', frame(Buffer.alloc(0)), { ':method': 'GET' }],
    ['a path that no service has', frame(Buffer.alloc(0)), { ':path': '/%00/../x' }],
    ['a property of every object', frame(Buffer.alloc(0)), { ':path': '/__proto__/constructor' }],
    [
      'a method of every object',
      frame(Buffer.alloc(0)),
      { ':path': '/surety.effect.v1.EffectService/toString' },
    ],
  ])('%s is an error of that call alone', async (_, body, headers) => {
    const caller = raw(HARNESS);
    const { code } = await caller.send(WHO_AM_I, body, headers);
    expect(code).not.toMatch(/^(OK|UNKNOWN)$/);
    expect(await caller.call(WorkloadService.method.whoAmI)).toMatchObject({ code: 'OK' });
  });

  test.each(['[', '[::1', '%', '\\', 'a:b:c', '@'])('an authority of %s ends nothing', async (authority) => {
    const outcome = await raw(HARNESS).send(WHO_AM_I, frame(Buffer.alloc(0)), { ':authority': authority });
    expect(['OK', 'RESET']).toContain(outcome.code);
  });

  test('headers: large, many, and none that can be decoded', async () => {
    const caller = raw(HARNESS);
    const send = (headers: Record<string, string>) => caller.send(WHO_AM_I, frame(Buffer.alloc(0)), headers);
    expect(await send({ 'x-large': 'x'.repeat(60_000) })).toMatchObject({ code: 'OK' });
    expect(await send({ 'x-not-base64-bin': '!!!', 'grpc-status-details-bin': '%%' })).toMatchObject({
      code: 'OK',
    });
    expect(await send({ 'x-request-id': '\u00ff'.repeat(9), 'grpc-trace-bin': '' })).toMatchObject({
      code: 'OK',
    });
    const many = Object.fromEntries(Array.from({ length: 1_500 }, (_, i) => [`x-${i}`, 'x'.repeat(20)]));
    expect((await send(many)).code).toBe('RESET');
    expect(
      (await raw(HARNESS).send(WHO_AM_I, frame(Buffer.alloc(0)), { 'x-large': 'x'.repeat(70_000) })).code,
    ).toBe('RESET');
  });

  test('a thousand calls that are taken back at once hold nothing', async () => {
    for (const method of [
      WorkloadService.method.whoAmI,
      EffectService.method.reserveEffect,
      AuditService.method.listEntries,
    ]) {
      const caller = raw(method === AuditService.method.listEntries ? AUDITOR : HARNESS);
      for (let each = 0; each < 350; each += 1) {
        const stream = caller.open(pathOf(method));
        stream.write(frame(Buffer.from([])));
        stream.close(8);
      }
    }
    await expectIdle();
  });
});

describe('every method, to one who may call it', () => {
  const KINDS = [
    ['operator', OPERATOR],
    ['harness', HARNESS],
    ['executor', EXECUTOR_A],
    ['reconciler', RECONCILER],
    ['owner', OWNER],
    ['worker', WORKER],
  ] as const;
  const METHODS = CONTRACT_SERVICES.flatMap(({ methods }) => methods).map((method) => {
    const kinds = METHOD_TABLE.get(pathOf(method).slice(1))?.kinds;
    const caller = KINDS.find(([kind]) => kinds?.has(kind))?.[1];
    if (caller === undefined) throw new Error(`nobody calls ${pathOf(method)}`);
    return { method, caller };
  });

  /** Sends one request to each method, and answers what came of those whose answer is not as it should be. */
  async function sendAll(request: (method: DescMethod) => Uint8Array, answer: RegExp): Promise<string[]> {
    const callers = new Map(KINDS.map(([, spiffeId]) => [spiffeId, raw(spiffeId)] as const));
    const outcomes = METHODS.map(async ({ method, caller }) => {
      const { code, reason } = await (callers.get(caller) as RawCaller).call(method, request(method));
      return `${method.name} ${code} ${reason}`;
    });
    return (await Promise.all(outcomes)).filter(
      (outcome) => !answer.test(outcome.slice(outcome.indexOf(' ') + 1)),
    );
  }

  test.each<[string, Buffer]>([
    ['a value that is not there', Buffer.from([0x08])],
    ['field 0', Buffer.from([0x00, 0x00])],
    ['a wire type that does not exist', Buffer.from([0x0f])],
    ['a length beyond the end', Buffer.from([0x0a, 0xff, 0xff, 0xff, 0xff, 0x07])],
    ['a negative length', Buffer.from([0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01])],
    ['the end of a group that did not begin', Buffer.from([0x0c])],
    ['a hundred thousand groups within each other', Buffer.alloc(100_000, 0x0b)],
  ])('%s is FIELD_INVALID', async (_, bytes) => {
    expect(await sendAll(() => bytes, /^INVALID_ARGUMENT FIELD_INVALID$/)).toEqual([]);
  });

  test.each(Object.entries(NONSENSE))(
    '%s: an answer of ours, and never an internal error',
    async (_, nonsense) => {
      const request = ({ input }: DescMethod) => toBinary(input, nonsenseOf(input, nonsense, ACME));
      const answer =
        /^(OK|OPEN|NOT_FOUND|(INVALID_ARGUMENT|UNAUTHENTICATED|PERMISSION_DENIED|FAILED_PRECONDITION) [A-Z_]+) ?$/;
      expect(await sendAll(request, answer)).toEqual([]);
    },
  );
});

describe('who takes and gives nothing', () => {
  test('a reader of a watch that does not read costs a page, however long the log is', async () => {
    const domainId = 'initech.test';
    await world.admin.execute(SERVICE_DOMAIN, { case: 'createDomain', value: { domainId } });
    // 80 MB, which nobody but a watcher looks at.
    await world.sql.query(
      `INSERT INTO audit_entries (domain_id, seq, entry, leaf_hash, chain_hash)
       SELECT $1, seq, decode(repeat(md5(seq::text), 256), 'hex'), sha256(''), sha256('')
       FROM generate_series(100, 20099) AS seq`,
      [domainId],
    );
    const request = frame(
      toBinary(WatchEntriesRequestSchema, create(WatchEntriesRequestSchema, { domainId })),
    );
    const slow = Array.from({ length: 20 }, () =>
      raw(AUDITOR).open(pathOf(AuditService.method.watchEntries)),
    );
    const grown = await growthOf(world.service.pid, async () => {
      for (const stream of slow) stream.end(request).pause();
      for (let round = 0; round < 20; round += 1) {
        await world.publish();
        await sleep(100);
      }
    });
    expect(grown).toBeLessThan(96);
    // One that begins to read gets all of it.
    const [reader] = slow as [ClientHttp2Stream];
    let received = 0;
    await new Promise<void>((resolve) => {
      reader.on('data', (chunk: Buffer) => {
        received += chunk.length;
        if (received > 64 * MIB) resolve();
      });
      reader.resume();
    });
    for (const stream of slow) expect(stream.destroyed).toBe(false);
  });

  test('two thousand idle connections, or as many as may be open here', { timeout: 120_000 }, async () => {
    const { named, silent, atOnce } = idleCounts();
    const sessions: ClientHttp2Session[] = [];
    const sockets: Socket[] = [];
    const callers = [HARNESS, EXECUTOR_A].map((spiffeId) => {
      const { certificate: cert, key, roots: ca } = identityOf(spiffeId);
      return { servername: 'localhost', ca, cert, key };
    });
    const grown = await growthOf(world.service.pid, async () => {
      // Those who only say who they are, and those who never say a word.
      await inBatches(named, atOnce, (i) => idleSession(sessions, callers[i % callers.length]));
      await inBatches(silent, atOnce, () => idle(sockets));
      await world.publish();
      expect(await raw(RECONCILER).call(WorkloadService.method.whoAmI)).toMatchObject({ code: 'OK' });
    });
    expect(grown).toBeLessThan(160);
    // The silent ones push out nobody but their own kind.
    expect(sessions.filter(({ destroyed }) => destroyed)).toEqual([]);
    expect(sessions).toHaveLength(named);
    for (const one of [...sessions, ...sockets]) one.destroy();
  });

  /** The service's limits are those of its open files, which it has from us; half of what is left to it is enough. */
  function idleCounts(): { named: number; silent: number; atOnce: number } {
    const { maxConnections, maxConnectionsPerCaller, maxHandshakesPerAddress } = connectionLimits();
    const named = 2 * Math.min(100, Math.floor(maxConnectionsPerCaller / 2));
    return {
      named,
      silent: Math.min(1_800, Math.floor(maxConnections / 2) - named),
      // More would push out each other's handshakes.
      atOnce: Math.min(50, Math.max(1, Math.floor(maxHandshakesPerAddress / 2))),
    };
  }

  function address(): { host: string; port: number } {
    const [host = '', port] = world.service.target.split(':');
    return { host, port: Number(port) };
  }

  /** Answers what keeps a connection, however slow the machine is, and asks for nothing. */
  async function idleSession(
    sessions: ClientHttp2Session[],
    options: SecureClientSessionOptions = {},
  ): Promise<void> {
    const { host, port } = address();
    const session = connectHttp2(`https://${host}:${port}`, options);
    sessions.push(session);
    session.on('error', () => {});
    await once(session, 'remoteSettings');
  }

  /** Resolves when the socket is open, or was refused. */
  function idle(sockets: Socket[]): Promise<void> {
    const socket = connectTcp(address());
    sockets.push(socket);
    return new Promise((resolve) => {
      socket.once('connect', () => resolve());
      socket.on('error', () => resolve());
      socket.resume();
    });
  }

  async function inBatches(
    count: number,
    atOnce: number,
    one: (index: number) => Promise<void>,
  ): Promise<void> {
    for (let done = 0; done < count; done += atOnce) {
      await Promise.all(Array.from({ length: Math.min(atOnce, count - done) }, (_, i) => one(done + i)));
    }
  }
});

/** Nobody waits, and nothing is held for callers who have gone. */
async function expectIdle(): Promise<void> {
  const held =
    /^surety_(queued_commands|lane_connections_awaited|read_connections_in_use|read_connections_awaited) [^0]/m;
  for (let left = 100; ; left -= 1) {
    const text = await (await fetch(`${world.service.admin}/metrics`)).text();
    if (!held.test(text)) return;
    if (left === 0) throw new Error(held.exec(text)?.[0]);
    await sleep(50);
  }
}
