import { durationMs } from '@bufbuild/protobuf/wkt';
import { expect, test } from 'vitest';
import type { Channel } from '../../src/cli/client/service-client.js';
import { WorkerSession } from '../../src/cli/client/worker-session.js';

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
