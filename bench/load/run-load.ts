import { type Measured, measuredOf } from '../measure/measured.js';
import type { EncodedCall } from './frames.js';
import type { GrpcConnection } from './grpc-connection.js';
import type { RoundPlan } from './messages.js';

/** The calls of one connection; a source without an end gives the same call for ever. */
export interface CallSource {
  readonly connection: GrpcConnection;
  /** The next call and its number; undefined: there are no more. */
  next(): { readonly call: EncodedCall; readonly index: number } | undefined;
}

/** Told of each reply. */
export type Keep = (source: number, index: number, message: Buffer, latencyMs: number) => void;

/** A call ended without a message. */
export class CallRefused extends Error {
  override readonly name = 'CallRefused';
  constructor(
    readonly source: number,
    readonly index: number,
    why: string,
  ) {
    super(`a call was not served: ${why}`);
  }
}

/**
 * Keeps so many calls under way, spread over the connections, until the time or the calls are used up.
 *
 * @throws CallRefused where one is not served: a benchmark of refusals says nothing
 */
export function runLoad(
  sources: readonly CallSource[],
  { callers, seconds }: RoundPlan,
  keep?: Keep,
): Promise<Measured> {
  const latencies: number[] = [];
  const usage = process.cpuUsage();
  const started = performance.now();
  const deadline = started + seconds * 1000;
  let last = started;
  let running = callers;
  let failure: CallRefused | undefined;
  return new Promise((resolve, reject) => {
    const done = (): void => {
      running -= 1;
      if (running > 0) return;
      if (failure) reject(failure);
      else if (latencies.length === 0) reject(new Error('there were no calls to make'));
      else resolve(measuredOf(latencies, last - started, process.cpuUsage(usage)));
    };
    const next = (at: number): void => {
      const source = sources[at] as CallSource;
      const begun = performance.now();
      const one = failure || begun >= deadline ? undefined : source.next();
      if (!one) return done();
      source.connection.call(one.call, (message) => {
        if (message === undefined) {
          failure ??= new CallRefused(at, one.index, source.connection.broken ?? 'it was refused');
          return done();
        }
        last = performance.now();
        latencies.push(last - begun);
        keep?.(at, one.index, message, last - begun);
        next(at);
      });
    };
    for (let caller = 0; caller < callers; caller += 1) next(caller % sources.length);
  });
}
