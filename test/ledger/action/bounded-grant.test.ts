import { beforeEach, describe, expect, it } from 'vitest';
import { addBoundedGrant } from '../../../src/ledger/action/add-bounded-grant.js';
import { beginDispatch } from '../../../src/ledger/action/begin-dispatch.js';
import { gateAction } from '../../../src/ledger/action/gate-action.js';
import type { ActionRow } from '../../../src/ledger/action/records.js';
import { revokeBoundedGrant } from '../../../src/ledger/action/revoke-bounded-grant.js';
import { sha256 } from '../../../src/ledger/encoding.js';
import { DAY, HOUR, MINUTE, SECOND } from '../../../src/ledger/types.js';
import { ActionWorld, callerOf, HARNESS, OWNER, OWNER_KEY, WORKER } from './action-world.js';

let world: ActionWorld;
beforeEach(() => {
  world = new ActionWorld();
});

/** An action that is gated under the grant by the worker, and leased. */
function held(grantId: string, over: object = {}, evidence: object = {}): ActionRow {
  const action = world.proposed(over);
  const by = { caller: WORKER, kind: 'worker', signature: null } as const;
  world.done(gateAction, world.gate(action, by, world.underGrant(grantId, evidence)));
  return world.leased(action);
}

const dispatch = (action: ActionRow) => world.refused(beginDispatch, world.dispatch(action));

describe('a bounded grant', () => {
  it('is stored once, for its id', () => {
    const add = world.grant();
    const { grant } = world.done(addBoundedGrant, add);
    expect(world.done(addBoundedGrant, { ...add, ...world.base() })).toEqual({ grant, duplicate: true });
    expect(world.refused(addBoundedGrant, { ...add, statementDigest: sha256('another') })).toBe(
      'BOUNDED_GRANT_CONFLICT',
    );
  });

  it.each([
    ['signer', { ownerSpiffeId: HARNESS.spiffeId }],
    ['audience', { audience: 'spiffe://other.test/surety' }],
    ['incarnation', { incarnation: 2n }],
    ['domain_id', { domainId: 'globex.test' }],
  ])('is signed by the calling owner for this place: %s', (rule, over) => {
    expect(world.refused(addBoundedGrant, world.grant(over))).toBe(`APPROVAL_SIGNATURE_INVALID ${rule}`);
  });

  it('is signed a day ago at most, by the registered key, and ends later', () => {
    const refused = (over: object) => world.refused(addBoundedGrant, world.grant(over));
    const stale = 'APPROVAL_SIGNATURE_INVALID issued_time';
    expect(refused({ issuedAt: world.now - DAY - 1n })).toBe(stale);
    expect(refused({ issuedAt: world.now + MINUTE + 1n })).toBe(stale);
    expect(refused({ issuedAt: world.now - DAY })).toBe('done');
    expect(refused({ expiresAt: world.now })).toBe('FIELD_INVALID grant_jws.expire_time');
    expect(world.refused(addBoundedGrant, { ...world.grant(), keyThumbprint: 'another' })).toBe(
      'OWNER_NOT_CURRENT key',
    );
  });

  it("is within its owner's scopes", () => {
    const owner = world.store.get('owners', OWNER.spiffeId);
    if (!owner) throw new Error('no owner');
    world.store.put('owners', { ...owner, sourceScopes: ['inbox'], typeScopes: ['mail.send'] });
    const refused = (over: object) => world.refused(addBoundedGrant, world.grant(over));
    expect(refused({ sources: ['inbox', 'crm'] })).toBe('OWNER_SCOPE_MISSING source');
    expect(refused({ types: ['mail.send', 'mail.draft'] })).toBe('OWNER_SCOPE_MISSING type');
    expect(refused({})).toBe('done');
  });

  it('is used up, dispatch by dispatch', () => {
    const grantId = world.added({ maxUses: 2n });
    const actions = [held(grantId), held(grantId), held(grantId)] as const;
    expect(actions.map(dispatch)).toEqual(['done', 'done', 'BOUNDED_GRANT_NOT_USABLE exhausted']);
    expect(world.store.get('bounded_grants', grantId)?.uses).toBe(2n);
    expect(world.store.all('bounded_grant_uses').map(({ actionId }) => actionId)).toEqual(
      actions.slice(0, 2).map(({ actionId }) => actionId),
    );
  });

  it('never gives more uses than it has to one batch', () => {
    const grantId = world.added({ maxUses: 1n });
    const commands = [held(grantId), held(grantId)].map((action) => world.dispatch(action));
    expect(world.runTogether(beginDispatch, commands).map(({ ok }) => ok)).toEqual([true, false]);
  });

  it('ends by revocation, for ever, by its own owner', () => {
    const grantId = world.added();
    const action = held(grantId);
    const revoke = { ...world.base(), caller: OWNER, kind: 'owner' as const, boundedGrantId: grantId };
    const other = callerOf('owner/otto');
    const owner = world.store.get('owners', OWNER.spiffeId);
    if (owner) world.store.put('owners', { ...owner, spiffeId: other.spiffeId });
    expect(world.refused(revokeBoundedGrant, { ...revoke, caller: other })).toBe('NOT_VISIBLE');
    expect(world.refused(revokeBoundedGrant, { ...revoke, boundedGrantId: 'absent' })).toBe('NOT_VISIBLE');
    expect(world.done(revokeBoundedGrant, revoke).duplicate).toBe(false);
    expect(world.done(revokeBoundedGrant, revoke).duplicate).toBe(true);
    expect(dispatch(action)).toBe('BOUNDED_GRANT_NOT_USABLE revoked');
  });
});

describe('at the dispatch', () => {
  it('its own expiry counts, while the gate is alive', () => {
    const grantId = world.added({ expiresAt: world.now + 30n * SECOND });
    const action = held(grantId);
    world.advance(30n * SECOND);
    expect(dispatch(action)).toBe('APPROVAL_EXPIRED grant_expires_at');
  });

  it('what was signed before a restore allows nothing: its uses since the backup are forgotten', () => {
    const grantId = world.added();
    const action = held(grantId);
    const grant = world.store.get('bounded_grants', grantId);
    if (!grant) throw new Error('no grant');
    world.store.put('bounded_grants', { ...grant, incarnation: grant.incarnation - 1n });
    expect(dispatch(action)).toBe('BOUNDED_GRANT_NOT_USABLE incarnation');
    expect(world.store.get('bounded_grants', grantId)?.uses).toBe(0n);
    world.store.put('bounded_grants', grant);
    expect(dispatch(action)).toBe('done');
  });

  it('the evidence names the very expiry of the grant', () => {
    const grantId = world.added();
    const later = Number(world.now + 3n * HOUR);
    expect(dispatch(held(grantId, {}, { grant_expires_at: later }))).toBe('BOUNDED_GRANT_NOT_USABLE expiry');
    expect(dispatch(held(grantId, {}, { grant_expires_at: 'unlimited' }))).toBe(
      'BOUNDED_GRANT_NOT_USABLE expiry',
    );
    expect(dispatch(held(world.added({ expiresAt: null })))).toBe('done');
  });

  it('the source, the type and the tool are in it', () => {
    const grantId = world.added();
    expect(dispatch(held(grantId, { source: 'crm' }))).toBe('BOUNDED_GRANT_NOT_USABLE source');
    expect(dispatch(held(grantId, { type: 'mail.draft' }))).toBe('BOUNDED_GRANT_NOT_USABLE type');
    const tool = { toolName: 'shredder', payload: Buffer.from('{"tool_name":"shredder"}') };
    expect(dispatch(held(grantId, tool))).toBe('BOUNDED_GRANT_NOT_USABLE tool');
    expect(dispatch(held(world.added({ tools: ['shredder'] }), tool))).toBe(
      'BOUNDED_GRANT_NOT_USABLE tool_unknown',
    );
  });

  it('a tool that the catalogue marks, or has turned off, is covered by none', () => {
    const grantId = world.added();
    const tool = { toolName: 'mailer', revision: 2n } as const;
    world.store.put('tools', { ...tool, nonGrantable: true, status: 'active' });
    expect(dispatch(held(grantId))).toBe('BOUNDED_GRANT_NOT_USABLE non_grantable');
    world.store.put('tools', { ...tool, nonGrantable: false, status: 'suspended' });
    expect(dispatch(held(grantId))).toBe('BOUNDED_GRANT_NOT_USABLE tool_unknown');
    world.store.put('tools', { ...tool, nonGrantable: false, status: 'active' });
    expect(dispatch(held(grantId))).toBe('done');
    // An approval one by one needs no catalogue.
    world.store.put('tools', { ...tool, nonGrantable: true, status: 'active' });
    expect(dispatch(world.heldForDispatch())).toBe('done');
  });

  it('its owner is one still, with the key that signed it', () => {
    const grantId = world.added();
    const action = held(grantId);
    const owner = world.store.get('owners', OWNER.spiffeId);
    if (!owner) throw new Error('no owner');
    world.store.put('owners', { ...owner, signingKeyThumbprint: 'another' });
    expect(dispatch(action)).toBe('OWNER_NOT_CURRENT key');
    world.store.put('owners', { ...owner, status: 'suspended' });
    expect(dispatch(action)).toBe('OWNER_NOT_CURRENT owner');
    const gate = world.gate(world.proposed(), { signature: null }, world.underGrant(grantId));
    expect(world.refused(gateAction, { ...gate, caller: WORKER, kind: 'worker' })).toBe(
      'OWNER_NOT_CURRENT owner',
    );
  });

  it('its owner is somebody else than proposer and leaseholder', () => {
    const grantId = world.added();
    const shared = world.proposed({ caller: { ...HARNESS, keyThumbprint: OWNER.keyThumbprint } });
    const gate = world.gate(shared, { signature: null }, world.underGrant(grantId));
    expect(world.refused(gateAction, gate)).toBe('APPROVER_NOT_INDEPENDENT proposer key');
    world.seedWorker(WORKER, { proofKeyThumbprint: OWNER_KEY });
    expect(dispatch(held(grantId))).toBe('APPROVER_NOT_INDEPENDENT leaseholder key');
  });
});

describe('a gate under it', () => {
  it('is attached by a worker, by the harness that proposed, or by an owner, and never signed', () => {
    const grantId = world.added();
    const gate = () => world.gate(world.proposed(), {}, world.underGrant(grantId));
    const nobody = callerOf('harness/other');
    world.store.put('callers', { spiffeId: nobody.spiffeId, kind: 'harness', refId: 'planner' });
    const credential = world.store.get('credentials', 'planner-1');
    if (!credential) throw new Error('no credential');
    world.store.put('credentials', { ...credential, credentialId: 'other-1', spiffeId: nobody.spiffeId });
    const refused = (by: object) => world.refused(gateAction, { ...gate(), signature: null, ...by });
    expect(refused({ caller: WORKER, kind: 'worker' })).toBe('done');
    expect(refused({ caller: HARNESS, kind: 'harness' })).toBe('done');
    expect(refused({})).toBe('done');
    expect(refused({ caller: nobody, kind: 'harness' })).toBe('NOT_VISIBLE');
    expect(world.refused(gateAction, gate())).toBe('FIELD_INVALID signature_jws');
  });

  it('needs the grant to be there, and the exact fields', () => {
    const grantId = world.added();
    const refused = (evidence: object) => {
      const by = { caller: WORKER, kind: 'worker', signature: null } as const;
      return world.refused(gateAction, world.gate(world.proposed(), by, evidence));
    };
    expect(refused(world.underGrant('absent'))).toBe('BOUNDED_GRANT_NOT_USABLE missing');
    expect(refused(world.underGrant(grantId, { extra: 'x' }))).toBe('OWNER_REQUIRED');
    expect(refused(world.underGrant(grantId, { source_request: undefined }))).toBe('OWNER_REQUIRED');
    expect(refused(world.underGrant(grantId, { binding_method: 'reply' }))).toBe('OWNER_REQUIRED');
  });
});
