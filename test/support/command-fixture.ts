import type { CommandHeader, ExecuteCommand } from '../../src/ledger/authority/execute-command.js';
import { executeCommand } from '../../src/ledger/authority/execute-command.js';
import type { Mutation } from '../../src/ledger/authority/mutations.js';
import type { OperatorRow } from '../../src/ledger/authority/records.js';
import type { Outcome } from '../../src/ledger/decision.js';
import { sha256 } from '../../src/ledger/encoding.js';
import { type Caller, DAY, SECOND } from '../../src/ledger/types.js';
import { runDecision } from '../../src/ledger/run-decision.js';
import { FIXTURE_SERVICE_DOMAIN } from './ledger-fixture.js';
import { LedgerWorld } from './ledger-world.js';

export const ROOT = `spiffe://${FIXTURE_SERVICE_DOMAIN}/operator/root`;
export const AUDIENCE = `spiffe://${FIXTURE_SERVICE_DOMAIN}/surety`;

export function operatorRow(over: Partial<OperatorRow> = {}): OperatorRow {
  return {
    spiffeId: ROOT,
    signingKeyJwk: '{}',
    signingKeyThumbprint: 'root-key',
    roles: ['ADMIN'],
    scopeDomainId: null,
    status: 'active',
    revision: 1n,
    ...over,
  };
}

/** A domain with the platform's operator and nothing else. */
export function emptyWorld(): LedgerWorld {
  const world = new LedgerWorld();
  world.platformOperators.set(ROOT, operatorRow());
  return world;
}

/** The service's own domain with its operator. */
export function serviceWorld(): LedgerWorld {
  const world = new LedgerWorld();
  world.domainId = FIXTURE_SERVICE_DOMAIN;
  world.add('operators', operatorRow());
  world.add('callers', { spiffeId: ROOT, kind: 'operator', refId: ROOT });
  return world;
}

export interface CommandOver {
  readonly caller?: Partial<Caller>;
  readonly keyThumbprint?: string;
  readonly header?: Partial<CommandHeader>;
  /** What the payload's digest is of; by default the header and the mutation. */
  readonly payload?: string;
}

let made = 0;

/** A command that the platform's operator signed just now, on everything as it stands, unless it is said otherwise. */
export function command(world: LedgerWorld, mutation: Mutation, over: CommandOver = {}): ExecuteCommand {
  made += 1;
  const signed = commandOn(world, mutation, over, 0n);
  if (over.header?.expectedEntityRevision !== undefined) return signed;
  const stale = staleAgainst(world, signed);
  if (stale === undefined) return signed;
  const resting = commandOn(world, mutation, over, stale);
  // Still stale, it was not the record that had another revision.
  return staleAgainst(world, resting) === undefined ? resting : signed;
}

/** The revision that a command is refused for as stale, if it is; nothing of the attempt stays. */
function staleAgainst(world: LedgerWorld, signed: ExecuteCommand): bigint | undefined {
  const outcome = runDecision(world.gather(executeCommand.reads(signed)), executeCommand, signed);
  if (outcome.ok || outcome.refusal.reason !== 'REVISION_STALE') return undefined;
  return BigInt(outcome.refusal.metadata?.['current'] ?? 0);
}

function commandOn(
  world: LedgerWorld,
  mutation: Mutation,
  over: CommandOver,
  expectedEntityRevision: bigint,
): ExecuteCommand {
  const header: CommandHeader = {
    audience: AUDIENCE,
    incarnation: 1n,
    domainId: world.domainId,
    adminCommandId: `command-${made}`,
    expectedPolicyRevision: world.domain.policyRevision,
    expectedEntityRevision,
    reason: 'because',
    issuedAt: world.now,
    expiresAt: world.now + 300n * SECOND,
    ...over.header,
  };
  const payload = over.payload ?? `${header.adminCommandId}-${mutation.kind}`;
  return {
    domainId: world.domainId,
    commandId: `req-${made}`,
    caller: {
      spiffeId: ROOT,
      trustDomain: FIXTURE_SERVICE_DOMAIN,
      leafDigest: sha256('root leaf'),
      keyThumbprint: 'root-leaf-key',
      notAfter: world.now + DAY,
      ...over.caller,
    },
    keyThumbprint: over.keyThumbprint ?? 'root-key',
    payloadDigest: sha256(payload),
    jws: Buffer.from(payload),
    header,
    mutation,
  };
}

/** Runs a mutation, and says what it was refused for, or `done`. */
export function reasonOf(world: LedgerWorld, mutation: Mutation, over: CommandOver = {}): string {
  const outcome: Outcome<unknown> = world.run(executeCommand, command(world, mutation, over));
  return outcome.ok ? 'done' : outcome.refusal.reason;
}

/** Runs a mutation that must be done, and answers the record's revision. */
export function done(world: LedgerWorld, mutation: Mutation, over: CommandOver = {}): bigint {
  const outcome = world.run(executeCommand, command(world, mutation, over));
  if (!outcome.ok)
    throw new Error(`${mutation.kind}: ${outcome.refusal.reason} ${JSON.stringify(outcome.refusal)}`);
  return outcome.reply.row.entityRevision;
}
