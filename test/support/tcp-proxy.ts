import type { AddressInfo } from 'node:net';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { BytePipe, type Weather } from './byte-pipe.js';
import { BackendScanner, endsFlight, type FrontendMessage, FrontendScanner } from './postgres-messages.js';

/**
 * Where a connection is cut that sent a certain message:
 * - `before`: the message does not reach the server. What it asks for is not done.
 * - `forwarded`: it reaches the server, then the client's side is cut at once. It will be done, at a moment that
 *   the client cannot know; it may start anew before.
 * - `answered`: the server has done it and answered; the answer is thrown away and the client's side is cut.
 */
export type CutAt = 'before' | 'forwarded' | 'answered';

/** A proxy between a client and a server, with bad weather on demand. */
export interface TcpProxy {
  /** On 127.0.0.1. */
  readonly port: number;
  /** How many connections are open now. */
  connections(): number;
  /** Resets every connection, on both sides. New ones are accepted. */
  dropAll(): void;
  /**
   * While on, nothing passes in either direction, not even that a side has gone: what is sent waits, and
   * arrives in order when it is off again. New connections are accepted and then just as silent.
   */
  blackhole(on: boolean): void;
  /** From now on everything takes this much longer, in each direction. */
  delay(ms: number): void;
  /**
   * Cuts the next connection that sends a matching Postgres message, once. In the extended protocol the server
   * acts when the client's Sync has come, so everything up to that is forwarded too. From the match on nothing
   * is relayed to the client.
   *
   * @param match - text that a message holds, or a judgement about it
   * @param at - `answered` if not given
   * @returns settled when the cut is made
   */
  cutAfter(match: string | ((message: FrontendMessage) => boolean), at?: CutAt): Promise<void>;
  /** Ends all connections and the listener. */
  close(): Promise<void>;
}

interface ArmedCut {
  readonly matches: (message: FrontendMessage) => boolean;
  readonly at: CutAt;
  readonly done: () => void;
}

interface MetCut extends ArmedCut {
  stage: 'until sync' | 'until answer' | 'made';
  /** How often the server will have become ready when it has answered (postgres-messages.ts). */
  readyCount: number;
}

/** Starts a proxy on a free port of 127.0.0.1 to a port of 127.0.0.1. */
export async function startTcpProxy({ targetPort }: { targetPort: number }): Promise<TcpProxy> {
  const weather: Weather = { blackhole: false, delayMs: 0 };
  const armed: ArmedCut[] = [];
  const open = new Set<ProxiedConnection>();
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
    const connection = new ProxiedConnection(client, targetPort, weather, armed, () =>
      open.delete(connection),
    );
    open.add(connection);
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  const dropAll = (): void => {
    for (const connection of [...open]) connection.reset();
  };
  return {
    port: (server.address() as AddressInfo).port,
    connections: () => open.size,
    dropAll,
    blackhole: (on) => {
      weather.blackhole = on;
      for (const connection of open) connection.pump();
    },
    delay: (ms) => {
      weather.delayMs = ms;
    },
    cutAfter: (match, at = 'answered') => {
      const matches =
        typeof match === 'string' ? (message: FrontendMessage) => message.body.includes(match) : match;
      return new Promise((done) => armed.push({ matches, at, done }));
    },
    close: () => closeServer(server, dropAll),
  };
}

/** A client's connection and the one that was made for it. */
class ProxiedConnection {
  private readonly server: Socket;
  private readonly toServer: BytePipe;
  private readonly toClient: BytePipe;
  private readonly frontend = new FrontendScanner();
  private readonly backend = new BackendScanner(this.frontend);
  /** The cut that this connection has met, and how far it has come. */
  private cut: MetCut | undefined;

  constructor(
    private readonly client: Socket,
    targetPort: number,
    weather: Weather,
    private readonly armed: ArmedCut[],
    private readonly closed: () => void,
  ) {
    this.server = connect({ port: targetPort, host: '127.0.0.1', allowHalfOpen: true, noDelay: true });
    this.toServer = new BytePipe(client, this.server, weather);
    this.toClient = new BytePipe(this.server, client, weather);
    client.on('data', (chunk) => this.fromClient(chunk));
    this.server.on('data', (chunk) => this.fromServer(chunk));
    this.couple(client, this.toServer);
    this.couple(this.server, this.toClient);
  }

  pump(): void {
    this.toServer.pump();
    this.toClient.pump();
  }

  reset(): void {
    this.toServer.discard();
    this.toClient.discard();
    this.client.resetAndDestroy();
    this.server.resetAndDestroy();
  }

  private couple(side: Socket, pipe: BytePipe): void {
    side.on('end', () => pipe.end());
    // That an error happened is told by the close that follows.
    side.on('error', () => {});
    side.on('close', () => {
      // After a cut the server is left to read what was forwarded, and to end by itself.
      if (side === this.server || this.cut?.stage !== 'made') pipe.gone();
      if (this.client.destroyed && this.server.destroyed) this.closed();
    });
  }

  private fromClient(chunk: Buffer): void {
    if (this.cut !== undefined && this.cut.stage !== 'until sync') return;
    let forwarded = 0;
    for (const { message, start, end, readyCount } of this.frontend.push(chunk)) {
      if (this.cut === undefined) {
        const index = this.armed.findIndex((cut) => cut.matches(message));
        const met = index < 0 ? undefined : this.armed.splice(index, 1)[0];
        if (met === undefined) continue;
        this.cut = { ...met, stage: 'until sync', readyCount };
        if (met.at === 'before') {
          this.toServer.send(chunk.subarray(0, Math.max(0, start)));
          this.makeCut();
          return;
        }
      }
      if (!endsFlight(message)) continue;
      this.toServer.send(chunk.subarray(0, end));
      this.cut.stage = 'until answer';
      this.cut.readyCount = readyCount;
      forwarded = end;
      if (this.cut.at === 'forwarded') this.makeCut();
      break;
    }
    if (forwarded === 0) this.toServer.send(chunk);
  }

  private fromServer(chunk: Buffer): void {
    this.backend.push(chunk);
    if (this.cut === undefined) this.toClient.send(chunk);
    else if (this.cut.stage === 'until answer' && this.backend.readySeen >= this.cut.readyCount) {
      this.makeCut();
    }
  }

  private makeCut(): void {
    if (this.cut === undefined) return;
    this.cut.stage = 'made';
    this.toClient.discard();
    this.client.resetAndDestroy();
    // What was forwarded is still delivered, and an end after it: the server reads all of it first.
    if (this.cut.at === 'before') this.server.resetAndDestroy();
    else this.toServer.end();
    this.cut.done();
  }
}

async function closeServer(server: Server, dropAll: () => void): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  dropAll();
  await closed;
}
