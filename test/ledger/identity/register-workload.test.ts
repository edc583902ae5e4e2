import { ADMITS_ALL } from '../../support/admits-all.js';
import { beforeEach, describe, expect, it } from 'vitest';
import { executeCommand } from '../../../src/ledger/authority/execute-command.js';
import type { EffectRow } from '../../../src/ledger/effect/records.js';
import type { ProvedRegistration } from '../../../src/ledger/identity/registration-fields.js';
import { DAY, HOUR, SECOND } from '../../../src/ledger/types.js';
import { grantRow } from '../../support/authority-fixture.js';
import { command, done, ROOT, reasonOf } from '../../support/command-fixture.js';
import { FIXTURE_NOW } from '../../support/ledger-fixture.js';
import type { LedgerWorld } from '../../support/ledger-world.js';
import { EXECUTOR, proved, reconciler, workloadWorld } from '../../support/registration-fixture.js';

let world: LedgerWorld;
beforeEach(() => {
  world = workloadWorld();
});

function register(fields: ProvedRegistration): string {
  const outcome = world.run(executeCommand, command(world, { kind: 'register_workload', proved: fields }));
  if (outcome.ok) return 'done';
  const { reason, metadata } = outcome.refusal;
  return [reason, metadata?.['rule'] ?? metadata?.['record'] ?? metadata?.['current']]
    .filter(Boolean)
    .join(' ');
}

const standing = { parentEventId: null, grantId: null, sinks: ['bank'] };
const past = FIXTURE_NOW;

describe('identity.md, Workload registration', () => {
  it('keeps the registration, its first version, its key, its caller, and says so in the log', () => {
    const fields = proved();
    expect(register(fields)).toBe('done');
    expect(world.find('registrations')).toMatchObject({
      registrationId: 'reg-1',
      spiffeId: EXECUTOR,
      credentialEpoch: 1n,
      revocationEpoch: 1n,
      status: 'active',
      firstIssuedAt: FIXTURE_NOW,
      updatedAt: FIXTURE_NOW,
      possessionDigest: fields.possessionDigest,
    });
    expect(Object.keys(world.find('registrations') ?? {})).not.toContain('proofKeyJwk');
    expect(world.find('registration_versions')).toEqual({
      registrationId: 'reg-1',
      credentialEpoch: 1n,
      role: 'effect_executor',
      spiffeId: EXECUTOR,
      certificateDigest: null,
      proofKeyThumbprint: 'key-1',
      status: 'active',
      possessionJws: fields.possessionJws,
      storedAt: FIXTURE_NOW,
    });
    expect(world.find('proof_keys')).toEqual({
      thumbprint: 'key-1',
      publicJwk: '{}',
      firstSeenAt: FIXTURE_NOW,
    });
    expect(world.find('callers')).toEqual({ spiffeId: EXECUTOR, kind: 'executor', refId: EXECUTOR });
    expect(world.log.map((entry) => [entry.kind, entry.actorSpiffeId, entry.record?.operation])).toEqual([
      ['command_intent', ROOT, undefined],
      ['workload', ROOT, 'register_workload'],
      ['command', ROOT, 'register_workload'],
    ]);
  });

  it.each<readonly [string, Partial<ProvedRegistration>]>([
    ['POSSESSION_INVALID audience', { audience: 'spiffe://other.test/surety' }],
    ['POSSESSION_INVALID incarnation', { incarnation: 2n }],
    ['POSSESSION_INVALID domain_id', { domainId: 'globex.test' }],
    ['POSSESSION_INVALID credential_epoch', { credentialEpoch: 2n }],
    ['POSSESSION_INVALID expire_time', { expiresAt: FIXTURE_NOW + HOUR + 1n }],
    ['POSSESSION_INVALID expire_time', { issuedAt: FIXTURE_NOW - SECOND, expiresAt: past }],
    ['POSSESSION_INVALID issued_time', { issuedAt: FIXTURE_NOW - 300n * SECOND - 1n }],
    ['POSSESSION_INVALID issued_time', { issuedAt: FIXTURE_NOW + 60n * SECOND + 1n }],
    ['POSSESSION_INVALID renewable_until_time', { renewableUntil: FIXTURE_NOW + DAY }],
    ['REVISION_STALE 1', { revocationEpoch: 2n }],
    ['RECORD_MISSING harness', { recipientScope: 'h2' }],
    ['RECORD_MISSING event', { parentEventId: 'event-2' }],
    ['RECORD_MISSING grant', { grantId: 'grant-2' }],
    ['STANDING_NOT_ALLOWED', standing],
  ])('refuses with %s', (refused, over) => {
    expect(register(proved(over))).toBe(refused);
    expect(world.all('registrations')).toEqual([]);
    expect(world.log).toEqual([]);
  });

  it('takes a proof of the last 5 min, for an hour at most', () => {
    const issuedAt = FIXTURE_NOW - 300n * SECOND;
    expect(register(proved({ issuedAt, expiresAt: issuedAt + HOUR }))).toBe('done');
    const ahead = FIXTURE_NOW + 60n * SECOND;
    const key = { registrationId: 'reg-2', proofKeyThumbprint: 'key-2' };
    expect(register(proved({ ...key, issuedAt: ahead, expiresAt: ahead + HOUR }))).toBe('done');
  });

  it('rests on no revision: there is none yet', () => {
    const over = { header: { expectedEntityRevision: 1n } };
    expect(reasonOf(world, { kind: 'register_workload', proved: proved() }, over)).toBe('REVISION_STALE');
  });

  it('takes each registration id once', () => {
    register(proved());
    expect(register(proved({ proofKeyThumbprint: 'key-2' }))).toBe('RECORD_EXISTS');
    done(world, { kind: 'revoke_workload', registrationId: 'reg-1' });
    expect(register(proved({ proofKeyThumbprint: 'key-2' }))).toBe('RECORD_EXISTS');
  });

  it("never takes a key that ever was another registration's with another role", () => {
    register(proved());
    done(world, { kind: 'revoke_workload', registrationId: 'reg-1' });
    expect(register(reconciler({ proofKeyThumbprint: 'key-1' }))).toBe('KEY_REUSED');
    expect(register(proved({ registrationId: 'reg-2' }))).toBe('done');
    expect(world.all('proof_keys')).toHaveLength(1);
  });

  it('lets a SPIFFE ID be one kind only', () => {
    register(proved());
    expect(register(reconciler({ spiffeId: EXECUTOR }))).toBe('CALLER_KIND_CONFLICT');
    const again = { registrationId: 'reg-2', proofKeyThumbprint: 'key-2' };
    expect(register(proved(again))).toBe('done');
    world.add('callers', { spiffeId: 'spiffe://acme.test/x', kind: 'harness', refId: 'planner' });
    const taken = { registrationId: 'reg-3', proofKeyThumbprint: 'key-3', spiffeId: 'spiffe://acme.test/x' };
    expect(register(proved(taken))).toBe('CALLER_KIND_CONFLICT');
  });

  it('is for a grant in force, but for the reconciler of an effect that is not settled', () => {
    for (const over of [{ revokedAt: past }, { expiresAt: past }]) {
      world.add('grants', grantRow(over));
      expect(register(proved())).toBe('RECORD_MISSING grant');
      expect(register(reconciler())).toBe('RECORD_MISSING grant');
    }
    const effect = { effectId: 'eff-1', eventId: 'event-1', grantId: 'grant-1', state: 'SUCCEEDED' };
    world.add('effects', effect as EffectRow);
    expect(register(reconciler())).toBe('RECORD_MISSING grant');
    world.add('effects', { ...effect, state: 'UNKNOWN' } as EffectRow);
    expect(register(proved())).toBe('RECORD_MISSING grant');
    expect(register(reconciler({ renewableUntil: FIXTURE_NOW + DAY }))).toBe('done');
  });

  it('may renew itself for 24 h, and no longer than its grant', () => {
    expect(register(proved({ renewableUntil: FIXTURE_NOW + 10n * HOUR }))).toBe('done');
    world = workloadWorld();
    expect(register(proved({ renewableUntil: FIXTURE_NOW + 10n * HOUR + 1n }))).toBe(
      'POSSESSION_INVALID renewable_until_time',
    );
    world.add('grants', grantRow({ expiresAt: FIXTURE_NOW + 10n * DAY }));
    expect(register(proved({ renewableUntil: FIXTURE_NOW + DAY + 1n }))).toBe(
      'POSSESSION_INVALID renewable_until_time',
    );
    expect(register(proved({ renewableUntil: FIXTURE_NOW + DAY }))).toBe('done');
  });
});

describe('identity.md, Bound and standing', () => {
  beforeEach(() => {
    world.domain = { ...world.domain, allowStanding: true };
    done(world, {
      kind: 'put_sink',
      sink: 'bank',
      authoritySystems: ['bank-ledger'],
      sendWindow: SECOND,
      settleTime: 0n,
      ...ADMITS_ALL,
    });
  });

  it('takes a standing one where the domain allows it, for sinks that are there', () => {
    expect(register(proved(standing))).toBe('done');
    expect(world.find('registrations')).toMatchObject({
      parentEventId: null,
      grantId: null,
      sinks: ['bank'],
    });
    const other = { ...standing, registrationId: 'reg-2', proofKeyThumbprint: 'key-2' };
    expect(register(proved({ ...other, sinks: ['bank', 'mail'] }))).toBe('RECORD_MISSING sink');
  });

  it('binds a worker to nothing, whatever the domain allows', () => {
    world.domain = { ...world.domain, allowStanding: false };
    const worker = { role: 'action_worker', parentEventId: null, grantId: null } as const;
    expect(register(proved(worker))).toBe('done');
    expect(world.find('callers')).toMatchObject({ kind: 'worker' });
  });
});

describe('identity.md, Revoke', () => {
  it('ends one: status, epoch and a version without proof', () => {
    expect(reasonOf(world, { kind: 'revoke_workload', registrationId: 'reg-1' })).toBe('RECORD_MISSING');
    register(proved());
    const stale = { header: { expectedEntityRevision: 2n } };
    expect(reasonOf(world, { kind: 'revoke_workload', registrationId: 'reg-1' }, stale)).toBe(
      'REVISION_STALE',
    );
    expect(done(world, { kind: 'revoke_workload', registrationId: 'reg-1' })).toBe(2n);
    expect(world.find('registrations')).toMatchObject({ status: 'revoked', credentialEpoch: 2n });
    expect(world.find('registration_versions', { credentialEpoch: 2n })).toMatchObject({
      status: 'revoked',
      possessionJws: null,
      proofKeyThumbprint: 'key-1',
    });
    expect(done(world, { kind: 'revoke_workload', registrationId: 'reg-1' })).toBe(2n);
    expect(world.all('registration_versions')).toHaveLength(2);
  });
});
