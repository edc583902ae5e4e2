import { ADMITS_ALL } from '../../support/admits-all.js';
import { beforeEach, describe, expect, it } from 'vitest';
import { executeCommand } from '../../../src/ledger/authority/execute-command.js';
import type { Mutation, MutationKind } from '../../../src/ledger/authority/mutations.js';
import { HOUR, SECOND } from '../../../src/ledger/types.js';
import { command, done, emptyWorld, ROOT, reasonOf, serviceWorld } from '../../support/command-fixture.js';
import { FIXTURE_NOW } from '../../support/ledger-fixture.js';
import type { LedgerWorld } from '../../support/ledger-world.js';

type Of<K extends MutationKind> = Extract<Mutation, { kind: K }>;

const later = FIXTURE_NOW + HOUR;

function principal(over: Partial<Of<'put_principal'>> = {}): Mutation {
  return { kind: 'put_principal', principalId: 'paula', status: 'active', ...over };
}
function guest(over: Partial<Of<'put_guest'>> = {}): Mutation {
  return { kind: 'put_guest', guestId: 'gus', status: 'active', expiresAt: later, ...over };
}
function harness(over: Partial<Of<'put_harness'>> = {}): Mutation {
  const owner = { ownerKind: 'principal', ownerId: 'paula' } as const;
  return {
    kind: 'put_harness',
    harnessId: 'planner',
    ...owner,
    assurance: 'attested',
    status: 'active',
    ...over,
  };
}
function credential(over: Partial<Of<'create_credential'>> = {}): Mutation {
  return {
    kind: 'create_credential',
    credentialId: 'planner-1',
    harnessId: 'planner',
    spiffeId: 'spiffe://acme.test/harness/planner',
    binding: 'spiffe_id',
    certificateDigest: null,
    notBefore: undefined,
    expiresAt: later,
    ...over,
  };
}
function entitlement(over: Partial<Of<'put_entitlement'>> = {}): Mutation {
  const what = { principalId: 'paula', action: 'payment.refund', resource: '*' };
  return { kind: 'put_entitlement', entitlementId: 'ent-1', ...what, expiresAt: later, ...over };
}
function grant(over: Partial<Of<'create_grant'>> = {}): Mutation {
  return {
    kind: 'create_grant',
    grantId: 'grant-1',
    actorKind: 'principal',
    actorId: 'paula',
    harnessId: 'planner',
    actions: ['payment.refund'],
    resources: ['order-1184'],
    inputSources: ['tickets'],
    outputSinks: ['bank'],
    dataClasses: [2],
    maxUses: 3n,
    repeatable: false,
    expiresAt: later,
    ...over,
  };
}
function sink(over: Partial<Of<'put_sink'>> = {}): Mutation {
  const windows = { sendWindow: 60n * SECOND, settleTime: 60n * SECOND, ...ADMITS_ALL };
  return { kind: 'put_sink', sink: 'bank', authoritySystems: ['bank-ledger'], ...windows, ...over };
}
function operator(over: Partial<Of<'put_operator'>> = {}): Mutation {
  return {
    kind: 'put_operator',
    spiffeId: 'spiffe://acme.test/operator/anna',
    signingKeyJwk: '{}',
    signingKeyThumbprint: 'anna-key',
    roles: ['ADMIN'],
    scopeDomainId: null,
    status: 'active',
    ...over,
  };
}
function owner(over: Partial<Of<'put_owner'>> = {}): Mutation {
  return {
    kind: 'put_owner',
    spiffeId: 'spiffe://acme.test/owner/olga',
    signingKeyJwk: '{}',
    signingKeyThumbprint: 'olga-key',
    sourceScopes: ['*'],
    typeScopes: ['mail'],
    status: 'active',
    ...over,
  };
}

let world: LedgerWorld;
beforeEach(() => {
  world = emptyWorld();
  for (const mutation of [principal(), guest(), harness()]) done(world, mutation);
});

/** What a refused mutation says is wrong: the record, or the field. */
function detailOf(mutation: Mutation): string {
  const outcome = world.run(executeCommand, command(world, mutation));
  if (outcome.ok) return 'done';
  const { reason, metadata, violations } = outcome.refusal;
  return [reason, metadata?.['record'] ?? violations?.[0]?.field].filter(Boolean).join(' ');
}

describe('the domain', () => {
  it('is suspended and resumed, and each change is a revision', () => {
    expect(done(world, { kind: 'update_domain', status: 'suspended', allowStanding: true })).toBe(2n);
    expect(world.domain).toMatchObject({ status: 'suspended', allowStanding: true, revision: 2n });
    expect(done(world, { kind: 'update_domain', status: 'active', allowStanding: false })).toBe(3n);
    const header = { expectedEntityRevision: 2n };
    const stale: Mutation = { kind: 'update_domain', status: 'active', allowStanding: true };
    expect(reasonOf(world, stale, { header })).toBe('REVISION_STALE');
  });

  it('raises policy revision and revocation epoch one by one, and says so', () => {
    const policy = world.run(executeCommand, command(world, { kind: 'bump_policy_revision' }));
    expect(policy).toMatchObject({ reply: { row: { policyRevision: 2n, revocationEpoch: 1n } } });
    const epoch = world.run(executeCommand, command(world, { kind: 'bump_revocation_epoch' }));
    expect(epoch).toMatchObject({ reply: { row: { policyRevision: 2n, revocationEpoch: 2n } } });
    expect(world.domain).toMatchObject({ policyRevision: 2n, revocationEpoch: 2n, revision: 3n });
  });

  it("is frozen for the command's reason, whole or by sink", () => {
    const header = { reason: 'the bank called' };
    done(world, { kind: 'set_freeze', sink: undefined, frozen: true }, { header });
    expect(world.domain).toMatchObject({ frozen: true, freezeReason: 'the bank called' });
    done(world, { kind: 'set_freeze', sink: undefined, frozen: false });
    expect(world.domain).toMatchObject({ frozen: false, freezeReason: null });

    expect(detailOf({ kind: 'set_freeze', sink: 'bank', frozen: true })).toBe('RECORD_MISSING sink');
    done(world, sink());
    done(world, { kind: 'set_freeze', sink: 'bank', frozen: true }, { header });
    expect(world.find('sinks')).toMatchObject({
      frozen: true,
      freezeReason: 'the bank called',
      revision: 2n,
    });
    expect(world.domain.frozen).toBe(false);
  });

  it('keeps the freeze of a sink that is changed', () => {
    done(world, sink());
    done(world, { kind: 'set_freeze', sink: 'bank', frozen: true });
    done(world, sink({ authoritySystems: ['core', 'bank-ledger'] }));
    expect(world.find('sinks')).toMatchObject({
      authoritySystems: ['core', 'bank-ledger'],
      frozen: true,
      freezeReason: 'because',
      revision: 3n,
    });
  });
});

describe('principals, guests and harnesses', () => {
  it('change, and stay revoked once they are', () => {
    done(world, principal({ status: 'suspended' }));
    done(world, principal({ status: 'active' }));
    done(world, principal({ status: 'revoked' }));
    expect(world.find('principals')).toMatchObject({ status: 'revoked', revision: 4n });
    expect(detailOf(principal())).toBe('RECORD_MISSING principal');
    done(world, guest({ status: 'revoked' }));
    expect(detailOf(guest())).toBe('RECORD_MISSING guest');
    done(world, harness({ status: 'revoked' }));
    expect(detailOf(harness())).toBe('RECORD_MISSING harness');
  });

  it('a guest begins with time ahead, which may be cut later', () => {
    expect(detailOf(guest({ guestId: 'gil', expiresAt: FIXTURE_NOW }))).toBe(
      'FIELD_INVALID command_jws.put_guest.guest.expire_time',
    );
    done(world, guest({ expiresAt: FIXTURE_NOW }));
    expect(world.find('guests')).toMatchObject({ expiresAt: FIXTURE_NOW, revision: 2n });
  });

  it('a harness needs an owner in force, and keeps it with its epoch', () => {
    expect(detailOf(harness({ harnessId: 'h2', ownerId: 'paul' }))).toBe('RECORD_MISSING principal');
    expect(detailOf(harness({ harnessId: 'h2', ownerKind: 'guest', ownerId: 'gil' }))).toBe(
      'RECORD_MISSING guest',
    );
    done(world, principal({ principalId: 'pia' }));
    done(world, principal({ status: 'suspended' }));
    expect(detailOf(harness({ harnessId: 'h2' }))).toBe('RECORD_MISSING principal');
    expect(reasonOf(world, harness({ ownerId: 'pia' }))).toBe('RECORD_EXISTS');
    expect(reasonOf(world, harness({ ownerKind: 'guest', ownerId: 'gus' }))).toBe('RECORD_EXISTS');
    done(world, { kind: 'bump_credential_epoch', harnessId: 'planner' });
    done(world, harness({ assurance: 'weak', status: 'suspended' }));
    expect(world.find('harnesses')).toMatchObject({ assurance: 'weak', credentialEpoch: 2n, revision: 3n });
  });
});

describe('credentials', () => {
  it('are of the present epoch, and make the SPIFFE ID the harness', () => {
    done(world, { kind: 'bump_credential_epoch', harnessId: 'planner' });
    done(world, credential());
    expect(world.find('credentials')).toMatchObject({
      credentialEpoch: 2n,
      notBefore: FIXTURE_NOW,
      status: 'active',
      revision: 1n,
    });
    expect(world.find('callers')).toEqual({
      spiffeId: 'spiffe://acme.test/harness/planner',
      kind: 'harness',
      refId: 'planner',
    });
    const notBefore = FIXTURE_NOW + SECOND;
    done(world, credential({ credentialId: 'planner-3', notBefore }));
    expect(world.find('credentials', { credentialId: 'planner-3' })).toMatchObject({ notBefore });
    expect(reasonOf(world, credential())).toBe('RECORD_EXISTS');
    expect(reasonOf(world, credential({ credentialId: 'planner-2' }))).toBe('done');
  });

  it('need a harness, time ahead, and a SPIFFE ID that is nothing else', () => {
    expect(detailOf(credential({ harnessId: 'h2' }))).toBe('RECORD_MISSING harness');
    expect(detailOf(credential({ expiresAt: FIXTURE_NOW }))).toBe(
      'FIELD_INVALID command_jws.create_credential.credential.expire_time',
    );
    done(world, harness({ harnessId: 'h2' }));
    done(world, credential());
    expect(reasonOf(world, credential({ credentialId: 'x', harnessId: 'h2' }))).toBe('CALLER_KIND_CONFLICT');
    world.add('callers', {
      spiffeId: 'spiffe://acme.test/e',
      kind: 'executor',
      refId: 'spiffe://acme.test/e',
    });
    const taken = credential({ credentialId: 'x', spiffeId: 'spiffe://acme.test/e' });
    expect(reasonOf(world, taken)).toBe('CALLER_KIND_CONFLICT');
    done(world, harness({ harnessId: 'h2', status: 'revoked' }));
    const late = credential({ credentialId: 'x', harnessId: 'h2', spiffeId: 'spiffe://acme.test/h2' });
    expect(detailOf(late)).toBe('RECORD_MISSING harness');
  });

  it('are revoked for ever', () => {
    expect(detailOf({ kind: 'revoke_credential', credentialId: 'planner-1' })).toBe(
      'RECORD_MISSING credential',
    );
    done(world, credential());
    expect(done(world, { kind: 'revoke_credential', credentialId: 'planner-1' })).toBe(2n);
    expect(world.find('credentials')).toMatchObject({ status: 'revoked' });
    expect(done(world, { kind: 'revoke_credential', credentialId: 'planner-1' })).toBe(2n);
  });
});

describe('entitlements', () => {
  it('are one per principal, action and resource, of the present policy revision', () => {
    done(world, entitlement());
    expect(reasonOf(world, entitlement({ entitlementId: 'ent-2' }))).toBe('RECORD_EXISTS');
    expect(reasonOf(world, entitlement({ entitlementId: 'ent-2', resource: 'order-1' }))).toBe('done');
    expect(reasonOf(world, entitlement({ resource: 'order-1' }))).toBe('RECORD_EXISTS');
    expect(reasonOf(world, entitlement({ action: 'payment.charge' }))).toBe('RECORD_EXISTS');
    done(world, principal({ principalId: 'pia' }));
    expect(reasonOf(world, entitlement({ principalId: 'pia' }))).toBe('RECORD_EXISTS');
    done(world, { kind: 'bump_policy_revision' });
    expect(done(world, entitlement({ expiresAt: later + 1n }))).toBe(2n);
    expect(world.find('entitlements', { entitlementId: 'ent-1' })).toMatchObject({
      policyRevision: 2n,
      expiresAt: later + 1n,
    });
    expect(world.find('entitlements', { entitlementId: 'ent-2' })).toMatchObject({ policyRevision: 1n });
  });

  it('are revoked at once, and put in force again by the same row', () => {
    expect(detailOf({ kind: 'revoke_entitlement', entitlementId: 'ent-1' })).toBe(
      'RECORD_MISSING entitlement',
    );
    done(world, entitlement());
    expect(done(world, { kind: 'revoke_entitlement', entitlementId: 'ent-1' })).toBe(2n);
    expect(done(world, { kind: 'revoke_entitlement', entitlementId: 'ent-1' })).toBe(2n);
    expect(world.find('entitlements')).toMatchObject({ revokedAt: FIXTURE_NOW });
    expect(done(world, entitlement())).toBe(3n);
    expect(world.find('entitlements')).toMatchObject({ revokedAt: null });
  });

  it('need a principal that is not revoked, and time ahead', () => {
    expect(detailOf(entitlement({ principalId: 'paul' }))).toBe('RECORD_MISSING principal');
    expect(detailOf(entitlement({ expiresAt: FIXTURE_NOW }))).toBe(
      'FIELD_INVALID command_jws.put_entitlement.entitlement.expire_time',
    );
    done(world, principal({ status: 'revoked' }));
    expect(detailOf(entitlement())).toBe('RECORD_MISSING principal');
  });
});

describe('grants', () => {
  it('are bound to the policy revision and credential epoch at issuance', () => {
    done(world, { kind: 'bump_policy_revision' });
    done(world, { kind: 'bump_credential_epoch', harnessId: 'planner' });
    done(world, grant());
    expect(world.find('grants')).toMatchObject({
      uses: 0n,
      maxUses: 3n,
      revokedAt: null,
      policyRevision: 2n,
      credentialEpoch: 2n,
      revision: 1n,
    });
    expect(reasonOf(world, grant())).toBe('RECORD_EXISTS');
  });

  it('name a harness and the very owner that it acts for, both in force', () => {
    expect(detailOf(grant({ harnessId: 'h2' }))).toBe('RECORD_MISSING harness');
    expect(detailOf(grant({ actorId: 'paul' }))).toBe('RECORD_MISSING principal');
    expect(detailOf(grant({ actorKind: 'guest', actorId: 'paula' }))).toBe('RECORD_MISSING guest');
    expect(detailOf(grant({ expiresAt: FIXTURE_NOW }))).toBe(
      'FIELD_INVALID command_jws.create_grant.grant.expire_time',
    );
    done(world, principal({ status: 'suspended' }));
    expect(detailOf(grant())).toBe('RECORD_MISSING principal');
    done(world, harness({ status: 'suspended' }));
    expect(detailOf(grant())).toBe('RECORD_MISSING harness');
  });

  it("may be a guest's", () => {
    done(world, harness({ harnessId: 'visitor', ownerKind: 'guest', ownerId: 'gus' }));
    done(world, grant({ harnessId: 'visitor', actorKind: 'guest', actorId: 'gus' }));
    expect(world.find('grants')).toMatchObject({ actorKind: 'guest', actorId: 'gus' });
  });

  it('are revoked for ever, with the uses that they had', () => {
    expect(detailOf({ kind: 'revoke_grant', grantId: 'grant-1' })).toBe('RECORD_MISSING grant');
    done(world, grant());
    expect(done(world, { kind: 'revoke_grant', grantId: 'grant-1' })).toBe(2n);
    world.now += SECOND;
    expect(done(world, { kind: 'revoke_grant', grantId: 'grant-1' })).toBe(2n);
    expect(world.find('grants')).toMatchObject({ revokedAt: FIXTURE_NOW, maxUses: 3n });
  });
});

describe('operators and owners', () => {
  it('an operator whose only role is AUDITOR is an auditor, and may become the other', () => {
    done(world, operator({ roles: ['AUDITOR'], signingKeyJwk: null, signingKeyThumbprint: null }));
    expect(world.find('callers')).toMatchObject({ kind: 'auditor' });
    done(world, operator({ roles: ['AUDITOR', 'FREEZER'] }));
    expect(world.find('callers')).toMatchObject({ kind: 'operator' });
    expect(world.find('operators')).toMatchObject({ signingKeyThumbprint: 'anna-key', revision: 2n });
  });

  it('has no scope but the domain itself, outside of the service', () => {
    expect(detailOf(operator({ scopeDomainId: 'globex.test' }))).toBe(
      'FIELD_INVALID command_jws.put_operator.operator.scope_domain_id',
    );
    expect(detailOf(operator({ scopeDomainId: 'acme.test' }))).toBe('done');
    expect(reasonOf(serviceWorld(), operator({ scopeDomainId: 'globex.test' }))).toBe('done');
  });

  it('an owner is entered with its key and scopes', () => {
    done(world, owner());
    expect(world.find('owners')).toMatchObject({ sourceScopes: ['*'], typeScopes: ['mail'], revision: 1n });
    expect(world.find('callers')).toMatchObject({ kind: 'owner', refId: 'spiffe://acme.test/owner/olga' });
  });

  it('nobody is two things at once', () => {
    done(world, owner());
    expect(reasonOf(world, operator({ spiffeId: 'spiffe://acme.test/owner/olga' }))).toBe(
      'CALLER_KIND_CONFLICT',
    );
    done(world, operator());
    expect(reasonOf(world, owner({ spiffeId: 'spiffe://acme.test/operator/anna' }))).toBe(
      'CALLER_KIND_CONFLICT',
    );
  });

  it('stay revoked once they are', () => {
    done(world, operator({ status: 'revoked' }));
    expect(detailOf(operator())).toBe('RECORD_MISSING operator');
    done(world, owner({ status: 'revoked' }));
    expect(detailOf(owner())).toBe('RECORD_MISSING owner');
  });
});

describe('every mutation', () => {
  it('compares the revision that it rests on', () => {
    for (const mutation of [sink(), credential(), entitlement(), grant(), operator(), owner()])
      done(world, mutation);
    const changes: Mutation[] = [
      { kind: 'update_domain', status: 'active', allowStanding: false },
      { kind: 'bump_policy_revision' },
      { kind: 'bump_revocation_epoch' },
      { kind: 'set_freeze', sink: undefined, frozen: true },
      { kind: 'set_freeze', sink: 'bank', frozen: true },
      { kind: 'bump_credential_epoch', harnessId: 'planner' },
      { kind: 'revoke_credential', credentialId: 'planner-1' },
      { kind: 'revoke_entitlement', entitlementId: 'ent-1' },
      { kind: 'revoke_grant', grantId: 'grant-1' },
      ...[sink(), principal(), guest(), harness(), entitlement(), operator(), owner()],
      ...[grant({ grantId: 'grant-2' }), credential({ credentialId: 'planner-2' })],
    ];
    const made = new Set(changes.slice(-2));
    for (const mutation of changes) {
      // 0 stands for no record: right for those that make one, stale for all others.
      for (const expectedEntityRevision of made.has(mutation) ? [77n] : [77n, 0n]) {
        expect(`${mutation.kind} ${reasonOf(world, mutation, { header: { expectedEntityRevision } })}`).toBe(
          `${mutation.kind} REVISION_STALE`,
        );
      }
    }
    expect(world.log).toHaveLength(18);
    expect(world.find('callers', { spiffeId: ROOT })).toBeUndefined();
  });
});
