import { beforeEach, describe, expect, it } from 'vitest';
import { conditionDigest } from '../../../src/ledger/action/action-digest.js';
import { beginDispatch } from '../../../src/ledger/action/begin-dispatch.js';
import type { BeginDispatch, DispatchChecks } from '../../../src/ledger/action/commands.js';
import { dispatchView, viewReads } from '../../../src/ledger/action/dispatch-view.js';
import { gateAction } from '../../../src/ledger/action/gate-action.js';
import { fieldsDigest } from '../../../src/ledger/action/gate-shapes.js';
import type { ActionRow } from '../../../src/ledger/action/records.js';
import { addReceipt } from '../../../src/ledger/action/add-receipt.js';
import { sha256 } from '../../../src/ledger/encoding.js';
import { HOUR, MINUTE, SECOND } from '../../../src/ledger/types.js';
import { Draft } from '../../../src/ledger/working-set.js';
import {
  ActionWorld,
  DELIVERY,
  EXECUTION_DIGEST,
  HARNESS,
  OTHER_WORKER,
  OWNER,
  WORKER,
} from './action-world.js';

// actions.md, BeginDispatch: any refusal changes nothing (`world.refused` sees to it).

let world: ActionWorld;
beforeEach(() => {
  world = new ActionWorld();
});

/** What the dispatch of a held action is refused for; its gate's evidence has `evidence` in it. */
function refusalOf(over: Partial<BeginDispatch>, evidence: object = {}): string {
  const action = world.heldForDispatch({}, evidence);
  const dispatch = world.dispatch(action, over);
  const refused = world.refused(beginDispatch, dispatch);
  if (refused !== 'done') expect(world.action(action.actionId)).toBe(action);
  return refused;
}

describe('the one dispatch', () => {
  it('commits with its contract, and keeps the lease', () => {
    const held = world.heldForDispatch();
    const { action, contract } = world.done(beginDispatch, world.dispatch(held));
    expect(action).toMatchObject({
      state: 'DISPATCHED',
      attemptCount: 1,
      leaseToken: held.leaseToken,
      executionDigest: EXECUTION_DIGEST,
      observationDeadline: world.now + 10n * MINUTE,
      maxObservations: 2,
    });
    expect(contract).toMatchObject({
      receiptClass: 'recovery',
      kind: 'dispatch_recovery',
      status: 'observation_only',
      externalId: EXECUTION_DIGEST.toString('hex'),
      createdAt: world.now,
    });
    expect(JSON.parse(contract.evidence.toString())).toEqual({
      version: 1,
      action_id: action.actionId,
      payload_digest: action.payloadDigest.toString('hex'),
      execution_digest: EXECUTION_DIGEST.toString('hex'),
      issued_at: Number(world.now),
      deadline: Number(world.now + 10n * MINUTE),
      budget: 2,
    });
  });

  it.each([
    ['source', { source: 'crm' }],
    ['source_ref', { sourceRef: 'mail-2' }],
    ['type', { type: 'mail.draft' }],
    ['payload', { payload: Buffer.from('{"tool_name":"mailer","to":"x@y.z"}') }],
  ])('needs what the caller believes to be so: %s', (field, over) => {
    expect(refusalOf(over)).toBe(`EXPECTATION_MISMATCH ${field}`);
  });

  it('needs a source ref', () => {
    const held = world.leased(world.gated({ sourceRef: '' }));
    expect(world.refused(beginDispatch, world.dispatch(held))).toBe('FIELD_INVALID source_ref');
  });

  it('needs the lease, alive, and its own', () => {
    expect(refusalOf({ leaseToken: 1n })).toBe('LEASE_LOST token');
    expect(refusalOf({ caller: HARNESS })).toBe('METHOD_NOT_ALLOWED harness');
    expect(refusalOf({ caller: OTHER_WORKER })).toBe('NOT_VISIBLE');
    const held = world.heldForDispatch();
    world.advance(MINUTE);
    expect(world.refused(beginDispatch, world.dispatch(held))).toBe('LEASE_LOST expired');
  });

  it('stops where an operator froze the domain', () => {
    const held = world.heldForDispatch();
    world.store.domain = { ...world.store.domain, frozen: true };
    expect(world.refused(beginDispatch, world.dispatch(held))).toBe('FROZEN domain');
  });

  it('is refused where a contract is there already, whoever wrote it (I5)', () => {
    const other = world.done(beginDispatch, world.dispatch(world.heldForDispatch()));
    const held = world.heldForDispatch();
    world.store.put('action_receipts', { ...other.contract, actionId: held.actionId });
    expect(world.refused(beginDispatch, world.dispatch(held))).toBe('RECOVERY_CONTRACT_EXISTS');
  });

  it('needs the worker to be registered still', () => {
    const held = world.heldForDispatch();
    world.seedWorker(WORKER, { status: 'revoked' });
    expect(world.refused(beginDispatch, world.dispatch(held))).toBe('WORKLOAD_NOT_CURRENT status');
  });
});

describe('the gate, judged again at its use (I4)', () => {
  it.each([
    ['key', { gateReceiptKey: 'another' }],
    ['approval_id', { approvalId: 'another' }],
    ['decision_id', { decisionId: 'another' }],
  ])('is the one that the caller names: %s', (rule, over) => {
    expect(refusalOf(over)).toBe(`GATE_INVALID ${rule}`);
  });

  it.each([
    ['audience', 'spiffe://other.test/surety'],
    ['incarnation', 2],
    ['domain_id', 'globex.test'],
    ['action_id', 'act_another'],
    ['action_digest', sha256('another').toString('hex')],
    ['payload_digest', sha256('another').toString('hex')],
    ['approval_id', 'another'],
    ['decision_id', 'another'],
    ['decision', 'rejected'],
    ['authority', 'operator'],
    ['revision', 2],
    ['decided_at', 0],
    ['decided_at', 'now'],
    ['expires_at', 1.5],
    ['audience', undefined],
  ])('binds each member: %s %s', (member, value) => {
    expect(refusalOf({}, { [member]: value })).toBe(`GATE_INVALID ${member}`);
  });

  it('is good between its times, with half a minute for a fast clock', () => {
    const now = Number(world.now);
    expect(refusalOf({}, { decided_at: now + 30_000_001 })).toBe('GATE_INVALID decided_at');
    expect(refusalOf({}, { decided_at: now + 30_000_000 })).toBe('done');
    expect(refusalOf({}, { decided_at: now, expires_at: now })).toBe('GATE_INVALID expires_at');
    expect(refusalOf({}, { decided_at: now - 2, expires_at: now })).toBe('APPROVAL_EXPIRED expires_at');
    expect(refusalOf({}, { decided_at: now - 2, expires_at: now + 1 })).toBe('done');
  });

  it('may die inside the lease', () => {
    const held = world.heldForDispatch({}, { expires_at: Number(world.now + 30n * SECOND) });
    world.advance(30n * SECOND);
    expect(world.refused(beginDispatch, world.dispatch(held))).toBe('APPROVAL_EXPIRED expires_at');
  });

  it('is the only one: a second that lands after the lease refuses', () => {
    const held = world.heldForDispatch();
    const dispatch = world.dispatch(held);
    world.done(gateAction, world.gate(held));
    expect(world.refused(beginDispatch, dispatch)).toBe('GATE_INVALID count');
  });

  it('has exactly the fields of a shape, never fewer and never more', () => {
    expect(refusalOf({}, { thread: undefined })).toBe('GATE_INVALID shape');
    expect(refusalOf({}, { extra: 'x' })).toBe('GATE_INVALID shape');
    expect(refusalOf({}, { channel: '' })).toBe('GATE_INVALID channel');
    expect(refusalOf({}, { channel: 7 })).toBe('GATE_INVALID channel');
    expect(refusalOf({}, { channel: 'x'.repeat(513) })).toBe('GATE_INVALID channel');
    expect(refusalOf({}, { binding_method: 'bounded_grant' })).toBe('GATE_INVALID binding_method');
  });

  it('may have a shape of the domain, whose expiry is enforced', () => {
    const nothing = Object.fromEntries(Object.keys(DELIVERY).map((name) => [name, undefined]));
    const invoice = (until: unknown) => ({ ...nothing, invoice: 'i-1', until });
    const later = Number(world.now + HOUR);
    expect(refusalOf({}, invoice(later))).toBe('GATE_INVALID shape');
    const shape = {
      gateShapeId: 'invoice',
      fieldNames: ['invoice', 'until'],
      fieldKinds: ['text', 'expiry'],
      fieldValues: ['', ''],
      fieldsDigest: fieldsDigest(['until', 'invoice']),
      revision: 1n,
    } as const;
    world.store.put('gate_shapes', { ...shape, status: 'suspended' });
    expect(refusalOf({}, invoice(later))).toBe('GATE_INVALID shape');
    world.store.put('gate_shapes', { ...shape, status: 'active' });
    expect(refusalOf({}, invoice(later))).toBe('done');
    expect(refusalOf({}, invoice('unlimited'))).toBe('GATE_INVALID until');
    expect(refusalOf({}, invoice(Number(world.now)))).toBe('APPROVAL_EXPIRED until');
  });

  it('needs its owner to be one still, with the key that signed, in scope', () => {
    const owner = world.store.get('owners', OWNER.spiffeId);
    if (!owner) throw new Error('no owner');
    const cases = [
      ['OWNER_NOT_CURRENT owner', { status: 'suspended' }],
      ['OWNER_NOT_CURRENT key', { signingKeyThumbprint: 'another' }],
      ['OWNER_SCOPE_MISSING source', { sourceScopes: ['crm'] }],
      ['OWNER_SCOPE_MISSING type', { typeScopes: ['mail.draft'] }],
      ['done', { sourceScopes: ['inbox'], typeScopes: ['mail.send'] }],
    ] as const;
    for (const [expected, over] of cases) {
      world.store.put('owners', owner);
      const held = world.heldForDispatch();
      world.store.put('owners', { ...owner, ...over });
      expect(world.refused(beginDispatch, world.dispatch(held))).toBe(expected);
    }
  });

  it('is signed, and the signature was verified over what is stored', () => {
    const stale = (over: object) => {
      const held = world.heldForDispatch();
      const { signature } = world.checks(held.actionId);
      const checks = { condition: null, signature: signature && { ...signature, ...over } };
      return world.refused(beginDispatch, world.dispatch(held, { checks }));
    };
    expect(stale({ signatureDigest: sha256('another') })).toBe('CHECK_STALE signature');
    expect(stale({ evidenceDigest: sha256('another') })).toBe('CHECK_STALE signature');
    expect(stale({ verified: false })).toBe('GATE_INVALID signature');
    expect(stale({ keyThumbprint: 'another' })).toBe('GATE_INVALID signature');
    expect(refusalOf({ checks: { signature: null, condition: null } })).toBe('CHECK_STALE signature');
  });

  it('is of somebody else than the leaseholder', () => {
    world.seedWorker(WORKER, { proofKeyThumbprint: 'olga-key' });
    expect(refusalOf({})).toBe('APPROVER_NOT_INDEPENDENT leaseholder key');
    world.seedWorker(WORKER);
    const held = world.heldForDispatch();
    const caller = { ...WORKER, keyThumbprint: OWNER.keyThumbprint };
    expect(world.refused(beginDispatch, world.dispatch(held, { caller }))).toBe(
      'APPROVER_NOT_INDEPENDENT leaseholder key',
    );
  });
});

describe("the domain's condition for the type", () => {
  const expression = 'payload.to == "a@b.c"';

  function conditionOf(action: ActionRow, over: object = {}): DispatchChecks {
    const [gate] = world.receipts(action.actionId, 'gate');
    return {
      ...world.checks(action.actionId),
      condition: {
        conditionDigest: conditionDigest(expression),
        payloadDigest: action.payloadDigest,
        evidenceDigest: gate?.evidenceDigest ?? sha256(''),
        verdict: 'true',
        ...over,
      },
    };
  }

  it('must hold, for these very bytes', () => {
    const record = { actionType: 'mail.send', expression, revision: 1n } as const;
    world.store.put('action_conditions', { ...record, status: 'active' });
    const refused = (over: object | undefined) => {
      const held = world.heldForDispatch();
      const checks = over ? conditionOf(held, over) : world.checks(held.actionId);
      return world.refused(beginDispatch, world.dispatch(held, { checks }));
    };
    expect(refused({})).toBe('done');
    expect(refused({ verdict: 'false' })).toBe('CONDITION_DENIED false');
    expect(refused({ verdict: 'error' })).toBe('CONDITION_DENIED error');
    expect(refused({ conditionDigest: conditionDigest('true') })).toBe('CHECK_STALE condition');
    expect(refused({ payloadDigest: sha256('another') })).toBe('CHECK_STALE condition');
    expect(refused({ evidenceDigest: sha256('another') })).toBe('CHECK_STALE condition');
    expect(refused(undefined)).toBe('CHECK_STALE condition');
    world.store.put('action_conditions', { ...record, status: 'suspended' });
    expect(refused(undefined)).toBe('done');
  });
});

describe("a validator of the caller's own", () => {
  function view(action: ActionRow): Buffer {
    const command = world.held(action);
    const set = world.store.gather([viewReads(command)]);
    return dispatchView(new Draft(set), command).viewDigest;
  }

  it('judges the very view that is there at the dispatch', () => {
    const held = world.heldForDispatch();
    const authorization = { viewDigest: view(held), expiresAt: world.now + MINUTE };
    world.advance(SECOND);
    expect(view(held)).toEqual(authorization.viewDigest);
    const dispatch = world.dispatch(held, { authorization });
    expect(world.done(beginDispatch, dispatch).action.state).toBe('DISPATCHED');
  });

  it('is of no use once anything has changed, or it is past its time', () => {
    const held = world.heldForDispatch();
    const authorization = { viewDigest: view(held), expiresAt: world.now + SECOND };
    const refused = (over: object) =>
      world.refused(beginDispatch, world.dispatch(held, { authorization: { ...authorization, ...over } }));
    expect(refused({ viewDigest: sha256('garbage') })).toBe('VIEW_NOT_CURRENT view_digest');
    expect(refused({ expiresAt: world.now })).toBe('VIEW_NOT_CURRENT authorization_expire_time');
    const added = { ...world.held(held), receipt: world.receipt() };
    world.done(addReceipt, added);
    expect(refused({})).toBe('VIEW_NOT_CURRENT view_digest');
  });
});
