import { describe, expect, it } from 'vitest';
import { executeCommand } from '../../../src/ledger/authority/execute-command.js';
import type { Mutation, MutationKind } from '../../../src/ledger/authority/mutations.js';
import type { OperatorRow } from '../../../src/ledger/authority/records.js';
import { sha256 } from '../../../src/ledger/encoding.js';
import { type OperatorRole, SECOND } from '../../../src/ledger/types.js';
import {
  type CommandOver,
  command,
  done,
  emptyWorld,
  operatorRow,
  ROOT,
  reasonOf,
  serviceWorld,
} from '../../support/command-fixture.js';
import { FIXTURE_NOW } from '../../support/ledger-fixture.js';
import type { LedgerWorld } from '../../support/ledger-world.js';

const paula: Mutation = { kind: 'put_principal', principalId: 'paula', status: 'active' };
const local = 'spiffe://acme.test/operator/anna';

function ruleOf(world: LedgerWorld, over: CommandOver): string {
  const outcome = world.run(executeCommand, command(world, paula, over));
  return outcome.ok ? 'done' : `${outcome.refusal.reason} ${outcome.refusal.metadata?.['rule'] ?? ''}`;
}

/** A world in which the signer is an operator of the domain itself. */
function localWorld(over: Partial<OperatorRow> = {}): LedgerWorld {
  return emptyWorld().add(
    'operators',
    operatorRow({ spiffeId: local, signingKeyThumbprint: 'anna-key', ...over }),
  );
}
const asAnna: CommandOver = {
  caller: { spiffeId: local, trustDomain: 'acme.test' },
  keyThumbprint: 'anna-key',
};

describe('authority.md, Signed commands', () => {
  it('does the mutation, keeps the command, and logs intent and completion', () => {
    const world = emptyWorld();
    const signed = command(world, paula);
    const outcome = world.run(executeCommand, signed);
    expect(outcome).toMatchObject({ ok: true, reply: { duplicate: false } });
    expect(world.find('principals')).toEqual({ principalId: 'paula', status: 'active', revision: 1n });
    expect(world.find('admin_commands')).toEqual({
      adminCommandId: signed.header.adminCommandId,
      payloadDigest: signed.payloadDigest,
      signerSpiffeId: ROOT,
      executedAt: FIXTURE_NOW,
      auditSeq: 2n,
      entityRevision: 1n,
      policyRevision: 1n,
      revocationEpoch: 1n,
      jws: signed.jws,
    });
    const digest = signed.payloadDigest.toString('hex');
    const by = { actorSpiffeId: ROOT, commandId: signed.commandId };
    const common = { domainId: world.domainId, incarnation: '1', time: FIXTURE_NOW.toString(), ...by };
    expect(world.log).toEqual([
      {
        ...common,
        seq: '1',
        kind: 'command_intent',
        command: {
          adminCommandId: signed.header.adminCommandId,
          operation: 'put_principal',
          payloadDigest: digest,
          expectedPolicyRevision: '1',
          expectedEntityRevision: '0',
          keyThumbprint: 'root-key',
        },
      },
      {
        ...common,
        seq: '2',
        kind: 'command',
        record: { type: 'principal', id: 'paula', revision: '1', operation: 'put_principal', digest },
        intentSeq: '1',
      },
    ]);
  });

  it('answers an exact repeat with the first result, also past its expiry and beside other changes', () => {
    const world = emptyWorld();
    const signed = command(world, paula);
    const first = world.run(executeCommand, signed);
    done(world, { kind: 'put_principal', principalId: 'paula', status: 'suspended' });
    world.now += 3600n * SECOND;
    const again = world.run(executeCommand, {
      ...signed,
      caller: { ...signed.caller, notAfter: world.now + 1n },
    });
    expect(again).toMatchObject({ ok: true, reply: { duplicate: true } });
    expect(again.ok && again.reply.row).toEqual(first.ok && first.reply.row);
    expect(world.log).toHaveLength(4);
    expect(world.find('principals')).toMatchObject({ status: 'suspended' });
  });

  it('answers an exact repeat also where the key is another by now, if its signer is an operator still', () => {
    const world = localWorld();
    const signed = command(world, paula, asAnna);
    expect(world.run(executeCommand, signed)).toMatchObject({ ok: true, reply: { duplicate: false } });
    const put = (over: Partial<OperatorRow>) =>
      done(world, { kind: 'put_operator', ...operatorRow({ spiffeId: local }), ...over });
    put({ signingKeyThumbprint: 'new-key' });
    const before = world.log.length;
    expect(world.run(executeCommand, signed)).toMatchObject({ ok: true, reply: { duplicate: true } });
    expect(world.log).toHaveLength(before);
    const word = (over: CommandOver & { payload?: string }) => {
      const { adminCommandId } = signed.header;
      return ruleOf(world, { ...asAnna, ...over, header: { ...over.header, adminCommandId } });
    };
    expect(word({ payload: 'other' })).toBe('COMMAND_SIGNATURE_INVALID key');
    const same = { payload: signed.jws.toString() };
    expect(word(same)).toBe('done');
    expect(word({ ...same, header: { incarnation: 2n } })).toBe('COMMAND_SIGNATURE_INVALID key');
    expect(word({ ...same, caller: { spiffeId: 'spiffe://acme.test/operator/bert' } })).toBe(
      'COMMAND_SIGNATURE_INVALID signer',
    );
    put({ signingKeyThumbprint: 'new-key', status: 'suspended' });
    expect(word(same)).toBe('COMMAND_SIGNATURE_INVALID signer');
  });

  it('refuses the same id with another payload', () => {
    const world = emptyWorld();
    const header = { adminCommandId: 'command-x' };
    expect(reasonOf(world, paula, { header })).toBe('done');
    expect(reasonOf(world, paula, { header, payload: 'other' })).toBe('COMMAND_REPLAYED');
  });

  it('leaves a refused command without identity: its repetition is decided anew', () => {
    const world = emptyWorld();
    const bump: Mutation = { kind: 'bump_credential_epoch', harnessId: 'planner' };
    const signed = command(world, bump, { header: { expectedEntityRevision: 1n } });
    expect(world.run(executeCommand, signed)).toMatchObject({ refusal: { reason: 'RECORD_MISSING' } });
    expect(world.log).toEqual([]);
    done(world, paula);
    done(world, {
      kind: 'put_harness',
      harnessId: 'planner',
      ownerKind: 'principal',
      ownerId: 'paula',
      assurance: 'attested',
      status: 'active',
    });
    expect(world.run(executeCommand, signed)).toMatchObject({ ok: true, reply: { duplicate: false } });
  });

  it.each<readonly [string, CommandOver]>([
    ['COMMAND_SIGNATURE_INVALID audience', { header: { audience: 'spiffe://other.test/surety' } }],
    ['COMMAND_SIGNATURE_INVALID incarnation', { header: { incarnation: 2n } }],
    ['COMMAND_SIGNATURE_INVALID domain_id', { header: { domainId: 'globex.test' } }],
    ['COMMAND_SIGNATURE_INVALID key', { keyThumbprint: 'old-key' }],
    ['COMMAND_SIGNATURE_INVALID signer', { caller: { spiffeId: local } }],
    ['CALLER_UNKNOWN ', { caller: { notAfter: FIXTURE_NOW } }],
  ])('refuses with %s', (refused, over) => {
    const world = emptyWorld();
    expect(ruleOf(world, over)).toBe(refused);
    expect(world.log).toEqual([]);
  });

  it('takes a command from 60 s before its issue to its expiry, of at most 300 s', () => {
    const at = (issued: bigint, validity: bigint) =>
      reasonOf(emptyWorld(), paula, {
        header: { issuedAt: FIXTURE_NOW + issued, expiresAt: FIXTURE_NOW + issued + validity },
      });
    expect(at(60n * SECOND, 300n * SECOND)).toBe('done');
    expect(at(60n * SECOND + 1n, 300n * SECOND)).toBe('COMMAND_EXPIRED');
    expect(at(-299n * SECOND, 300n * SECOND)).toBe('done');
    expect(at(-300n * SECOND, 300n * SECOND)).toBe('COMMAND_EXPIRED');
    expect(at(0n, 300n * SECOND + 1n)).toBe('COMMAND_EXPIRED');
    expect(at(0n, -SECOND)).toBe('COMMAND_EXPIRED');
  });

  it('compares both revisions that it rests on; a record that is to be made rests on 0', () => {
    const world = emptyWorld();
    expect(reasonOf(world, paula, { header: { expectedPolicyRevision: 2n } })).toBe('REVISION_STALE');
    expect(reasonOf(world, paula, { header: { expectedPolicyRevision: 0n } })).toBe('REVISION_STALE');
    expect(reasonOf(world, paula, { header: { expectedEntityRevision: 1n } })).toBe('REVISION_STALE');
    expect(reasonOf(world, paula, { header: { expectedEntityRevision: 0n } })).toBe('done');
    expect(reasonOf(world, paula, { header: { expectedEntityRevision: 0n } })).toBe('REVISION_STALE');
    expect(reasonOf(world, paula, { header: { expectedEntityRevision: 1n } })).toBe('done');
    const stale = command(world, paula, { header: { expectedEntityRevision: 1n } });
    expect(world.run(executeCommand, stale)).toMatchObject({
      refusal: { reason: 'REVISION_STALE', metadata: { current: '2' } },
    });
  });
});

describe('who may administer (authority.md, Bootstrap)', () => {
  it('a domain operator, in its own domain', () => {
    expect(reasonOf(localWorld(), paula, asAnna)).toBe('done');
  });

  it.each<readonly [string, Partial<OperatorRow>]>([
    ['COMMAND_SIGNATURE_INVALID', { status: 'suspended' }],
    ['COMMAND_SIGNATURE_INVALID', { status: 'revoked' }],
    ['COMMAND_SIGNATURE_INVALID', { signingKeyThumbprint: null, roles: ['AUDITOR'] }],
    ['ROLE_MISSING', { roles: ['AUDITOR'] }],
    ['ROLE_MISSING', { scopeDomainId: 'globex.test' }],
    ['done', { scopeDomainId: 'acme.test' }],
    ['done', { roles: ['AUDITOR', 'ADMIN'] }],
  ])('is answered %s for a row like %j', (reason, over) => {
    expect(reasonOf(localWorld(over), paula, asAnna)).toBe(reason);
  });

  it('a platform operator in every domain, or in the one that its row names', () => {
    const world = emptyWorld();
    world.platformOperators.set(ROOT, operatorRow({ scopeDomainId: 'acme.test' }));
    expect(reasonOf(world, paula)).toBe('done');
    world.platformOperators.set(ROOT, operatorRow({ scopeDomainId: 'globex.test' }));
    expect(reasonOf(world, paula)).toBe('ROLE_MISSING');
    world.platformOperators.set(ROOT, operatorRow({ status: 'suspended' }));
    expect(reasonOf(world, paula)).toBe('COMMAND_SIGNATURE_INVALID');
  });

  it('takes what either row lets it do, and the key of the row that it takes', () => {
    const world = localWorld({ spiffeId: ROOT, roles: ['FREEZER'] });
    const freeze: Mutation = { kind: 'set_freeze', sink: undefined, frozen: true };
    world.platformOperators.set(ROOT, operatorRow({ roles: ['AUDITOR'] }));
    expect(reasonOf(world, freeze, { keyThumbprint: 'anna-key' })).toBe('done');
    expect(reasonOf(world, freeze)).toBe('ROLE_MISSING');
    expect(reasonOf(world, paula, { keyThumbprint: 'anna-key' })).toBe('ROLE_MISSING');
  });

  it('from above only by a row of the service that itself has a role for it', () => {
    // An administrator of this domain who may only freeze in all of them, both with one key.
    const world = localWorld();
    const above = (roles: readonly OperatorRole[]) =>
      world.platformOperators.set(
        local,
        operatorRow({ spiffeId: local, signingKeyThumbprint: 'anna-key', roles }),
      );
    const share: Mutation = { kind: 'set_share', requestsPerMinute: 1_000 };
    const resume: Mutation = { kind: 'update_domain', status: 'active', allowStanding: false };
    const freeze: Mutation = { kind: 'set_freeze', sink: undefined, frozen: true };
    above(['FREEZER']);
    expect(reasonOf(world, paula, asAnna)).toBe('done');
    expect(reasonOf(world, share, asAnna)).toBe('ROLE_MISSING');
    world.domain = { ...world.domain, status: 'suspended' };
    expect(reasonOf(world, resume, asAnna)).toBe('DOMAIN_INACTIVE');
    expect(reasonOf(world, freeze, asAnna)).toBe('done');
    above(['FREEZER', 'ADMIN']);
    expect(reasonOf(world, share, asAnna)).toBe('done');
    expect(reasonOf(world, resume, asAnna)).toBe('done');
  });

  it('only from above where the domain is suspended', () => {
    const world = localWorld();
    world.domain = { ...world.domain, status: 'suspended' };
    expect(reasonOf(world, paula, asAnna)).toBe('DOMAIN_INACTIVE');
    const resume: Mutation = { kind: 'update_domain', status: 'active', allowStanding: false };
    expect(reasonOf(world, resume, asAnna)).toBe('DOMAIN_INACTIVE');
    // A row in the service's own domain that does not cover this one, or is of another key, lifts nobody up.
    const elsewhere = operatorRow({
      spiffeId: local,
      signingKeyThumbprint: 'anna-key',
      scopeDomainId: 'globex.test',
    });
    world.platformOperators.set(local, elsewhere);
    expect(reasonOf(world, resume, asAnna)).toBe('DOMAIN_INACTIVE');
    world.platformOperators.set(local, operatorRow({ spiffeId: local }));
    expect(reasonOf(world, resume, asAnna)).toBe('DOMAIN_INACTIVE');
    world.platformOperators.set(local, operatorRow({ spiffeId: local, signingKeyThumbprint: 'anna-key' }));
    expect(reasonOf(world, paula, asAnna)).toBe('done');
    world.platformOperators.delete(local);
    expect(reasonOf(world, resume)).toBe('done');
    expect(reasonOf(world, paula, asAnna)).toBe('done');
  });

  it('gives the automation its workloads and the freezer its freeze, and no more', () => {
    const may = (role: OperatorRole, mutation: Mutation) =>
      reasonOf(localWorld({ roles: [role] }), mutation, asAnna) !== 'ROLE_MISSING';
    const all: Record<MutationKind, readonly OperatorRole[]> = {
      create_domain: [],
      update_domain: ['ADMIN'],
      put_sink: ['ADMIN'],
      bump_policy_revision: ['ADMIN'],
      bump_revocation_epoch: ['ADMIN'],
      set_freeze: ['ADMIN', 'FREEZER'],
      set_limits: ['ADMIN'],
      set_share: [],
      set_service_limit: [],
      reset_breaker: ['ADMIN'],
      put_principal: ['ADMIN'],
      put_guest: ['ADMIN'],
      put_harness: ['ADMIN'],
      bump_credential_epoch: ['ADMIN'],
      create_credential: ['ADMIN'],
      revoke_credential: ['ADMIN'],
      put_entitlement: ['ADMIN'],
      revoke_entitlement: ['ADMIN'],
      create_grant: ['ADMIN'],
      revoke_grant: ['ADMIN'],
      put_operator: ['ADMIN'],
      put_owner: ['ADMIN'],
      register_workload: ['ADMIN', 'REGISTRAR'],
      renew_workload: ['ADMIN', 'REGISTRAR'],
      revoke_workload: ['ADMIN', 'REGISTRAR'],
      put_gate_shape: ['ADMIN'],
      put_action_condition: ['ADMIN'],
      put_tool: ['ADMIN'],
    };
    for (const [kind, roles] of Object.entries(all)) {
      for (const role of ['ADMIN', 'REGISTRAR', 'FREEZER', 'AUDITOR'] as const) {
        const mutation = anyMutation(kind as MutationKind);
        expect(`${kind} ${role} ${may(role, mutation)}`).toBe(`${kind} ${role} ${roles.includes(role)}`);
      }
    }
  });
});

describe('the service, in its own domain', () => {
  const globex: Mutation = {
    kind: 'create_domain',
    newDomainId: 'globex.test',
    allowStanding: true,
    requestsPerMinute: 60_000,
  };

  it('makes domains, once each', () => {
    const world = serviceWorld();
    expect(reasonOf(world, globex)).toBe('done');
    expect([...world.otherDomains]).toEqual(['globex.test']);
    expect(world.log.map((entry) => [entry.kind, entry.record?.id])).toEqual([
      ['command_intent', undefined],
      ['domain_created', 'globex.test'],
      ['command', 'globex.test'],
    ]);
    expect(reasonOf(world, globex)).toBe('RECORD_EXISTS');
    expect(reasonOf(world, { ...globex, newDomainId: world.domainId })).toBe('RECORD_EXISTS');
    const other: Mutation = { ...globex, newDomainId: 'initech.test' };
    expect(reasonOf(world, other, { header: { expectedEntityRevision: 1n } })).toBe('REVISION_STALE');
  });

  it('makes them nowhere else, and not for one whose scope is a domain', () => {
    expect(reasonOf(emptyWorld(), globex)).toBe('ROLE_MISSING');
    const world = serviceWorld();
    world.add('operators', operatorRow({ scopeDomainId: world.domainId }));
    expect(reasonOf(world, globex)).toBe('ROLE_MISSING');
  });

  it('lets nobody whose scope is a domain give himself the others', () => {
    const world = serviceWorld();
    world.add('operators', operatorRow({ scopeDomainId: world.domainId }));
    expect(reasonOf(world, operatorMutation({ spiffeId: ROOT }))).toBe('ROLE_MISSING');
    expect(reasonOf(serviceWorld(), operatorMutation({ scopeDomainId: 'acme.test' }))).toBe('done');
  });
});

function operatorMutation(over: Partial<Extract<Mutation, { kind: 'put_operator' }>> = {}): Mutation {
  return {
    kind: 'put_operator',
    spiffeId: local,
    signingKeyJwk: '{}',
    signingKeyThumbprint: 'anna-key',
    roles: ['ADMIN'],
    scopeDomainId: null,
    status: 'active',
    ...over,
  };
}

/** Some mutation of a kind; nothing but its kind matters. */
function anyMutation(kind: MutationKind): Mutation {
  const proved = {
    ...{
      registrationId: 'reg',
      proofKeyThumbprint: 'key',
      recipientScope: '*',
      parentEventId: null,
      grantId: null,
    },
    ...{ sinks: [], spiffeId: 'spiffe://acme.test/executor/a', possessionDigest: sha256('x') },
  };
  const ids = {
    principalId: 'p',
    guestId: 'g',
    harnessId: 'h',
    credentialId: 'c',
    entitlementId: 'e',
    grantId: 'g',
  };
  const rest = { sink: 's', registrationId: 'r', spiffeId: 'spiffe://acme.test/x', newDomainId: 'n.test' };
  const gates = { gateShapeId: 's', fields: [], actionType: 't', toolName: 't' };
  return {
    ...{
      kind,
      ...ids,
      ...rest,
      ...gates,
      proved,
      action: 'a',
      resource: 'r',
      roles: ['ADMIN'],
      ownerKind: 'principal',
    },
    ...{
      ownerId: 'p',
      actorKind: 'principal',
      actorId: 'p',
      status: 'active',
      expiresAt: 0n,
      scopeDomainId: null,
    },
  } as unknown as Mutation;
}
