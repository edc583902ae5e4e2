import type { KeyObject } from 'node:crypto';
import type { ProofKeys } from '../../src/identity/proof-key-cache.js';
import type { SigningKey } from '../../src/identity/sign.js';
import type { StatementFields } from '../../src/ledger/effect/statement.js';

/** A statement that breaks no rule of form. */
export const STATEMENT: StatementFields = {
  audience: 'spiffe://surety.test/surety',
  incarnation: 1n,
  domainId: 'acme.test',
  registrationId: 'registration-payments-a',
  workloadId: 'payments-a',
  role: 'effect_executor',
  processId: 'host-7/4242',
  processStart: 1_790_000_000_123_456n,
  sessionId: 'session-0001',
  credentialEpoch: 1n,
  revocationEpoch: 1n,
  parentEventId: 'event-refund-1184',
  grantId: 'grant-refunds',
  effectId: 'effect-000000000001',
  fence: 1_099_511_627_777n,
  fromState: 'PREPARED',
  toState: 'EXECUTING',
  evidenceDigest: Buffer.alloc(32, 7),
  issuedAt: 1_790_000_100_000_000n,
  nonce: 'AAECAwQFBgcICQoLDA0ODw==',
};

/** Keys of one domain, without a store. */
export function keysOf(...known: SigningKey[]): ProofKeys {
  return { find: async (_domainId, thumbprint) => resolverOf(...known)(thumbprint) };
}

export function resolverOf(...known: SigningKey[]): (thumbprint: string) => Promise<KeyObject | undefined> {
  return async (thumbprint) =>
    known.find(({ publicKey }) => publicKey.thumbprint === thumbprint)?.publicKey.key;
}

/** The error that a call throws; fails where it throws none. */
export async function errorOf(call: () => unknown): Promise<Error> {
  try {
    await call();
  } catch (error) {
    return error as Error;
  }
  throw new Error('nothing was thrown');
}
