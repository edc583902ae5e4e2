import { ADMITS_ALL } from '../../support/admits-all.js';
import { beforeEach, describe, expect, it } from 'vitest';
import { executeCommand } from '../../../src/ledger/authority/execute-command.js';
import { sha256 } from '../../../src/ledger/encoding.js';
import type { ProvedRegistration } from '../../../src/ledger/identity/registration-fields.js';
import { type RenewWorkload, renewWorkload } from '../../../src/ledger/identity/renew-workload.js';
import { type Caller, DAY, HOUR, MINUTE, SECOND } from '../../../src/ledger/types.js';
import { grantRow } from '../../support/authority-fixture.js';
import { command, done } from '../../support/command-fixture.js';
import { FIXTURE_NOW } from '../../support/ledger-fixture.js';
import type { LedgerWorld } from '../../support/ledger-world.js';
import { EXECUTOR, proved, reconciler, workloadWorld } from '../../support/registration-fixture.js';

const RENEWABLE_UNTIL = FIXTURE_NOW + 8n * HOUR;

let world: LedgerWorld;
beforeEach(() => {
  world = workloadWorld();
  done(world, { kind: 'register_workload', proved: proved({ renewableUntil: RENEWABLE_UNTIL }) });
  world.now += 50n * MINUTE;
});

/** The second version: another session, process and key. */
function next(over: Partial<ProvedRegistration> = {}): ProvedRegistration {
  return proved({
    credentialEpoch: 2n,
    sessionId: 'session-2',
    processId: '4712',
    proofKeyThumbprint: 'key-2',
    issuedAt: world.now,
    expiresAt: world.now + HOUR,
    renewableUntil: RENEWABLE_UNTIL,
    ...over,
  });
}

interface Over {
  readonly caller?: Partial<Caller>;
  readonly key?: string;
}

function request(fields: ProvedRegistration, over: Over = {}): RenewWorkload {
  return {
    domainId: world.domainId,
    commandId: 'req-renew',
    caller: {
      spiffeId: EXECUTOR,
      trustDomain: 'acme.test',
      leafDigest: sha256('leaf'),
      keyThumbprint: 'leaf key',
      notAfter: world.now + DAY,
      ...over.caller,
    },
    proved: fields,
    authorizationKeyThumbprint: over.key ?? 'key-1',
  };
}

function describeOutcome(outcome: ReturnType<LedgerWorld['run']>): string {
  if (outcome.ok) return 'done';
  const { reason, metadata } = outcome.refusal;
  return [reason, ...Object.values(metadata ?? {})].join(' ');
}

const byItself = (fields: ProvedRegistration, over: Over = {}) =>
  describeOutcome(world.run(renewWorkload, request(fields, over)));

const byOperator = (fields: ProvedRegistration) =>
  describeOutcome(world.run(executeCommand, command(world, { kind: 'renew_workload', proved: fields })));

const both: readonly (readonly [string, (fields: ProvedRegistration) => string])[] = [
  ['by itself', (fields) => byItself(fields)],
  ['by an operator', byOperator],
];

describe.each(both)('identity.md, Renew, %s', (_, renew) => {
  it('changes session, process, certificate and key, and copies the rest', () => {
    const binding = { certificateBinding: 'certificate', certificateDigest: sha256('leaf') } as const;
    expect(renew(next(binding))).toBe('done');
    expect(world.find('registrations')).toMatchObject({
      credentialEpoch: 2n,
      revocationEpoch: 1n,
      sessionId: 'session-2',
      processId: '4712',
      proofKeyThumbprint: 'key-2',
      ...binding,
      firstIssuedAt: FIXTURE_NOW,
      issuedAt: world.now,
      expiresAt: world.now + HOUR,
      updatedAt: world.now,
    });
    expect(world.all('registration_versions').map((version) => version.credentialEpoch)).toEqual([1n, 2n]);
    expect(world.all('proof_keys').map((key) => key.thumbprint)).toEqual(['key-1', 'key-2']);
  });

  it('is in the log', () => {
    renew(next());
    const entries = world.log.filter((entry) => entry.kind === 'workload');
    expect(entries.map((entry) => [entry.record?.operation, entry.record?.revision])).toEqual([
      ['register_workload', '1'],
      ['renew_workload', '2'],
    ]);
  });

  it('may keep the key', () => {
    expect(renew(next({ proofKeyThumbprint: 'key-1' }))).toBe('done');
    expect(world.all('proof_keys')).toHaveLength(1);
  });

  it('expects the next epoch', () => {
    expect(renew(next({ credentialEpoch: 1n }))).toBe('REVISION_STALE 1');
    expect(renew(next({ credentialEpoch: 3n }))).toBe('REVISION_STALE 1');
    expect(renew(next())).toBe('done');
    expect(renew(next({ sessionId: 'session-3' }))).not.toBe('done');
  });

  it('never takes anybody out of a mass revocation', () => {
    done(world, { kind: 'bump_revocation_epoch' });
    expect(renew(next())).toBe('WORKLOAD_NOT_CURRENT revocation_epoch');
    expect(renew(next({ revocationEpoch: 2n }))).toBe('WORKLOAD_NOT_CURRENT revocation_epoch');
  });

  it.each<readonly [string, Partial<ProvedRegistration>]>([
    ['role', { role: 'effect_reconciler' }],
    ['workload_id', { workloadId: 'mail' }],
    ['recipient_scope', { recipientScope: '*' }],
    ['revocation_epoch', { revocationEpoch: 2n }],
    ['parent_event_id', { parentEventId: null, grantId: null }],
    ['grant_id', { grantId: 'grant-2' }],
    ['audience', { audience: 'spiffe://other.test/surety' }],
    ['incarnation', { incarnation: 2n }],
    ['expire_time', { expiresAt: FIXTURE_NOW + 3n * HOUR }],
    ['issued_time', { issuedAt: FIXTURE_NOW }],
    ['renewable_until_time', { renewableUntil: FIXTURE_NOW + DAY + 1n }],
  ])('leaves %s as it must be', (rule, over) => {
    expect(renew(next(over))).toBe(`POSSESSION_INVALID ${rule}`);
    expect(world.find('registrations')).toMatchObject({ credentialEpoch: 1n });
  });

  it('needs a registration that is active and unexpired', () => {
    world.now = FIXTURE_NOW + HOUR;
    expect(renew(next())).toBe('WORKLOAD_NOT_CURRENT expire_time');
    world.now -= 1n;
    done(world, { kind: 'revoke_workload', registrationId: 'reg-1' });
    expect(renew(next({ credentialEpoch: 3n }))).toBe('WORKLOAD_NOT_CURRENT status');
  });

  it("never takes another registration's key of another role", () => {
    const fresh = { issuedAt: world.now, expiresAt: world.now + HOUR };
    done(world, { kind: 'register_workload', proved: reconciler(fresh) });
    expect(renew(next({ proofKeyThumbprint: 'key-r' }))).toBe('KEY_REUSED');
  });

  it('goes on when the grant has ended: what was started must be settled', () => {
    world.add('grants', grantRow({ revokedAt: world.now }));
    expect(renew(next())).toBe('done');
  });

  it('needs what a standing one needs', () => {
    world = workloadWorld();
    world.domain = { ...world.domain, allowStanding: true };
    done(world, {
      kind: 'put_sink',
      sink: 'bank',
      authoritySystems: ['bank'],
      sendWindow: SECOND,
      settleTime: 0n,
      ...ADMITS_ALL,
    });
    const standing = { parentEventId: null, grantId: null, sinks: ['bank'], renewableUntil: RENEWABLE_UNTIL };
    done(world, { kind: 'register_workload', proved: proved(standing) });
    world.domain = { ...world.domain, allowStanding: false };
    expect(renew(next(standing))).toBe('STANDING_NOT_ALLOWED');
    world.domain = { ...world.domain, allowStanding: true };
    expect(renew(next({ ...standing, sinks: [] }))).toBe('POSSESSION_INVALID sinks');
    expect(renew(next({ ...standing, sinks: ['bank', 'mail'] }))).toBe('POSSESSION_INVALID sinks');
    expect(renew(next(standing))).toBe('done');
  });
});

describe('a workload that renews itself', () => {
  it('answers an exact repeat as a duplicate, also when another version is the authorization', () => {
    const fields = next();
    expect(byItself(fields)).toBe('done');
    const again = world.run(renewWorkload, request(fields));
    expect(again).toMatchObject({
      ok: true,
      reply: { duplicate: true, registration: { credentialEpoch: 2n } },
    });
    expect(world.all('registration_versions')).toHaveLength(2);
    world.now += 2n * HOUR;
    expect(world.run(renewWorkload, request(fields))).toMatchObject({ reply: { duplicate: true } });
  });

  it.each<readonly [string, Over]>([
    ['NOT_VISIBLE', { caller: { spiffeId: 'spiffe://acme.test/executor/payments-b' } }],
    ['CALLER_UNKNOWN', { caller: { trustDomain: 'globex.test' } }],
    ['CALLER_UNKNOWN', { caller: { notAfter: FIXTURE_NOW } }],
    ['PROOF_SIGNATURE_INVALID key', { key: 'key-2' }],
  ])('is refused with %s', (refused, over) => {
    expect(byItself(next(), over)).toBe(refused);
  });

  it('ends with its certificate', () => {
    expect(byItself(next(), { caller: { notAfter: world.now } })).toBe('CALLER_UNKNOWN');
    expect(byItself(next(), { caller: { notAfter: world.now + 1n } })).toBe('done');
  });

  it('sees no registration that is not there', () => {
    expect(byItself(next({ registrationId: 'reg-2' }))).toBe('NOT_VISIBLE');
  });

  it('comes over the certificate that it is bound to', () => {
    const binding = { certificateBinding: 'certificate', certificateDigest: sha256('leaf') } as const;
    byItself(next(binding));
    const third = next({ ...binding, certificateDigest: sha256('new'), credentialEpoch: 3n });
    const elsewhere = { key: 'key-2', caller: { leafDigest: sha256('other') } };
    expect(byItself(third, elsewhere)).toBe('PROOF_BINDING_MISMATCH certificate');
    expect(byItself(third, { key: 'key-2' })).toBe('done');
    expect(byItself(third, { key: 'key-2' })).toBe('done');
  });

  it('binds itself to a certificate, and never takes that off: an operator does', () => {
    const binding = { certificateBinding: 'certificate', certificateDigest: sha256('leaf') } as const;
    expect(byItself(next(binding))).toBe('done');
    const third = next({ credentialEpoch: 3n });
    expect(byItself(third, { key: 'key-2' })).toBe('POSSESSION_INVALID certificate_binding');
    expect(world.find('registrations')).toMatchObject({ credentialEpoch: 2n, ...binding });
    expect(byOperator(third)).toBe('done');
    expect(world.find('registrations')).toMatchObject({
      credentialEpoch: 3n,
      certificateBinding: 'spiffe_id',
      certificateDigest: null,
    });
    expect(byItself(next({ credentialEpoch: 4n }), { key: 'key-2' })).toBe('done');
  });

  it('only where its registration allows it, and until then', () => {
    expect(byItself(next({ renewableUntil: RENEWABLE_UNTIL + 1n }))).toBe(
      'POSSESSION_INVALID renewable_until_time',
    );
    expect(byItself(next({ renewableUntil: null }))).toBe('done');
    const third = { credentialEpoch: 3n, renewableUntil: null };
    expect(byItself(next(third), { key: 'key-2' })).toBe('WORKLOAD_NOT_CURRENT renewable_until_time');
    expect(byOperator(next({ ...third, renewableUntil: RENEWABLE_UNTIL }))).toBe('done');
  });

  it('never beyond the time that was set', () => {
    const row = world.find('registrations');
    if (!row) throw new Error('no registration');
    world.add('registrations', { ...row, renewableUntil: world.now + HOUR });
    const until = { renewableUntil: world.now + HOUR };
    expect(byItself(next({ ...until, issuedAt: world.now + 1n, expiresAt: world.now + HOUR + 1n }))).toBe(
      'POSSESSION_INVALID expire_time',
    );
    expect(byItself(next(until))).toBe('done');
    world.now += HOUR - 1n;
    world.add('registrations', { ...row, renewableUntil: world.now });
    expect(byItself(next({ expiresAt: world.now + 1n, renewableUntil: null }))).toBe(
      'WORKLOAD_NOT_CURRENT renewable_until_time',
    );
  });

  it('not where the domain is suspended', () => {
    world.domain = { ...world.domain, status: 'suspended' };
    expect(byItself(next())).toBe('DOMAIN_INACTIVE');
  });
});

describe('an operator who renews', () => {
  it('compares the epoch that the command rests on, and takes a repeat as done', () => {
    const mutation = { kind: 'renew_workload', proved: next() } as const;
    const stale = command(world, mutation, { header: { expectedEntityRevision: 2n } });
    expect(describeOutcome(world.run(executeCommand, stale))).toBe('REVISION_STALE 1');
    expect(byOperator(mutation.proved)).toBe('done');
    expect(byOperator(mutation.proved)).toBe('done');
    expect(world.all('registration_versions')).toHaveLength(2);
    expect(byOperator(next({ registrationId: 'reg-2' }))).toBe('RECORD_MISSING workload');
  });
});
