import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { fromJsonString } from '@bufbuild/protobuf';
import { type RegistrationSpec, RegistrationSpecSchema } from '../../gen/surety/identity/v1/workload_pb.js';
import { createSigningKey } from '../../identity/sign.js';
import { possession } from '../client/register-workload.js';
import type { Channel } from '../client/service-client.js';
import { type Held, WorkerSession } from '../client/worker-session.js';
import { executionRequest } from '../worker/execution-request.js';
import { gateOfView } from '../worker/gate-of-view.js';
import { HttpProvider } from '../worker/http-provider.js';
import { type StepName, Steps, stateOf, type WorkerEntry } from '../worker/steps.js';
import { noValidator } from '../worker/validator.js';
import { Worker } from '../worker/worker.js';
import { DEFAULT_POLICY, type WorkerContext } from '../worker/worker-context.js';
import type { RoleAction } from './role-protocol.js';

/** The story's patience: two observations, soon after each other. */
const POLICY = { ...DEFAULT_POLICY, maxObservations: 2, observeDelayMs: 200, providerTimeoutMs: 5_000 };
/** How long something that must become ready is waited for, in milliseconds. */
const READY_TIMEOUT_MS = 20_000;
const POLL_MS = 50;

/** A worker: the same library as `surety worker`, one action at a time. */
export function workerActions(channel: Channel): Readonly<Record<string, RoleAction>> {
  const key = createSigningKey();
  const clock = (): number => performance.now();
  const leases = new Map<string, Held>();
  let registration: RegistrationSpec | undefined;
  let providerUrl = '';
  const session = (): WorkerSession => {
    if (!registration) throw new Error('not registered');
    return new WorkerSession(channel, registration);
  };
  const contextOf = (actionId: string, tell: (entry: WorkerEntry) => void): WorkerContext => ({
    session: session(),
    provider: new HttpProvider(new URL(providerUrl), clock),
    policy: POLICY,
    validator: noValidator,
    scope: { actionIds: [actionId] },
    steps: new Steps(tell),
    clock,
  });

  return {
    key: async () => ({ jwk: key.publicKey.jwk, processId: String(process.pid) }),
    register: async ({ spec = '', audience = '', incarnation = '1', provider = '' }) => {
      registration = fromJsonString(RegistrationSpecSchema, spec);
      providerUrl = provider;
      const service = { audience, incarnation: BigInt(incarnation) };
      return { possessionJws: await possession(registration, service, key) };
    },
    /** As `surety worker` does, until it had something to do; and what that was. */
    work: async ({ actionId = '' }) => {
      const entries: WorkerEntry[] = [];
      const worker = new Worker(contextOf(actionId, (entry) => void entries.push(entry)));
      for (const until = performance.now() + READY_TIMEOUT_MS; performance.now() < until; ) {
        if ((await worker.workOnce()).is === 'moved') break;
        await sleep(POLL_MS);
      }
      return { entries: JSON.stringify(entries.filter(toldOf)) };
    },
    lease: async ({ actionId = '', leaseMs = '' }) => {
      const scope = { actionIds: [actionId] };
      for (const until = performance.now() + READY_TIMEOUT_MS; performance.now() < until; ) {
        const held = await session().leaseNext({ scope, leaseMs: Number(leaseMs) });
        if (held) {
          leases.set(actionId, held);
          return stateOf(held.action);
        }
        await sleep(POLL_MS);
      }
      throw new Error('nothing became ready');
    },
    /** Begins the dispatch under a lease that was taken before, however long ago. */
    dispatch: async ({ actionId = '', gate = '' }) => {
      const held = leaseOf(leases, actionId);
      const { executionDigest } = executionRequest(held.action);
      const { observationWindowMs, maxObservations } = POLICY;
      const { action } = await session().beginDispatch(held, {
        ...(JSON.parse(gate) as NonNullable<ReturnType<typeof gateOfView>>),
        ...{ executionDigest, observationWindowMs, maxObservations },
      });
      return stateOf(action);
    },
    /** Which approval the action has, while the lease lasts. */
    gate: async ({ actionId = '' }) => ({
      gate: JSON.stringify(gateOfView(await session().view(leaseOf(leases, actionId)))),
    }),
    /** Goes on under a lease that was taken before. */
    goOn: async ({ actionId = '' }) => {
      const entries: WorkerEntry[] = [];
      const context = contextOf(actionId, (entry) => void entries.push(entry));
      const untilMs = performance.now() + POLICY.providerTimeoutMs;
      await new Worker(context).moveOn({ ...leaseOf(leases, actionId), untilMs });
      return { entries: JSON.stringify(entries) };
    },
  };
}

function leaseOf(leases: ReadonlyMap<string, Held>, actionId: string): Held {
  const held = leases.get(actionId);
  if (!held) throw new Error('there is no lease');
  return held;
}

const LEASES: ReadonlySet<StepName> = new Set(['LeaseNext', 'LeaseObservation']);

/** A lease that was asked for and not there is no part of the story. */
function toldOf({ step, outcome, actionId }: WorkerEntry): boolean {
  return !(LEASES.has(step) && outcome === 'ok' && actionId === '');
}
