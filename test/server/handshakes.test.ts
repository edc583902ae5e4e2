import { Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { Handshakes } from '../../src/server/handshakes.js';

/** A socket that was never connected, with the addresses of one that was. */
function from(remoteAddress: string, remotePort: number): Socket {
  const addresses = { remoteAddress, remotePort, localAddress: '192.0.2.1', localPort: 7480 };
  return Object.defineProperties<Socket>(
    new Socket(),
    Object.fromEntries(Object.entries(addresses).map(([name, value]) => [name, { value }])),
  );
}

function fill(handshakes: Handshakes, address: string, count: number): Socket[] {
  return Array.from({ length: count }, (_, index) => {
    const socket = from(address, 1_000 + index);
    handshakes.add(socket);
    return socket;
  });
}

const goneOf = (sockets: Socket[]): number[] =>
  sockets.flatMap(({ destroyed }, index) => (destroyed ? [index] : []));

describe('sockets in their handshake', () => {
  it('of one address push out the oldest of that address, not another’s', () => {
    const handshakes = new Handshakes({ maxHandshakes: 100, maxHandshakesPerAddress: 3 });
    const quiet = fill(handshakes, '198.51.100.1', 2);
    const loud = fill(handshakes, '198.51.100.2', 5);
    expect(goneOf(loud)).toEqual([0, 1]);
    expect(goneOf(quiet)).toEqual([]);
    expect(handshakes.size).toBe(5);
  });

  it('of many addresses push out the oldest of all', () => {
    const handshakes = new Handshakes({ maxHandshakes: 4, maxHandshakesPerAddress: 3 });
    const sockets = ['1', '2', '3', '4', '5', '6'].flatMap((last) =>
      fill(handshakes, `198.51.100.${last}`, 1),
    );
    expect(goneOf(sockets)).toEqual([0, 1]);
    expect(handshakes.size).toBe(4);
  });

  it('are forgotten when they end, by themselves or as a connection', async () => {
    const handshakes = new Handshakes({ maxHandshakes: 100, maxHandshakesPerAddress: 2 });
    const [first, second] = fill(handshakes, '198.51.100.1', 2) as [Socket, Socket];
    // What TLS wraps has the same addresses and is another object.
    handshakes.remove(from('198.51.100.1', 1_000));
    const closed = new Promise((resolve) => second.once('close', resolve));
    second.destroy();
    await closed;
    expect(handshakes.size).toBe(0);
    fill(handshakes, '198.51.100.1', 2);
    expect(first.destroyed).toBe(false);
    expect(handshakes.size).toBe(2);
  });
});
