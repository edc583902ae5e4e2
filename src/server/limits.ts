import type { ServerOptions } from '@grpc/grpc-js';

const KIB = 1024;
const MIB = 1024 * KIB;
const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;

/** A request message, as sent and again as decompressed. The largest honest one, evidence, is far below. */
export const MAX_MESSAGE_BYTES = 1 * MIB;

/** A reply message: a page of 1,000 rows must fit, and clients accept no more than this by default. */
export const MAX_REPLY_BYTES = 4 * MIB;

/**
 * The header list of one request, names and values with HTTP/2's 32 bytes for each. It is what Node announces
 * and enforces by default (a session that sends more loses that stream); grpc-js offers no way to lower it.
 */
export const MAX_HEADER_LIST_BYTES = 65_535;

/** Calls at a time on one connection: the gRPC recommendation; a client opens a second connection beyond it. */
export const MAX_CONCURRENT_STREAMS = 100;

/**
 * What Node's HTTP/2 may hold for one session, headers and unsent replies included. Node refuses new streams
 * beyond it; below, a reader that never reads costs at most this.
 */
export const MAX_SESSION_MEMORY_MIB = 64;

/** From accepting the socket to the end of the TLS handshake. */
export const HANDSHAKE_TIMEOUT_MS = 10 * SECOND_MS;

/**
 * A connection that shows no life is asked for some: a peer that stalls within its preface, within a header
 * block, or that stopped reading cannot answer a PING. The sum is the header timeout.
 */
export const KEEPALIVE_INTERVAL_MS = 30 * SECOND_MS;
export const KEEPALIVE_TIMEOUT_MS = 10 * SECOND_MS;

/** From a call's headers to the end of its one request message. */
export const REQUEST_TIMEOUT_MS = 20 * SECOND_MS;

/**
 * The longest that any call but a stream of replies may take, whatever deadline the client sets or forgets.
 * Longer than a batch that waits for the lane, its lock and its retries.
 */
export const DEADLINE_CEILING_MS = 60 * SECOND_MS;

/** A connection without calls is let go after this; clients open another when they need one. */
export const MAX_CONNECTION_IDLE_MS = 15 * MINUTE_MS;

/**
 * No connection lives longer (grpc-js spreads the ends by ±10 %), so that replicas share the load again and
 * every peer shows its certificate anew. GOAWAY first, then the grace for what is running, then the end.
 */
export const MAX_CONNECTION_AGE_MS = 60 * MINUTE_MS;
export const MAX_CONNECTION_AGE_GRACE_MS = 30 * SECOND_MS;

/** How long streams of a connection that we end may take to send their last status. */
export const ENDED_CONNECTION_GRACE_MS = 250;

/** How often certificates, bundles and lists are read again, and expired peers are ended. */
export const RELOAD_INTERVAL_MS = 5 * SECOND_MS;

/** Connection budget of one listener. */
export interface ConnectionLimits {
  /** All sockets of the listener. Node accepts and closes further ones at once. */
  readonly maxConnections: number;
  /** Open connections of one SPIFFE ID, and of all rejected peers together: nobody fills the house alone. */
  readonly maxConnectionsPerCaller: number;
  /** Sockets that have not finished their handshake. The oldest gives way to a newer one. */
  readonly maxHandshakes: number;
  /** The same for one remote address, so that one machine cannot push out the handshakes of others. */
  readonly maxHandshakesPerAddress: number;
}

/** Without a lower limit of the machine. */
export const CONNECTION_LIMITS: ConnectionLimits = {
  maxConnections: 10_000,
  maxConnectionsPerCaller: 1_000,
  maxHandshakes: 1_024,
  maxHandshakesPerAddress: 512,
};

/** File descriptors that are left to the database pool, the other listeners, files and logs. */
const RESERVED_DESCRIPTORS = 256;

/**
 * {@link CONNECTION_LIMITS} within what the operating system lets this process open: when accepting takes the
 * last descriptor, the database's connections are the ones that cannot be made.
 *
 * @param maxDescriptors the soft limit of open files; undefined where it is unlimited.
 */
export function connectionLimits(maxDescriptors: number | undefined = openFilesLimit()): ConnectionLimits {
  if (maxDescriptors === undefined) return CONNECTION_LIMITS;
  const reserved = Math.min(RESERVED_DESCRIPTORS, Math.floor(maxDescriptors / 2));
  const maxConnections = Math.min(CONNECTION_LIMITS.maxConnections, maxDescriptors - reserved);
  const share = maxConnections / CONNECTION_LIMITS.maxConnections;
  const scaled = (limit: number): number => Math.max(1, Math.floor(limit * share));
  return {
    maxConnections,
    maxConnectionsPerCaller: scaled(CONNECTION_LIMITS.maxConnectionsPerCaller),
    maxHandshakes: scaled(CONNECTION_LIMITS.maxHandshakes),
    maxHandshakesPerAddress: scaled(CONNECTION_LIMITS.maxHandshakesPerAddress),
  };
}

interface Report {
  readonly userLimits?: { readonly open_files?: { readonly soft?: number | string } };
}

/** Node shows the limit in its diagnostic report only. */
function openFilesLimit(): number | undefined {
  const report = process.report?.getReport() as Report | undefined;
  const soft = report?.userLimits?.open_files?.soft;
  return typeof soft === 'number' ? soft : undefined;
}

/** Options for the grpc-js `Server`. Its own listener is never used: sockets come from ours. */
export const GRPC_SERVER_OPTIONS: ServerOptions = {
  'grpc.max_receive_message_length': MAX_MESSAGE_BYTES,
  'grpc.max_send_message_length': MAX_REPLY_BYTES,
  'grpc.max_concurrent_streams': MAX_CONCURRENT_STREAMS,
  'grpc-node.max_session_memory': MAX_SESSION_MEMORY_MIB,
  'grpc.keepalive_time_ms': KEEPALIVE_INTERVAL_MS,
  'grpc.keepalive_timeout_ms': KEEPALIVE_TIMEOUT_MS,
  'grpc.max_connection_idle_ms': MAX_CONNECTION_IDLE_MS,
  'grpc.max_connection_age_ms': MAX_CONNECTION_AGE_MS,
  'grpc.max_connection_age_grace_ms': MAX_CONNECTION_AGE_GRACE_MS,
  // Its registry keeps a record of every connection and call for a debugging service that we do not serve.
  'grpc.enable_channelz': 0,
};
