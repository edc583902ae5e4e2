import type { Socket } from 'node:net';
import type { ConnectionLimits } from './limits.js';

/**
 * Sockets that are still in their TLS handshake.
 *
 * A stranger can open any number of sockets and say nothing. When there are too many, the oldest goes: an
 * honest handshake takes milliseconds, so what is old is idle, and a flood of silent sockets pushes out its
 * own kind first.
 */
export class Handshakes {
  /** By the connection's four addresses, which no two live sockets share; oldest first. */
  readonly #all = new Map<string, Socket>();
  readonly #byAddress = new Map<string, Map<string, Socket>>();

  constructor(private readonly limits: Pick<ConnectionLimits, 'maxHandshakes' | 'maxHandshakesPerAddress'>) {}

  get size(): number {
    return this.#all.size;
  }

  /** Tracks a socket that was just accepted, and lets the oldest go where that is one too many. */
  add(socket: Socket): void {
    const key = addressesOf(socket);
    const address = socket.remoteAddress ?? '';
    const ofAddress = this.#byAddress.get(address) ?? new Map<string, Socket>();
    this.#byAddress.set(address, ofAddress.set(key, socket));
    this.#all.set(key, socket);
    socket.once('close', () => this.#forget(key, address, socket));
    if (ofAddress.size > this.limits.maxHandshakesPerAddress) this.#evictOldest(ofAddress);
    if (this.#all.size > this.limits.maxHandshakes) this.#evictOldest(this.#all);
  }

  /** The handshake on this socket (TLS has wrapped the one that was added) has ended. */
  remove(socket: Socket): void {
    const key = addressesOf(socket);
    const added = this.#all.get(key);
    if (added !== undefined) this.#forget(key, added.remoteAddress ?? '', added);
  }

  /** Destroys every socket that is still in its handshake. */
  destroyAll(): void {
    for (const socket of this.#all.values()) socket.destroy();
  }

  #evictOldest(sockets: Map<string, Socket>): void {
    const [oldest] = sockets;
    if (oldest === undefined) return;
    const [key, socket] = oldest;
    this.#forget(key, socket.remoteAddress ?? '', socket);
    socket.destroy();
  }

  #forget(key: string, address: string, socket: Socket): void {
    // A later socket may have the same addresses by now.
    if (this.#all.get(key) !== socket) return;
    this.#all.delete(key);
    const ofAddress = this.#byAddress.get(address);
    ofAddress?.delete(key);
    if (ofAddress?.size === 0) this.#byAddress.delete(address);
  }
}

function addressesOf(socket: Socket): string {
  return `${socket.remoteAddress}|${socket.remotePort}|${socket.localAddress}|${socket.localPort}`;
}
