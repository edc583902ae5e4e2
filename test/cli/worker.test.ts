import { durationMs } from '@bufbuild/protobuf/wkt';
import { describe, expect, test, vi } from 'vitest';
import type { Channel } from '../../src/cli/client/service-client.js';
import { SuretyError } from '../../src/cli/client/surety-error.js';
import { WorkerSession } from '../../src/cli/client/worker-session.js';
import { reportFailure } from '../../src/cli/failure.js';
import type { Worker } from '../../src/cli/worker/worker.js';
import { makeWorker } from '../support/worker-fleet.js';

// What the worker makes of the answers to a call for a lease; all else of it is in test/e2e.

const REGISTRATION = { registrationId: 'reg-1', domainId: 'acme.test', spiffeId: '' };

interface LeaseRequest {
  readonly requestId: string;
  readonly leaseDuration: Parameters<typeof durationMs>[0];
}
type Answers = Readonly<Record<string, (request: LeaseRequest) => Promise<object>>>;

/** A session with a service that answers so. */
function sessionWith(actions: Answers): WorkerSession {
  const channel = { service: () => actions } as unknown as Channel;
  return new WorkerSession(channel, REGISTRATION, { sendings: 1 });
}

test('an answer that only ended other actions is followed by another request', async () => {
  const asked: LeaseRequest[] = [];
  const answers = [{ ended: 20 }, { ended: 5 }, { ended: 3, action: { actionId: 'act-1' }, lease: {} }];
  const session = sessionWith({
    leaseObservation: async (request) => {
      asked.push(request);
      return answers[asked.length - 1] ?? { ended: 0 };
    },
  });
  expect((await session.leaseObservation({ leaseMs: 7_000 }))?.action.actionId).toBe('act-1');
  expect(new Set(asked.map(({ requestId }) => requestId)).size).toBe(3);
  expect(asked.map(({ leaseDuration }) => durationMs(leaseDuration))).toEqual([7_000, 7_000, 7_000]);
  expect(await session.leaseObservation()).toBeUndefined();
  expect(asked).toHaveLength(4);
});

describe('a worker that works until nothing is ready', () => {
  const unreachable = new SuretyError('UNAVAILABLE', '', '127.0.0.1:1 cannot be reached', {}, [], undefined);
  const refused = new SuretyError(
    ...(['RESOURCE_EXHAUSTED', 'QUOTA_EXHAUSTED', 'Too many requests.', {}, [], 1_000] as const),
  );
  const nothing = async (): Promise<object> => ({ ended: 0 });
  const failing = (error: Error) => async (): Promise<object> => {
    throw error;
  };
  const workerOf = (actions: Answers): Worker =>
    makeWorker({ session: sessionWith(actions), providerUrl: 'http://127.0.0.1:1' });

  test('ends where nothing is', async () => {
    await workerOf({ leaseObservation: nothing, leaseNext: nothing }).drain();
  });

  test.each([
    ['is not reached', failing(unreachable), failing(unreachable), '127.0.0.1:1 cannot be reached'],
    ['is lost after the first call', nothing, failing(unreachable), '127.0.0.1:1 cannot be reached'],
    ['refuses one of the calls for now', failing(refused), nothing, 'Too many requests.'],
  ])('fails where the service %s, with a sentence', async (_, leaseObservation, leaseNext, why) => {
    const failed = await workerOf({ leaseObservation, leaseNext })
      .drain()
      .catch((error: unknown) => error);
    let said = '';
    const write = vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
      said += String(text);
      return true;
    });
    const code = reportFailure('worker', failed);
    write.mockRestore();
    expect([code, said]).toEqual([1, `surety worker: whether anything is ready is not known: ${why}\n`]);
  });

  test('that was told to stop does not fail', async () => {
    const worker = workerOf({ leaseObservation: failing(unreachable), leaseNext: nothing });
    await worker.drain(AbortSignal.abort());
  });

  test('and one that goes on asks again', async () => {
    const stop = new AbortController();
    let asked = 0;
    const worker = workerOf({
      leaseObservation: async () => {
        asked += 1;
        if (asked === 3) stop.abort();
        throw unreachable;
      },
      leaseNext: nothing,
    });
    await worker.run(stop.signal);
    expect(asked).toBe(3);
  });
});
