import { constants } from 'node:crypto';
import type { AddressInfo, Socket } from 'node:net';
import {
  createServer,
  type SecureContextOptions,
  type TLSSocket,
  type TlsOptions,
  type Server as TlsServer,
} from 'node:tls';
import { type Server as GrpcServer, ServerCredentials } from '@grpc/grpc-js';
import type { CertificateRejection } from '../identity/certificate-rejected.js';
import { checkPeer, type PeerCheck } from '../identity/check-peer.js';
import {
  acceptedPeer,
  type ConnectionPeer,
  connectionSignal,
  rejectedPeer,
} from '../identity/connection-peer.js';
import type { TrustBundles } from '../identity/trust-bundles.js';
import { Connections, type OpenConnection } from './connections.js';
import { Handshakes } from './handshakes.js';
import { CONNECTION_LIMITS, type ConnectionLimits, HANDSHAKE_TIMEOUT_MS } from './limits.js';
import { RefusalLog, type ServerLog } from './refusal-log.js';

/** The service's own certificate chain and its key, as PEM. */
export interface ServiceCertificate {
  readonly certificatePem: string;
  readonly keyPem: string;
}

/** What speaks HTTP/2 on a checked socket. */
export interface ProtocolServer {
  /** Takes over a socket whose peer has been checked. */
  accept(socket: TLSSocket): void;
  /** GOAWAY to every session; what has not ended after the grace is cut. */
  drain(graceMs: number): void;
  /** Lets go of everything that belongs to the sockets it was given. */
  destroy(): void;
}

/** The protocol of grpc-js: sockets are injected, so that its own listener is never opened. */
export function grpcProtocol(server: GrpcServer): ProtocolServer {
  // "Insecure" names what grpc-js adds to the socket: nothing. TLS has ended when it gets the socket.
  const injector = server.createConnectionInjector(ServerCredentials.createInsecure());
  return {
    accept: (socket) => injector.injectConnection(socket),
    drain: (graceMs) => injector.drain(graceMs),
    destroy: () => injector.destroy(),
  };
}

export interface ListenerOptions {
  readonly host: string;
  /** 0 takes a free one. */
  readonly port: number;
  readonly certificate: ServiceCertificate;
  readonly bundles: TrustBundles;
  readonly protocol: ProtocolServer;
  readonly log: ServerLog;
  /** Microseconds since the epoch; the store's clock where the caller has it. */
  readonly now: () => bigint;
  readonly limits?: ConnectionLimits;
  readonly handshakeTimeoutMs?: number;
}

/**
 * The TLS listener (identity.md, The connection): TLS 1.3, client certificates always, HTTP/2 only, no session
 * tickets. Who is not trusted is cut off before any HTTP/2; who is, is handed over with the peer remembered on
 * the socket (see `peerOf`).
 */
export class Listener {
  readonly #options: ListenerOptions;
  readonly #server: TlsServer;
  readonly #connections: Connections;
  readonly #handshakes: Handshakes;
  readonly #refusals: RefusalLog;
  #bundles: TrustBundles;
  #certificate: ServiceCertificate;
  #connectionCount = 0;
  #draining = false;

  constructor(options: ListenerOptions) {
    const limits = options.limits ?? CONNECTION_LIMITS;
    this.#options = options;
    this.#bundles = options.bundles;
    this.#certificate = options.certificate;
    this.#connections = new Connections(limits.maxConnectionsPerCaller);
    this.#handshakes = new Handshakes(limits);
    this.#refusals = new RefusalLog(options.log);
    this.#server = createServer(this.#tlsOptions());
    this.#server.maxConnections = limits.maxConnections;
    this.#server.on('connection', (socket) => this.#handshakes.add(socket));
    this.#server.on('secureConnection', (socket) => this.#onSecure(socket));
    this.#server.on('tlsClientError', (error, socket) => this.#onFailedHandshake(error, socket));
    this.#server.on('drop', (data) => this.#refusals.note('TOO_MANY_CONNECTIONS', data?.remoteAddress));
  }

  /** Opens the port. @throws what `listen` fails with, such as EADDRINUSE. */
  async listen(): Promise<AddressInfo> {
    const { host, port, log } = this.#options;
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen({ host, port }, () => {
        this.#server.off('error', reject);
        resolve();
      });
    });
    // Accepting can fail later (EMFILE); the listener goes on, and without a handler the process would not.
    this.#server.on('error', (error) =>
      log.error({ code: codeOf(error) }, 'a connection could not be accepted'),
    );
    return this.address;
  }

  /** Where it listens. @throws when it does not. */
  get address(): AddressInfo {
    const address = this.#server.address();
    if (address === null || typeof address === 'string') throw new Error('the listener is not open');
    return address;
  }

  /** Connections that were handed over and are open. */
  get openConnections(): number {
    return this.#connections.size;
  }

  /** Sockets that are still in their handshake. */
  get openHandshakes(): number {
    return this.#handshakes.size;
  }

  /** How many connections have been refused since the start, by reason; for the metrics. */
  get refusals(): ReadonlyMap<string, number> {
    return this.#refusals.counts;
  }

  /** The bundles that new connections are checked with. */
  get bundles(): TrustBundles {
    return this.#bundles;
  }

  /**
   * Ends the open connections that the predicate names, streams included; for a revoked caller, say.
   *
   * @returns how many.
   */
  endConnections(
    predicate: (peer: ConnectionPeer) => boolean,
    reason: CertificateRejection = 'CALLER_ENDED',
  ): number {
    return this.#connections.end(predicate, reason);
  }

  /** Ends the open connections whose certificates have expired since. @returns how many. */
  endExpired(): number {
    return this.#connections.endExpired(this.#options.now());
  }

  /** Serves another certificate from the next handshake on. @throws when OpenSSL takes it not; nothing changed then. */
  replaceCertificate(certificate: ServiceCertificate): void {
    this.#server.setSecureContext(contextOptions(certificate, this.#bundles));
    this.#certificate = certificate;
  }

  /** Checks new connections with these bundles, and the open ones again. @returns how many were ended. */
  async replaceBundles(bundles: TrustBundles): Promise<number> {
    this.#server.setSecureContext(contextOptions(this.#certificate, bundles));
    this.#bundles = bundles;
    return this.#connections.recheck((connection) => this.#check(connection));
  }

  /**
   * Closes the port, says GOAWAY on every connection, lets calls end within the grace and cuts the rest.
   *
   * @returns when no connection is left.
   */
  async drain(graceMs: number): Promise<void> {
    this.#draining = true;
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#handshakes.destroyAll();
    this.#options.protocol.drain(graceMs + PROTOCOL_LATER_MS);
    const cut = setTimeout(() => this.#connections.destroyAll(), graceMs);
    await this.#connections.whenEmpty();
    clearTimeout(cut);
    this.#options.protocol.destroy();
    this.#refusals.stop();
    await closed;
  }

  #tlsOptions(): TlsOptions {
    return {
      ...contextOptions(this.#certificate, this.#bundles),
      requestCert: true,
      // Let the handshake end, so that the reason of a refusal can be logged; #onSecure refuses.
      rejectUnauthorized: false,
      ALPNProtocols: ['h2'],
      handshakeTimeout: this.#options.handshakeTimeoutMs ?? HANDSHAKE_TIMEOUT_MS,
      noDelay: true,
    };
  }

  #onSecure(socket: TLSSocket): void {
    // A reset in the middle of anything below must not become an uncaught error.
    socket.on('error', () => socket.destroy());
    this.#handshakes.remove(socket);
    try {
      this.#admit(socket);
    } catch (error) {
      // A certificate that we fail to judge ends its own connection, never the process.
      this.#options.log.error({ error }, 'a peer could not be checked');
      this.#refuse(socket, 'CHECK_FAILED');
    }
  }

  #admit(socket: TLSSocket): void {
    if (this.#draining) return this.#refuse(socket, 'DRAINING');
    const certificates = certificatesOf(socket);
    if (certificates === undefined) return this.#refuse(socket, 'NO_CERTIFICATE');
    // OpenSSL and we must both agree. It goes first: a stranger's certificates cost us no search of our own.
    if (!socket.authorized) return this.#refuse(socket, ...opensslReason(socket));
    if (socket.alpnProtocol !== 'h2') return this.#refuse(socket, 'NOT_HTTP2');
    const check = this.#check(certificates);
    if (check.outcome === 'untrusted') return this.#refuse(socket, check.reason);
    const abort = connectionSignal();
    const peer = this.#peerOf(check, abort.signal);
    if (!this.#connections.hasRoomFor(peer)) return this.#refuse(socket, 'TOO_MANY_CONNECTIONS');
    if (peer.rejected !== undefined) this.#refusals.note(peer.rejected, socket.remoteAddress);
    this.#connections.add({ socket, abort, peer, ...certificates });
    this.#options.protocol.accept(socket);
  }

  #peerOf(check: Exclude<PeerCheck, { outcome: 'untrusted' }>, closed: AbortSignal): ConnectionPeer {
    this.#connectionCount += 1;
    const connection = {
      connectionId: `c${this.#connectionCount}`,
      openedAtMicros: this.#options.now(),
      closed,
    };
    return check.outcome === 'accepted'
      ? acceptedPeer(connection, check.leaf, check.chain)
      : rejectedPeer(connection, check.reason);
  }

  #check({ leafDer, intermediatesDer }: PeerCertificates | OpenConnection): PeerCheck {
    return checkPeer(leafDer, intermediatesDer, this.#bundles, this.#options.now());
  }

  /** Its socket is gone by now, and only what it wraps remembers whose it was. */
  #onFailedHandshake(error: Error, socket: TLSSocket): void {
    const { _parent: wrapped } = socket as { readonly _parent?: Socket };
    this.#refusals.note('HANDSHAKE_FAILED', socket.remoteAddress ?? wrapped?.remoteAddress, codeOf(error));
    socket.destroy();
  }

  #refuse(socket: Socket, reason: string, detail?: string): void {
    this.#refusals.note(reason, socket.remoteAddress, detail);
    socket.destroy();
  }
}

interface PeerCertificates {
  readonly leafDer: Buffer;
  readonly intermediatesDer: readonly Buffer[];
}

/** Longer than any chain that could be accepted; a peer decides how much it sends. */
const MAX_SENT_CERTIFICATES = 8;

function certificatesOf(socket: TLSSocket): PeerCertificates | undefined {
  const leaf = socket.getPeerX509Certificate();
  if (leaf === undefined) return undefined;
  const intermediatesDer: Buffer[] = [];
  for (let next = leaf.issuerCertificate; next !== undefined; next = next.issuerCertificate) {
    if (intermediatesDer.length === MAX_SENT_CERTIFICATES) break;
    intermediatesDer.push(next.raw);
  }
  return { leafDer: leaf.raw, intermediatesDer };
}

function contextOptions(certificate: ServiceCertificate, bundles: TrustBundles): SecureContextOptions {
  return {
    cert: certificate.certificatePem,
    key: certificate.keyPem,
    // An empty list, never undefined: without it Node would ask the public authorities.
    ca: [...bundles.authoritiesPem],
    minVersion: 'TLSv1.3',
    // A resumed session would not show its certificate chain again.
    secureOptions: constants.SSL_OP_NO_TICKET,
  };
}

/**
 * The protocol cuts later than we do: what is cut by a reset stream looks CANCELLED to its caller, as if somebody had
 * wanted that; what loses its connection looks UNAVAILABLE, and is repeated.
 */
const PROTOCOL_LATER_MS = 1_000;

const OPENSSL_REASONS: ReadonlyMap<string, CertificateRejection> = new Map([
  ['CERT_HAS_EXPIRED', 'EXPIRED'],
  ['CERT_NOT_YET_VALID', 'NOT_YET_VALID'],
]);

/** Our reason for what OpenSSL did not like, and its own name for it, such as INVALID_PURPOSE, for the log. */
function opensslReason(socket: TLSSocket): [reason: CertificateRejection, detail: string] {
  const error: unknown = socket.authorizationError;
  const name = typeof error === 'string' ? error : (codeOf(error) ?? 'unknown');
  return [OPENSSL_REASONS.get(name) ?? 'CHAIN_UNTRUSTED', name];
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined;
}
