import { performance } from 'node:perf_hooks';
import { registerWorkload } from '../../src/cli/client/register-workload.js';
import type { Channel } from '../../src/cli/client/service-client.js';
import { SuretyError } from '../../src/cli/client/surety-error.js';
import { WorkerSession } from '../../src/cli/client/worker-session.js';
import type { WorkloadSession } from '../../src/cli/client/workload-session.js';
import { ActionEffects } from '../../src/cli/worker/action-effects.js';
import { HttpProvider } from '../../src/cli/worker/http-provider.js';
import { type StepHook, Steps, type WorkerEntry } from '../../src/cli/worker/steps.js';
import { noValidator, type Validator } from '../../src/cli/worker/validator.js';
import { Worker } from '../../src/cli/worker/worker.js';
import {
  DEFAULT_POLICY,
  type WorkerContext,
  type WorkerPolicy,
} from '../../src/cli/worker/worker-context.js';
import { WorkloadRole } from '../../src/gen/surety/identity/v1/workload_pb.js';
import { WORKER } from './action-parties.js';
import { ACME, type E2eWorld, OPERATOR } from './e2e-world.js';
import type { ServiceProcess } from './service-process.js';

/** Thrown in the middle of a worker: what is left of it is garbage. */
export class Killed extends Error {
  override readonly name = 'Killed';
}

/** Leases and answers outlive a slow machine; delays end where the test clock is moved, or at once. */
export const FLEET_POLICY: WorkerPolicy = {
  ...DEFAULT_POLICY,
  leaseMs: 600_000,
  observationWindowMs: 3_600_000,
  maxObservations: 3,
  providerTimeoutMs: 600_000,
  observeDelayMs: 1,
  retryDelayMs: 60_000,
  verifyWindowMs: 60_000,
  pollMs: 20,
};

/** What a worker of a test is made of; all but session and provider may be left out. */
export interface WorkerParts {
  readonly session: WorkerSession;
  readonly providerUrl: string;
  readonly scope?: WorkerContext['scope'];
  readonly policy?: Partial<WorkerPolicy>;
  readonly validator?: Validator;
  readonly executor?: WorkloadSession;
  readonly hook?: StepHook;
  readonly tell?: (entry: WorkerEntry) => void;
  /** Milliseconds of a clock that only goes forward. */
  readonly clock?: () => number;
}

/** A worker as `surety worker` makes it, in this process. */
export function makeWorker(parts: WorkerParts): Worker {
  const { session, providerUrl, scope, policy, validator = noValidator, executor, hook, tell } = parts;
  const { clock = () => performance.now() } = parts;
  const steps = new Steps(tell, hook);
  return new Worker({
    ...{ session, validator, steps, clock },
    provider: new HttpProvider(new URL(providerUrl), clock),
    policy: { ...FLEET_POLICY, ...policy },
    ...(scope && { scope }),
    ...(executor && { effects: new ActionEffects(executor, steps, clock) }),
  });
}

/** Many registrations of the one development worker, each a process of its own as far as the service knows. */
export async function registerWorkers(
  world: E2eWorld,
  count: number,
  services: readonly ServiceProcess[],
  through: (channel: Channel) => Channel = (channel) => channel,
): Promise<WorkerSession[]> {
  const sessions: WorkerSession[] = [];
  for (let n = 0; n < count; n += 1) {
    const channel = world.channel(WORKER, services[n % services.length]);
    const { registration } = await registerWorkload(world.admin, channel, world.channel(OPERATOR), {
      domainId: ACME,
      spiffeId: WORKER,
      role: WorkloadRole.ACTION_WORKER,
      workloadId: `mailer-${n}`,
    });
    sessions.push(new WorkerSession(through(channel), registration, { firstPauseMs: 1, sendings: 4 }));
  }
  return sessions;
}

/** What is done in place of a call; `call` makes it. */
export type Interception = (method: string, call: () => Promise<unknown>) => Promise<unknown>;

/** A connection whose calls somebody else has in hand. */
export function intercepted(channel: Channel, around: Interception): Channel {
  return new Proxy(channel, {
    get(target, name) {
      if (name !== 'service') return Reflect.get(target, name);
      return (service: Parameters<Channel['service']>[0]) => {
        const methods = target.service(service) as Record<string, (...args: unknown[]) => Promise<unknown>>;
        return new Proxy(methods, {
          get: (of, method: string) => {
            const call = of[method] as (typeof methods)[string];
            return (...args: unknown[]) => around(method, () => call(...args));
          },
        });
      };
    },
  });
}

/** What a client is told where an answer did not come. */
export function lostAnswer(): SuretyError {
  return new SuretyError('UNAVAILABLE', '', 'the answer was lost', {}, [], undefined);
}

/** A connection that loses answers: some calls are not made, some are made and not answered. */
export function lossy(channel: Channel, random: () => number, share: number): Channel {
  return intercepted(channel, async (_, call) => {
    const chance = random();
    if (chance < share / 3) throw lostAnswer();
    const answer = await call();
    if (chance < share) throw lostAnswer();
    return answer;
  });
}

/** Numbers in [0, 1) that are the same for the same seed (mulberry32's recurrence). */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Does something for each, some at a time. */
export async function eachOf<Item, Result>(
  items: readonly Item[],
  atOnce: number,
  run: (item: Item, index: number) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  let next = 0;
  const lane = async (): Promise<void> => {
    for (let at = next++; at < items.length; at = next++) results[at] = await run(items[at] as Item, at);
  };
  await Promise.all(Array.from({ length: atOnce }, lane));
  return results;
}
