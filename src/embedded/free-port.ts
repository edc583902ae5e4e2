import { createServer } from 'node:net';

/**
 * Below what systems hand out for outgoing connections (from 32768 on Linux, 49152 on macOS). Inside that
 * range, a client that keeps calling a server while it is down can be given the server's own port as its source,
 * connects to itself, and keeps the server from coming back.
 */
const firstPort = 20_000;
const lastPort = 32_000;

/** With the range nearly empty the first try succeeds. */
const maxTries = 100;

/**
 * A port of 127.0.0.1 on which nobody listens at this moment. Somebody may take it before it is used: try
 * again with another.
 *
 * @throws Error if none was found
 */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < maxTries; tries++) {
    const port = firstPort + Math.floor(Math.random() * (lastPort - firstPort));
    if (await isFree(port)) return port;
  }
  throw new Error(`No free port between ${firstPort} and ${lastPort}.`);
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => server.close(() => resolve(true)));
  });
}
