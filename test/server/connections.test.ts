import { once } from 'node:events';
import { connect as connectHttp2 } from 'node:http2';
import { connect as connectTcp, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { CONNECTION_LIMITS, connectionLimits } from '../../src/server/limits.js';
import {
  CALLER_ID,
  Caller,
  endOf,
  type Harness,
  type HarnessOptions,
  rawTls,
  startHarness,
  until,
} from './harness.js';

let harness: Harness;
const callers: Caller[] = [];

async function start(options?: HarnessOptions): Promise<void> {
  harness = await startHarness(options);
}

function caller(id = CALLER_ID): Caller {
  const made = new Caller(harness, harness.authorities.acme.leaf(id));
  callers.push(made);
  return made;
}

afterEach(async () => {
  for (const made of callers.splice(0)) made.close();
  await harness.stop();
});

describe('ending connections (identity.md, Living connections)', () => {
  it('ends the streams of the callers that a predicate names, and no others', async () => {
    await start();
    const [revoked, other] = [caller(), caller('spiffe://acme.test/executor/payments-b')];
    const end = endOf(revoked.stream('Watch'));
    const stays = other.stream('Watch');
    await once(stays, 'data');
    await until(() => harness.listener.openConnections === 2, 'two connections');
    expect(
      harness.listener.endConnections((peer) => peer.rejected === undefined && peer.spiffeId === CALLER_ID),
    ).toBe(1);
    expect(await end).toEqual({ code: 'UNAUTHENTICATED', text: 'CALLER_ENDED' });
    await until(() => harness.listener.openConnections === 1, 'the end of the connection');
    expect(await other.whoAmI()).toMatchObject({ code: 'OK' });
    stays.on('error', () => {});
    stays.cancel();
  });

  it('cuts even who does not listen', async () => {
    await start();
    const silent = caller();
    const hanging = silent.call('Hang');
    await until(() => harness.listener.openConnections === 1, 'a connection');
    harness.listener.endConnections(() => true);
    expect((await hanging).code).toBe('UNAVAILABLE');
    await until(() => harness.listener.openConnections === 0, 'the end of the connection');
  });

  it('gives every connection a maximum age: GOAWAY, grace, end', async () => {
    await start({ server: { 'grpc.max_connection_age_ms': 300, 'grpc.max_connection_age_grace_ms': 300 } });
    const leaf = harness.authorities.acme.leaf(CALLER_ID);
    const session = connectHttp2(`https://localhost:${harness.port}`, {
      ca: harness.authorities.surety.pem,
      cert: leaf.pem,
      key: leaf.keyPem,
    });
    session.on('error', () => {});
    const stream = session.request({
      ':method': 'POST',
      ':path': '/test.Bytes/Watch',
      'content-type': 'application/grpc',
    });
    stream.on('error', () => {});
    const answered = once(stream, 'response');
    const goneAway = once(session, 'goaway').then(([code]) => ({ code, closed: stream.closed }));
    const closed = once(session, 'close');
    stream.end(Buffer.alloc(5));
    stream.resume();
    await answered;
    expect(await goneAway).toEqual({ code: 0, closed: false });
    await closed;
    await until(() => harness.listener.openConnections === 0, 'the end of the connection');
  });
});

describe('drain', () => {
  it('lets a call end, takes no new connection, and leaves none', async () => {
    await start();
    const working = caller();
    const stream = working.stream('Watch');
    await once(stream, 'data');
    const end = endOf(stream);
    const idle = connectTcp(harness.port, '127.0.0.1');
    idle.on('error', () => {});
    await until(() => harness.listener.openHandshakes === 1, 'a handshake');
    const started = performance.now();
    const drained = harness.listener.drain(300);
    await expect(rawTls(harness)).rejects.toThrow(/ECONNREFUSED/);
    await drained;
    expect(performance.now() - started).toBeGreaterThan(250);
    expect((await end).code).not.toBe('OK');
    expect(harness.listener.openConnections).toBe(0);
    expect(harness.listener.openHandshakes).toBe(0);
  });

  it('does not wait for the grace when nothing is running', async () => {
    await start();
    await caller().whoAmI();
    // Longer than this test may take.
    await harness.listener.drain(600_000);
  });
});

describe('how many connections there may be', () => {
  const few = {
    maxConnections: 40,
    maxConnectionsPerCaller: 3,
    maxHandshakes: 12,
    maxHandshakesPerAddress: 8,
  };

  it('keeps one caller from taking the place of others', async () => {
    await start({ listener: { limits: few } });
    const many = Array.from({ length: 5 }, () => caller());
    const outcomes = await Promise.all(many.map((each) => each.whoAmI()));
    expect(outcomes.map(({ code }) => code).sort()).toEqual(['OK', 'OK', 'OK', 'UNAVAILABLE', 'UNAVAILABLE']);
    expect(harness.listener.refusals.get('TOO_MANY_CONNECTIONS')).toBeGreaterThanOrEqual(2);
    expect(await caller('spiffe://acme.test/executor/payments-b').whoAmI()).toMatchObject({ code: 'OK' });
    for (const each of many) each.close();
    await until(() => harness.listener.openConnections === 1, 'the end of five');
    expect(await caller().whoAmI()).toMatchObject({ code: 'OK' });
  });

  it('lets silent sockets give way to a real handshake', async () => {
    await start({ listener: { limits: few, handshakeTimeoutMs: 60_000 } });
    const silent: Socket[] = [];
    for (let each = 0; each < 30; each += 1) {
      const socket = connectTcp(harness.port, '127.0.0.1');
      socket.on('error', () => {});
      silent.push(socket);
      await once(socket, 'connect');
    }
    await until(() => harness.listener.openHandshakes <= 8, 'the end of the oldest');
    expect(await caller().whoAmI()).toMatchObject({ code: 'OK' });
    expect(silent.filter(({ destroyed }) => destroyed).length).toBeGreaterThanOrEqual(20);
    for (const socket of silent) socket.destroy();
  });

  it('ends a handshake that takes too long', async () => {
    await start({ listener: { handshakeTimeoutMs: 100 } });
    // The second one shows that the port is still open; an honest caller's handshake may take longer here.
    for (const nth of [1, 2]) {
      const socket = connectTcp(harness.port, '127.0.0.1');
      socket.on('error', () => {});
      socket.resume();
      await once(socket, 'close');
      await until(() => harness.listener.refusals.get('HANDSHAKE_FAILED') === nth, 'the refusal');
      await until(() => harness.listener.openHandshakes === 0, 'the end of the handshake');
    }
    expect(harness.log.lines.at(-1)?.fields).toEqual({
      reason: 'HANDSHAKE_FAILED',
      remoteAddress: '127.0.0.1',
      detail: 'ERR_TLS_HANDSHAKE_TIMEOUT',
    });
  });

  it('accepts no more sockets than its budget', async () => {
    await start({ listener: { limits: { ...few, maxConnections: 2 } } });
    const held = [await rawTlsOf(CALLER_ID), await rawTlsOf(CALLER_ID)];
    await until(() => harness.listener.openConnections === 2, 'two connections');
    expect((await caller().whoAmI()).code).toBe('UNAVAILABLE');
    for (const socket of held) socket.destroy();
    await until(() => harness.listener.openConnections === 0, 'their end');
    expect(await caller('spiffe://acme.test/executor/payments-b').whoAmI()).toMatchObject({ code: 'OK' });
  });

  it('stays within what the operating system lets the process open', async () => {
    await start();
    expect(connectionLimits(undefined)).toEqual(CONNECTION_LIMITS);
    expect(connectionLimits(1_048_576)).toEqual(CONNECTION_LIMITS);
    expect(connectionLimits(1_024)).toEqual({
      maxConnections: 768,
      maxConnectionsPerCaller: 76,
      maxHandshakes: 78,
      maxHandshakesPerAddress: 39,
    });
    expect(connectionLimits(64).maxConnections).toBe(32);
    expect(connectionLimits().maxConnections).toBeGreaterThan(0);
  });
});

function rawTlsOf(id: string) {
  const leaf = harness.authorities.acme.leaf(id);
  return rawTls(harness, { cert: leaf.pem, key: leaf.keyPem });
}
