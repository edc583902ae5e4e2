import { describe, expect, test } from 'vitest';
import { callerActor } from '../../../src/ledger/admission/admit-call.js';
import type { AuditRow } from '../../../src/ledger/audit/records.js';
import { setFreeze } from '../../../src/ledger/authority/commands/set-freeze.js';
import { executeCommand } from '../../../src/ledger/authority/execute-command.js';
import type { MutationContext } from '../../../src/ledger/authority/mutation-rule.js';
import type { DomainRow, SinkRow } from '../../../src/ledger/authority/records.js';
import { restoreDomain } from '../../../src/ledger/authority/restore-domain.js';
import { canonicalDigest, sha256 } from '../../../src/ledger/encoding.js';
import { consumeNonce } from '../../../src/ledger/replay/consume-nonce.js';
import { runDecision } from '../../../src/ledger/run-decision.js';
import { Draft } from '../../../src/ledger/working-set.js';
import { command, emptyWorld, reasonOf } from '../../support/command-fixture.js';
import {
  decodeJsonEntry,
  FIXTURE_DOMAIN,
  FIXTURE_NOW,
  FIXTURE_SERVICE_DOMAIN,
  workingSet,
} from '../../support/ledger-fixture.js';

// effects.md, Restore: what becomes of a domain, and what hangs on its freeze.

const COMMAND = { domainId: FIXTURE_DOMAIN, commandId: 'restore-1' };
const HEAD = { seq: 41n, chainHash: sha256('the head of the backup'), incarnation: 1n, fenceCounter: 9n };
const FROZEN_BY_RESTORE = { frozen: true, freezeReason: 'restore' } as const;

describe('a domain that was brought back', () => {
  test.each<[string, Partial<DomainRow>]>([
    ['in force', {}],
    ['frozen by an operator', { frozen: true, freezeReason: 'incident 7' }],
    ['suspended', { status: 'suspended' }],
  ])('and was %s is frozen, and all that was issued before is stale', (_, before) => {
    const set = workingSet({
      incarnation: 2n,
      head: HEAD,
      domain: { policyRevision: 5n, revocationEpoch: 3n, revision: 8n, ...before },
    });
    const outcome = runDecision(set, restoreDomain, COMMAND);
    const domain = {
      ...set.originalDomain,
      ...FROZEN_BY_RESTORE,
      policyRevision: 6n,
      revocationEpoch: 4n,
      revision: 9n,
    };
    expect(outcome).toEqual({ ok: true, reply: domain });
    expect(set.domain).toEqual(domain);

    const { rows, head } = set.changes();
    expect(rows.map(({ table }) => table)).toEqual(['audit_entries']);
    const after = rows[0]?.after as AuditRow | undefined;
    expect(decodeJsonEntry(after?.entry ?? Buffer.alloc(0))).toEqual({
      kind: 'restore',
      commandId: 'restore-1',
      domainId: FIXTURE_DOMAIN,
      seq: '42',
      incarnation: '2',
      time: FIXTURE_NOW.toString(),
      previousHead: HEAD.chainHash.toString('hex'),
      record: {
        type: 'domain',
        id: FIXTURE_DOMAIN,
        revision: '9',
        operation: 'restore',
        digest: canonicalDigest('surety-restore-v1', [
          `spiffe://${FIXTURE_SERVICE_DOMAIN}/surety`,
          FIXTURE_DOMAIN,
          2n,
          6n,
          4n,
        ]).toString('hex'),
      },
    });
    // Fences go on counting; those of the new incarnation are above all before.
    expect(head).toMatchObject({ seq: 42n, incarnation: 2n, fenceCounter: 9n });
  });
});

const SINK: SinkRow = {
  sink: 'bank',
  authoritySystems: ['bank-ledger'],
  sendWindow: 60_000_000n,
  settleTime: 60_000_000n,
  breakerThreshold: 5,
  breakerReset: 60_000_000n,
  unknownCeiling: 10,
  unknownAge: 60_000_000n,
  frozen: false,
  freezeReason: null,
  revision: 1n,
};

describe("a restore's freeze", () => {
  const context = { reason: 'to be sure', expectedEntityRevision: 1n } as MutationContext;

  test.each([
    ['is ended by thawing', false, { frozen: false, freezeReason: null }],
    ['keeps its reason where the domain is frozen once more', true, FROZEN_BY_RESTORE],
  ])('%s', (_, frozen, after) => {
    const draft = new Draft(workingSet({ incarnation: 2n, domain: FROZEN_BY_RESTORE }));
    setFreeze.apply(draft, { kind: 'set_freeze', sink: undefined, frozen }, context);
    expect(draft.domain).toMatchObject(after);
  });

  test.each([undefined, 'bank'])("is nobody else's: its reason is refused for the sink %s", (sink) => {
    const world = emptyWorld();
    world.add('sinks', SINK);
    const freeze = { kind: 'set_freeze', sink, frozen: true } as const;
    const header = { reason: 'restore', expectedEntityRevision: 1n };
    expect(world.run(executeCommand, command(world, freeze, { header }))).toMatchObject({
      refusal: {
        reason: 'FIELD_INVALID',
        violations: [{ field: 'command_jws.header.reason', rule: expect.stringContaining('restore') }],
      },
    });
    expect(reasonOf(world, freeze, { header: { ...header, reason: 'restore of the bank' } })).toBe('done');
    // Why a freeze ends is no freeze's reason.
    const thaw = { ...freeze, frozen: false };
    expect(reasonOf(world, thaw, { header: { ...header, expectedEntityRevision: 2n } })).toBe('done');
  });

  const caller = {
    spiffeId: `spiffe://${FIXTURE_DOMAIN}/owner/olga`,
    trustDomain: FIXTURE_DOMAIN,
    leafDigest: sha256('leaf'),
    keyThumbprint: 'leaf key',
    notAfter: FIXTURE_NOW + 1_000_000n,
  };
  const nonceKey = sha256('a nonce');
  const consume = {
    ...COMMAND,
    caller,
    kind: 'owner' as const,
    nonceKey,
    consumptionId: 'verification-0001',
    expiresAt: FIXTURE_NOW + 60_000_000n,
  };
  const spent = (consumptionId: string) => ({
    replay_nonces: [{ nonceKey, consumptionId, consumedAt: 1n, expiresAt: consume.expiresAt }],
  });
  const nonceSet = (domain: Partial<DomainRow>, rows: ReturnType<typeof spent> | object = {}) =>
    workingSet({
      domain,
      rows: {
        callers: [{ spiffeId: caller.spiffeId, kind: 'owner', refId: caller.spiffeId }],
        owners: [
          {
            spiffeId: caller.spiffeId,
            signingKeyJwk: '{}',
            signingKeyThumbprint: 'key',
            sourceScopes: ['*'],
            typeScopes: ['*'],
            status: 'active',
            revision: 1n,
          },
        ],
        ...rows,
      },
      absent: {
        replay_nonces: [[nonceKey]],
        replay_callers: [[caller.spiffeId]],
        actor_counters: [[callerActor(caller.spiffeId)]],
      },
    });

  test('lets no nonce be consumed: it may be spent, and forgotten', () => {
    const set = nonceSet(FROZEN_BY_RESTORE);
    expect(runDecision(set, consumeNonce, consume)).toMatchObject({
      ok: false,
      recorded: false,
      refusal: { reason: 'FROZEN', metadata: { scope: 'domain' } },
    });
    expect(set.changes().rows).toEqual([]);
  });

  test('still says of a nonce that is not forgotten what became of it', () => {
    expect(
      runDecision(nonceSet(FROZEN_BY_RESTORE, spent('verification-0001')), consumeNonce, consume),
    ).toEqual({
      ok: true,
      reply: { duplicate: true, consumedAt: 1n },
    });
    expect(
      runDecision(nonceSet(FROZEN_BY_RESTORE, spent('another-verification')), consumeNonce, consume),
    ).toMatchObject({
      refusal: { reason: 'NONCE_REPLAYED' },
    });
  });

  test.each([
    ['an operator', { frozen: true, freezeReason: 'incident 7' }],
    ['nobody', {}],
  ])('is another than one by %s: nonces are consumed then', (_, domain) => {
    expect(runDecision(nonceSet(domain), consumeNonce, consume)).toEqual({
      ok: true,
      reply: { duplicate: false, consumedAt: FIXTURE_NOW },
    });
  });
});
