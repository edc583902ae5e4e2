import { setImmediate as turn } from 'node:timers/promises';
import { GrpcConnection } from '../load/grpc-connection.js';
import { encodeReserve, reserveRequests } from '../load/reserve-calls.js';
import { type CallSource, runLoad } from '../load/run-load.js';
import type { Measured } from '../measure/measured.js';
import { percentile } from '../measure/statistics.js';
import type { ReplicaFigure, ScaleConnection, ScaleOrder } from './messages.js';

interface Tally {
  readonly latencies: number[];
  last: number;
  longestSilence: number;
}

/** Calls several replicas at once, and notes how each of them served. */
export class ScaleLoad {
  private readonly open = new Map<string, GrpcConnection>();

  async run(order: ScaleOrder): Promise<Measured> {
    const sources = await this.sources(order);
    const tallies = new Map<number, Tally>();
    await turn();
    const started = performance.now();
    for (const { replica } of order.connections)
      tallies.set(replica, { latencies: [], last: started, longestSilence: 0 });
    const measured = await runLoad(sources, order, (source, _index, _message, latencyMs) => {
      const tally = tallies.get((order.connections[source] as ScaleConnection).replica) as Tally;
      const now = performance.now();
      tally.latencies.push(latencyMs);
      tally.longestSilence = Math.max(tally.longestSilence, now - tally.last);
      tally.last = now;
    });
    return { ...measured, figures: figuresOf(tallies) };
  }

  /** One for each connection, with the calls of its harness. */
  private async sources({ connections, domains }: ScaleOrder): Promise<CallSource[]> {
    const requests = new Map(
      Object.entries(domains).map(([domainId, { grants, events }]) => [
        domainId,
        reserveRequests({ kind: 'reserve', callers: 0, seconds: 0, keep: false, grants, events }),
      ]),
    );
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
    { certificate, key: privateKey, roots }: ScaleConnection['identity'],
  ): Promise<GrpcConnection> {
    let connection = this.open.get(key);
    if (!connection || connection.broken !== undefined) {
      connection = await GrpcConnection.open(target, {
        certificate: Buffer.from(certificate),
        key: Buffer.from(privateKey),
        roots: Buffer.from(roots),
      });
      this.open.set(key, connection);
    }
    return connection;
  }
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
