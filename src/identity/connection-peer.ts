import { setMaxListeners } from 'node:events';
import type { TLSSocket } from 'node:tls';
import type { InspectedLeaf } from './certificate.js';
import type { CertificateRejection } from './certificate-rejected.js';

interface Connection {
  /** Names the connection in logs; unique in this process. */
  readonly connectionId: string;
  /** Microseconds since the epoch. */
  readonly openedAtMicros: bigint;
  /**
   * Aborts when the connection ends, for whatever reason, and *before* its socket goes when we end it. Its
   * `reason` is then a {@link ConnectionEnded}, which a stream turns into its last status.
   */
  readonly closed: AbortSignal;
}

/** A peer whose leaf and chain passed every rule. Whether it may do anything is the registry's matter. */
export interface AcceptedPeer extends Connection {
  readonly rejected?: undefined;
  readonly spiffeId: string;
  readonly trustDomain: string;
  readonly leafSha256: Buffer;
  readonly publicKeySha256: Buffer;
  /** RFC 7638, of whatever kind the key is. */
  readonly publicKeyThumbprint: string;
  /**
   * Microseconds since the epoch: the earliest end of validity in the whole chain, still valid at that
   * instant. Compared with the store's clock on each call.
   */
  readonly notAfterMicros: bigint;
}

/** A peer that gets UNAUTHENTICATED on each call. It has no name, so that none can be used by mistake. */
export interface RejectedPeer extends Connection {
  readonly rejected: CertificateRejection;
}

/** Who is at the other end of a connection. Ask `rejected` first. */
export type ConnectionPeer = AcceptedPeer | RejectedPeer;

/** Why {@link Connection.closed} aborted. */
export class ConnectionEnded extends Error {
  override readonly name = 'ConnectionEnded';
  /** @param rejection why we ended it, or undefined where the connection simply closed. */
  constructor(readonly rejection?: CertificateRejection) {
    super(rejection === undefined ? 'connection closed' : `connection ended: ${rejection}`);
  }
}

/** The peer of a call whose connection cannot be determined: nobody, and its connection counts as closed. */
export const NOBODY: RejectedPeer = Object.freeze({
  rejected: 'PEER_UNKNOWN',
  connectionId: 'none',
  openedAtMicros: 0n,
  closed: AbortSignal.abort(new ConnectionEnded()),
});

/** An accepted peer from what its certificates said. */
export function acceptedPeer(
  connection: Connection,
  leaf: InspectedLeaf,
  chain: { readonly notAfterMicros: bigint },
): AcceptedPeer {
  return Object.freeze({
    connectionId: connection.connectionId,
    openedAtMicros: connection.openedAtMicros,
    closed: connection.closed,
    spiffeId: leaf.spiffeId,
    trustDomain: leaf.trustDomain,
    leafSha256: leaf.sha256,
    publicKeySha256: leaf.publicKeySha256,
    publicKeyThumbprint: leaf.publicKeyThumbprint,
    notAfterMicros: chain.notAfterMicros,
  });
}

/** A peer without a name, for the rest of the connection's life. */
export function rejectedPeer(connection: Connection, rejected: CertificateRejection): RejectedPeer {
  return Object.freeze({
    connectionId: connection.connectionId,
    openedAtMicros: connection.openedAtMicros,
    closed: connection.closed,
    rejected,
  });
}

/** The signal of a connection's end. Every stream of the connection listens to it, and that is no leak. */
export function connectionSignal(): AbortController {
  const controller = new AbortController();
  setMaxListeners(0, controller.signal);
  return controller;
}

/** Keyed by a symbol of this module: nothing that a peer sends can set it. */
const PEER = Symbol('peer of the connection');

interface Marked {
  readonly [PEER]?: ConnectionPeer;
}

/**
 * Remembers on the socket itself who is at its other end; a later peer replaces an earlier one.
 *
 * grpc-js shows a handler no socket. What it does offer is `getAuthContext()`, which asks the call's own
 * socket, not one with the same addresses, for its certificate: so that answer carries the peer. Asking
 * OpenSSL again instead would cost 31 µs a call.
 *
 * @param leafDer the peer's certificate, for whoever else reads the call's authentication context.
 */
export function attachPeer(socket: TLSSocket, peer: ConnectionPeer, leafDer: Buffer): void {
  const certificate = Object.freeze({ raw: leafDer, [PEER]: peer });
  Object.assign(socket, { [PEER]: peer, getPeerCertificate: () => certificate });
}

/** The part of a grpc-js call (of a handler or an interceptor) that {@link peerOf} needs. */
export interface CallWithPeer {
  getAuthContext(): { sslPeerCertificate?: object };
}

/**
 * The peer of a grpc-js call: its connection's, by identity of the socket.
 *
 * Ask when the call begins and keep the answer. Whenever it cannot be determined (the session has gone, the
 * connection was not handed over by our listener) it is {@link NOBODY}, never a guess.
 */
export function peerOf(call: CallWithPeer): ConnectionPeer {
  try {
    const certificate: Marked | undefined = call.getAuthContext().sslPeerCertificate;
    return certificate?.[PEER] ?? NOBODY;
  } catch {
    // Node's HTTP/2 throws when a session has already let go of its socket.
    return NOBODY;
  }
}

/** The peer of a socket, or of the stand-in that Node's `http2session.socket` gives; else {@link NOBODY}. */
export function peerOfSocket(socket: object | undefined): ConnectionPeer {
  try {
    const marked: Marked | undefined = socket;
    return marked?.[PEER] ?? NOBODY;
  } catch {
    return NOBODY;
  }
}
