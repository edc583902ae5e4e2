import { beforeEach, describe, expect, it } from 'vitest';
import { expireProposal } from '../../../src/ledger/action/expire-proposal.js';
import { gateAction } from '../../../src/ledger/action/gate-action.js';
import { proposeAction } from '../../../src/ledger/action/propose-action.js';
import { rejectAction } from '../../../src/ledger/action/reject-action.js';
import { MINUTE, SECOND } from '../../../src/ledger/types.js';
import { ActionWorld, callerOf, DELIVERY, HARNESS, OWNER, OWNER_KEY, WORKER } from './action-world.js';

let world: ActionWorld;
beforeEach(() => {
  world = new ActionWorld();
});

describe('a proposal', () => {
  it('is one action for its key', () => {
    const propose = world.propose({ proposalTtl: MINUTE });
    const { action } = world.done(proposeAction, propose);
    const again = { ...propose, ...world.base(), actionId: world.newId('act') };
    expect(world.done(proposeAction, again)).toEqual({ action, duplicate: true });
    for (const [field, over] of [
      ['source', { source: 'x' }],
      ['source_ref', { sourceRef: 'x' }],
      ['type', { type: 'x' }],
      ['payload', { payload: Buffer.from('{ "tool_name":"mailer"}') }],
      ['proposal_ttl', { proposalTtl: null }],
      ['proposer', { caller: WORKER, kind: 'worker' }],
    ] as const) {
      const other = { ...again, ...over };
      expect(world.refused(proposeAction, other)).toBe(`ACTION_IDEMPOTENCY_CONFLICT ${field}`);
    }
    const shredder = { toolName: 'shredder', payload: Buffer.from('{"tool_name":"shredder"}') };
    expect(world.refused(proposeAction, { ...again, ...shredder })).toBe(
      'ACTION_IDEMPOTENCY_CONFLICT tool_name',
    );
  });

  it.each([
    ['no JSON', 'x'],
    ['no object', '["tool_name"]'],
    ['no tool', '{"to":"a@b.c"}'],
    ['another tool', '{"tool_name":"shredder"}'],
    ['two tools', '{"tool_name":"mailer","tool_name":"shredder"}'],
    ['too much', `{"tool_name":"mailer","x":"${'x'.repeat(65_536)}"}`],
    ['nothing', ''],
  ])('has a payload that every parser reads alike, with its tool: %s', (_, payload) => {
    const propose = world.propose({ payload: Buffer.from(payload) });
    expect(world.refused(proposeAction, propose)).toBe('FIELD_INVALID payload');
  });

  it('comes from a harness or a worker that is current', () => {
    expect(world.done(proposeAction, world.propose({ caller: WORKER, kind: 'worker' })).duplicate).toBe(
      false,
    );
    world.seedWorker(WORKER, { status: 'revoked' });
    expect(world.refused(proposeAction, world.propose({ caller: WORKER, kind: 'worker' }))).toBe(
      'WORKLOAD_NOT_CURRENT status',
    );
    const nobody = callerOf('harness/nobody');
    expect(world.refused(proposeAction, world.propose({ caller: nobody }))).toBe('CALLER_UNKNOWN');
    world.store.domain = { ...world.store.domain, status: 'suspended' };
    expect(world.refused(proposeAction, world.propose())).toBe('DOMAIN_INACTIVE');
  });

  it('ends by itself where nobody approves it in time', () => {
    const action = world.proposed({ proposalTtl: MINUTE });
    const forEver = world.proposed();
    const expire = (actionId: string) => world.done(expireProposal, { ...world.base(), actionId }).changed;
    world.advance(MINUTE - 1n);
    expect(expire(action.actionId)).toBe(false);
    world.advance(1n);
    expect(world.refused(gateAction, world.gate(action))).toBe('APPROVAL_EXPIRED proposal_expire_time');
    expect(expire(action.actionId)).toBe(true);
    expect(expire(action.actionId)).toBe(false);
    expect(expire(forEver.actionId)).toBe(false);
    expect(expire('act_absent')).toBe(false);
    expect(world.action(action.actionId)).toMatchObject({
      state: 'FAILED',
      failureReason: 'proposal_expired',
      attemptCount: 0,
    });
    expect(world.store.get('dead_letters', action.actionId)).toMatchObject({ fromState: 'PROPOSED' });
    expect(world.refused(gateAction, world.gate(action))).toBe('ACTION_STATE_CONFLICT FAILED');
  });

  it('that was approved in time does not end', () => {
    const action = world.gated({ proposalTtl: MINUTE });
    world.advance(MINUTE);
    expect(world.done(expireProposal, { ...world.base(), actionId: action.actionId }).changed).toBe(false);
  });
});

describe('an approval', () => {
  it('is kept verbatim, whatever it says, and judged at its use', () => {
    const action = world.proposed();
    const evidence = Buffer.from('{ "decision" : "maybe" }');
    const { receipt } = world.done(gateAction, world.gate(action, { evidence }));
    expect(receipt.evidence.equals(evidence)).toBe(true);
    expect(world.action(action.actionId).state).toBe('GATED');
  });

  it('is attached once, and answered again in any state', () => {
    const action = world.proposed();
    const gate = world.gate(action);
    world.done(gateAction, gate);
    expect(world.done(gateAction, gate)).toMatchObject({ duplicate: true, action: { state: 'GATED' } });
    const held = world.leased(action);
    expect(world.done(gateAction, gate).duplicate).toBe(true);
    const second = world.done(gateAction, world.gate(held));
    expect(second).toMatchObject({ duplicate: false, action: { state: 'GATED' } });
    expect(world.refused(gateAction, { ...gate, evidence: Buffer.from('{}') })).toBe(
      'RECEIPT_CONFLICT evidence',
    );
    expect(world.refused(gateAction, { ...gate, approvalId: 'another' })).toBe(
      'RECEIPT_CONFLICT external_id',
    );
    const dispatched = world.dispatched();
    expect(world.refused(gateAction, world.gate(dispatched))).toBe('ACTION_STATE_CONFLICT DISPATCHED');
  });

  it('and its decision are good for one gate in the domain', () => {
    const gate = world.gate(world.proposed());
    world.done(gateAction, gate);
    const other = world.proposed();
    expect(world.refused(gateAction, world.gate(other, { approvalId: gate.approvalId }))).toBe(
      'APPROVAL_REUSED approval_id',
    );
    expect(world.refused(gateAction, world.gate(other, { decisionId: gate.decisionId }))).toBe(
      'APPROVAL_REUSED decision_id',
    );
  });

  it('comes from an owner in scope, by its registered key, with a certificate in force', () => {
    const owner = world.store.get('owners', OWNER.spiffeId);
    if (!owner) throw new Error('no owner');
    const refused = (over: object) => {
      world.store.put('owners', { ...owner, ...over });
      return world.refused(gateAction, world.gate(world.proposed()));
    };
    expect(refused({ status: 'revoked' })).toBe('OWNER_NOT_CURRENT owner');
    expect(refused({ sourceScopes: ['crm'] })).toBe('NOT_VISIBLE');
    expect(refused({ typeScopes: ['mail.draft'] })).toBe('NOT_VISIBLE');
    expect(refused({ signingKeyThumbprint: 'another' })).toBe('OWNER_NOT_CURRENT key');
    expect(refused({ sourceScopes: ['inbox'], typeScopes: ['mail.send'] })).toBe('done');
    const expired = { ...OWNER, notAfter: world.now };
    expect(world.refused(gateAction, world.gate(world.proposed(), { caller: expired }))).toBe(
      'CALLER_UNKNOWN',
    );
    expect(world.refused(gateAction, world.gate(world.proposed(), { signature: null }))).toBe(
      'FIELD_INVALID signature_jws',
    );
  });

  it('comes from nobody else without a bounded grant', () => {
    const action = world.proposed();
    for (const by of [
      { caller: WORKER, kind: 'worker' },
      { caller: HARNESS, kind: 'harness' },
    ] as const) {
      expect(world.refused(gateAction, world.gate(action, by))).toBe('OWNER_REQUIRED');
    }
  });

  it('is of somebody else than the proposer', () => {
    const shared = { ...HARNESS, keyThumbprint: OWNER.keyThumbprint };
    const byCertificate = world.proposed({ caller: shared });
    expect(world.refused(gateAction, world.gate(byCertificate))).toBe(
      'APPROVER_NOT_INDEPENDENT proposer key',
    );
    world.seedWorker(WORKER, { proofKeyThumbprint: OWNER_KEY });
    const bySigning = world.proposed({ caller: WORKER, kind: 'worker' });
    expect(world.refused(gateAction, world.gate(bySigning))).toBe('APPROVER_NOT_INDEPENDENT proposer key');
    // A certificate whose key is the one that signs is the same somebody.
    const crossed = world.proposed({ caller: { ...HARNESS, keyThumbprint: OWNER_KEY } });
    expect(world.refused(gateAction, world.gate(crossed))).toBe('APPROVER_NOT_INDEPENDENT proposer key');
  });

  it('is one of at most eight', () => {
    const action = world.proposed();
    for (let i = 0; i < 8; i += 1) world.done(gateAction, world.gate(action));
    expect(world.refused(gateAction, world.gate(action))).toBe('RECEIPT_LIMIT_REACHED');
  });

  it('of an action that is not there looks like one of somebody else', () => {
    const absent = { ...world.proposed(), actionId: 'act_absent' };
    expect(world.refused(gateAction, world.gate(absent))).toBe('NOT_VISIBLE');
  });
});

describe('a rejection', () => {
  function reject(over: object = {}, evidence: object = {}) {
    const action = world.proposed();
    const nothing = Object.fromEntries(Object.keys(DELIVERY).map((name) => [name, undefined]));
    const gate = world.gate(action, {}, { ...nothing, decision: 'rejected', ...evidence });
    const { approvalId: _, signature, ...rest } = gate;
    if (!signature) throw new Error('not signed');
    return { ...rest, kind: 'owner' as const, signature, ...over };
  }

  it('ends the action, with the decision as its receipt', () => {
    const command = reject();
    const { action, receipt } = world.done(rejectAction, command);
    expect(action).toMatchObject({ state: 'FAILED', failureReason: 'rejected', attemptCount: 0 });
    expect(receipt).toMatchObject({ receiptClass: 'gate', kind: 'gate', status: 'rejected' });
    expect(world.store.get('dead_letters', action.actionId)).toMatchObject({ failureReason: 'rejected' });
    expect(world.events(action.actionId)).toEqual(['proposed', 'rejected']);
    expect(world.done(rejectAction, command)).toMatchObject({ duplicate: true });
  });

  it('is judged at once', () => {
    expect(world.refused(rejectAction, reject({}, { decision: 'approved' }))).toBe('GATE_INVALID decision');
    expect(world.refused(rejectAction, reject({}, { action_id: 'another' }))).toBe('GATE_INVALID action_id');
    expect(world.refused(rejectAction, reject({}, { channel: 'x' }))).toBe('GATE_INVALID shape');
    const past = { decided_at: 1, expires_at: Number(world.now - SECOND) };
    expect(world.refused(rejectAction, reject({}, past))).toBe('APPROVAL_EXPIRED expires_at');
    const key = { signature: { jws: Buffer.from('x'), keyThumbprint: 'another' } };
    expect(world.refused(rejectAction, reject(key))).toBe('OWNER_NOT_CURRENT key');
  });

  it('is for what is PROPOSED only', () => {
    const action = world.gated();
    expect(world.refused(rejectAction, reject({ actionId: action.actionId }))).toBe(
      'ACTION_STATE_CONFLICT GATED',
    );
  });
});
