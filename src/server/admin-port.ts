import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Registry } from 'prom-client';

/** What `/readyz` says; the reasons are for the people who run the service. */
export type Readiness = { readonly ready: true } | { readonly ready: false; readonly why: string };

export interface AdminPortOptions {
  /** A loopback address: the port has no authentication. */
  readonly host: string;
  /** 0 takes a free one. */
  readonly port: number;
  readonly registry: Registry;
  readonly readiness: () => Readiness;
}

/** A running admin port. */
export interface AdminPort {
  readonly address: AddressInfo;
  /** Ends it, open connections too. */
  close(): Promise<void>;
}

/** A scrape is one small request; whoever sends it slowly is not a scraper. */
const REQUEST_TIMEOUT_MS = 5_000;
const HEADERS_TIMEOUT_MS = 5_000;
const MAX_CONNECTIONS = 64;

const LOOPBACK_HOST = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d+)?$/;

/**
 * `/livez` (the process runs its event loop), `/readyz` (it may be sent calls) and `/metrics`, over plain HTTP on a
 * loopback address (api.md: Admin).
 *
 * @throws what `listen` fails with, such as EADDRINUSE
 */
export async function openAdminPort(options: AdminPortOptions): Promise<AdminPort> {
  const server = createServer(
    { requestTimeout: REQUEST_TIMEOUT_MS, headersTimeout: HEADERS_TIMEOUT_MS },
    (request, response) => {
      answer(options, request, response).catch(() => {
        if (!response.headersSent) response.writeHead(500);
        response.end();
      });
    },
  );
  server.maxConnections = MAX_CONNECTIONS;
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ host: options.host, port: options.port }, () => {
      server.off('error', reject);
      resolve();
    });
  });
  // Accepting can fail later (EMFILE), and without a handler the process would end.
  server.on('error', () => {});
  return {
    address: server.address() as AddressInfo,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function answer(
  { registry, readiness }: AdminPortOptions,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  // A page in somebody's browser can reach loopback by a name of its own; it cannot choose this name.
  if (!LOOPBACK_HOST.test(request.headers.host ?? ''))
    return send(response, 421, 'only under a loopback name\n');
  if (request.method !== 'GET' && request.method !== 'HEAD') return send(response, 405, 'only GET\n');
  const path = request.url ?? '/';
  switch (path) {
    case '/livez':
      return send(response, 200, 'live\n');
    case '/readyz': {
      const state = readiness();
      return state.ready ? send(response, 200, 'ready\n') : send(response, 503, `not ready: ${state.why}\n`);
    }
    case '/metrics':
      return send(response, 200, await registry.metrics(), registry.contentType);
    default:
      return send(response, 404, 'there is /livez, /readyz and /metrics\n');
  }
}

function send(
  response: ServerResponse,
  code: number,
  body: string,
  type = 'text/plain; charset=utf-8',
): void {
  response.writeHead(code, {
    'content-type': type,
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  });
  response.end(body);
}
