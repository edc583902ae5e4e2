import { setImmediate as turn } from 'node:timers/promises';
import { Channel } from '../../src/cli/client/service-client.js';
import {
  EffectService,
  type ReserveEffectRequest,
} from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { askAgain, explain } from '../load/explain.js';
import { GrpcConnection } from '../load/grpc-connection.js';
import { encodeReserve, reserveRequests } from '../load/reserve-calls.js';
import { type CallSource, runLoad } from '../load/run-load.js';
import type { Measured } from '../measure/measured.js';
import { percentile } from '../measure/statistics.js';
import type { ReplicaFigure, ScaleConnection, ScaleOrder } from './messages.js';

/** By domain, and by harness. */
type Requests = ReadonlyMap<string, readonly ReserveEffectRequest[][]>;

interface Tally {
  readonly latencies: number[];
  last: number;
  longestSilence: number;
}

/** Calls several replicas at once, and notes how each of them served. */
export class ScaleLoad {
  private readonly open = new Map<string, GrpcConnection>();

  async run(order: ScaleOrder): Promise<Measured> {
    const requests = requestsOf(order);
    const sources = await this.sources(order, requests);
    const tallies = new Map<number, Tally>();
    await turn();
    const started = performance.now();
    for (const { replica } of order.connections)
      tallies.set(replica, { latencies: [], last: started, longestSilence: 0 });
    const running = runLoad(sources, order, (source, _index, _message, latencyMs) => {
      const tally = tallies.get((order.connections[source] as ScaleConnection).replica) as Tally;
      const now = performance.now();
      tally.latencies.push(latencyMs);
      tally.longestSilence = Math.max(tally.longestSilence, now - tally.last);
      tally.last = now;
    });
    const measured = await explain(running, (source, index) => {
      const { target, identity, domainId, harness } = order.connections[source] as ScaleConnection;
      const channel = new Channel(target, buffersOf(identity));
      const request = requests.get(domainId)?.[harness]?.[index];
      return askAgain(channel, EffectService.method.reserveEffect, request).finally(() => channel.close());
    });
    return { ...measured, figures: figuresOf(tallies) };
  }

  /** One for each connection, with the calls of its harness. */
  private async sources({ connections }: ScaleOrder, requests: Requests): Promise<CallSource[]> {
    const sources: CallSource[] = [];
    for (const { target, domainId, harness, identity } of connections) {
      const connection = await this.connection(`${target} ${domainId} ${harness}`, target, identity);
      const calls = encodeReserve(requests.get(domainId)?.[harness] ?? [], target);
      let at = 0;
      sources.push({
        connection,
        next() {
          const index = at;
          const call = calls[index];
          at += 1;
          return call && { call, index };
        },
      });
    }
    return sources;
  }

  private async connection(
    key: string,
    target: string,
    identity: ScaleConnection['identity'],
  ): Promise<GrpcConnection> {
    let connection = this.open.get(key);
    if (!connection || connection.broken !== undefined) {
      connection = await GrpcConnection.open(target, buffersOf(identity));
      this.open.set(key, connection);
    }
    return connection;
  }
}

function requestsOf({ domains }: ScaleOrder): Requests {
  return new Map(Object.entries(domains).map(([domainId, domain]) => [domainId, reserveRequests(domain)]));
}

function buffersOf({ certificate, key, roots }: ScaleConnection['identity']) {
  return { certificate: Buffer.from(certificate), key: Buffer.from(key), roots: Buffer.from(roots) };
}

function figuresOf(tallies: ReadonlyMap<number, Tally>): Readonly<Record<string, number>> {
  const figures: Record<string, number> = {};
  for (const [replica, { latencies, longestSilence }] of tallies) {
    const note = (figure: ReplicaFigure, value: number): void =>
      void (figures[`${figure}_${replica}`] = value);
    note('calls', latencies.length);
    note('longest_silence_ms', longestSilence);
    if (latencies.length === 0) continue;
    note('p50_ms', percentile(latencies, 0.5));
    note('p99_ms', percentile(latencies, 0.99));
  }
  return figures;
}
