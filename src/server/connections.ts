import type { TLSSocket } from 'node:tls';
import type { CertificateRejection } from '../identity/certificate-rejected.js';
import type { PeerCheck } from '../identity/check-peer.js';
import {
  attachPeer,
  ConnectionEnded,
  type ConnectionPeer,
  rejectedPeer,
} from '../identity/connection-peer.js';
import { ENDED_CONNECTION_GRACE_MS } from './limits.js';

/** A connection that was handed over to the protocol, and what a later look at it needs. */
export interface OpenConnection {
  readonly socket: TLSSocket;
  readonly leafDer: Buffer;
  readonly intermediatesDer: readonly Buffer[];
  /** Aborted when it ends; its signal is the peer's `closed`. */
  readonly abort: AbortController;
  peer: ConnectionPeer;
}

/** How many connections are looked at before other work gets its turn. */
const SWEEP_SLICE = 64;

/**
 * The open connections, and every way to end one. A caller's revocation, an expired certificate and a reload
 * all end here (identity.md, Living connections).
 */
export class Connections {
  readonly #open = new Set<OpenConnection>();
  readonly #perCaller = new Map<string, number>();

  /** @param maxPerCaller see {@link ConnectionLimits.maxConnectionsPerCaller}. */
  constructor(private readonly maxPerCaller: number) {}

  get size(): number {
    return this.#open.size;
  }

  /** Whether the peer may have one more connection. */
  hasRoomFor(peer: ConnectionPeer): boolean {
    return (this.#perCaller.get(callerOf(peer)) ?? 0) < this.maxPerCaller;
  }

  /** Tracks a connection until its socket closes. */
  add(connection: OpenConnection): void {
    const caller = callerOf(connection.peer);
    this.#open.add(connection);
    this.#perCaller.set(caller, (this.#perCaller.get(caller) ?? 0) + 1);
    attachPeer(connection.socket, connection.peer, connection.leafDer);
    connection.socket.once('close', () => {
      this.#open.delete(connection);
      const left = (this.#perCaller.get(caller) ?? 1) - 1;
      if (left === 0) this.#perCaller.delete(caller);
      else this.#perCaller.set(caller, left);
      connection.abort.abort(new ConnectionEnded());
    });
  }

  /**
   * Ends every connection whose peer the predicate names: new calls on it are UNAUTHENTICATED at once, its
   * streams hear of it through `closed` and may send a last status, then the socket goes.
   *
   * @returns how many.
   */
  end(predicate: (peer: ConnectionPeer) => boolean, reason: CertificateRejection): number {
    const named = [...this.#open].filter(({ peer }) => predicate(peer));
    for (const connection of named) endConnection(connection, reason);
    return named.length;
  }

  /** Ends what has expired by `nowMicros`. */
  endExpired(nowMicros: bigint): number {
    return this.end((peer) => peer.rejected === undefined && nowMicros > peer.notAfterMicros, 'EXPIRED');
  }

  /**
   * Checks every open connection again, after bundles or revocation lists have changed, and ends what would
   * not be let in as it is now.
   *
   * @param check what the listener asks of a new connection.
   * @returns how many were ended.
   */
  async recheck(check: (connection: OpenConnection) => PeerCheck): Promise<number> {
    const known = new Map<string, PeerCheck>();
    let ended = 0;
    let looked = 0;
    for (const connection of [...this.#open]) {
      if (!this.#open.has(connection)) continue;
      // Connections of one workload show the same certificates: thousands of them cost one check.
      const key = [connection.leafDer, ...connection.intermediatesDer]
        .map((der) => der.toString('latin1'))
        .join('|');
      const result = known.get(key) ?? check(connection);
      known.set(key, result);
      if (result.outcome === 'untrusted') {
        endConnection(connection, result.reason);
        ended += 1;
      }
      looked += 1;
      if (looked % SWEEP_SLICE === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    return ended;
  }

  /** Destroys every socket now. */
  destroyAll(): void {
    for (const { socket } of this.#open) socket.destroy();
  }

  /** Resolves when no connection is open. */
  async whenEmpty(): Promise<void> {
    while (this.#open.size > 0) {
      const closing = [...this.#open].map(
        ({ socket }) => new Promise((resolve) => socket.once('close', resolve)),
      );
      await Promise.all(closing);
    }
  }
}

function callerOf(peer: ConnectionPeer): string {
  // Not a SPIFFE ID, so that no caller can share the place of those without a name.
  return peer.rejected === undefined ? peer.spiffeId : 'rejected';
}

function endConnection(connection: OpenConnection, reason: CertificateRejection): void {
  if (connection.abort.signal.aborted) return;
  connection.peer = rejectedPeer(connection.peer, reason);
  attachPeer(connection.socket, connection.peer, connection.leafDer);
  connection.abort.abort(new ConnectionEnded(reason));
  setTimeout(() => connection.socket.destroy(), ENDED_CONNECTION_GRACE_MS).unref();
}
