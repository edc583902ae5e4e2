import { beforeEach, describe, expect, it } from 'vitest';
import { acceptAction } from '../../../src/ledger/action/accept-action.js';
import { addReceipt } from '../../../src/ledger/action/add-receipt.js';
import { beginDispatch } from '../../../src/ledger/action/begin-dispatch.js';
import type { ReceiptContent } from '../../../src/ledger/action/commands.js';
import { completeAction } from '../../../src/ledger/action/complete-action.js';
import type { ActionRow } from '../../../src/ledger/action/records.js';
import { verifyAction } from '../../../src/ledger/action/verify-action.js';
import {
  type ActionViewerRequest,
  actionViewer,
  visibleAction,
  visibleActionReads,
} from '../../../src/ledger/action/visible-action.js';
import { sha256 } from '../../../src/ledger/encoding.js';
import { Refused } from '../../../src/ledger/run-decision.js';
import { HOUR, MINUTE } from '../../../src/ledger/types.js';
import { Draft } from '../../../src/ledger/working-set.js';
import { ActionWorld, callerOf, HARNESS, OTHER_WORKER, OWNER, WORKER } from './action-world.js';

let world: ActionWorld;
beforeEach(() => {
  world = new ActionWorld();
});

const BY = {
  harness: { caller: HARNESS, kind: 'harness' },
  owner: { caller: OWNER, kind: 'owner' },
  worker: { caller: WORKER, kind: 'worker' },
  other: { caller: OTHER_WORKER, kind: 'worker' },
} as const;

const add = (by: keyof typeof BY, { actionId }: ActionRow, over: Partial<ReceiptContent> = {}) => ({
  ...world.base(),
  ...BY[by],
  actionId,
  receipt: world.receipt(over),
});
const accept = (action: ActionRow, over: Partial<ReceiptContent> = {}) => ({
  ...world.held(action),
  receipt: world.receipt(over),
});
const verify = (action: ActionRow, keys: readonly string[], over?: Partial<ReceiptContent>) => ({
  ...world.held(action),
  witnessReceiptKeys: keys,
  receipt: over ? world.receipt(over) : null,
});

describe('a receipt', () => {
  it('is recorded by a party, in any state, and by nobody else', () => {
    const action = world.heldForDispatch();
    for (const by of ['harness', 'owner', 'worker'] as const) {
      expect(world.refused(addReceipt, add(by, action))).toBe('done');
    }
    expect(world.refused(addReceipt, add('other', action))).toBe('NOT_VISIBLE');
    expect(world.refused(addReceipt, { ...add('worker', action), actionId: 'absent' })).toBe('NOT_VISIBLE');
    const verified = world.verified();
    world.done(completeAction, { ...world.held(verified), resultDigest: sha256('done') });
    expect(world.refused(addReceipt, add('worker', verified))).toBe('done');
    expect(world.action(verified.actionId)).toMatchObject({ state: 'COMPLETED', receiptCount: 2 });
  });

  it.each(['gate', 'dispatch_recovery', 'dispatch_observation'])(
    'is never of a reserved kind, through whatever door: %s',
    (kind) => {
      const dispatched = world.dispatched();
      const refused = 'FIELD_INVALID receipt.kind';
      expect(world.refused(addReceipt, add('worker', dispatched, { kind }))).toBe(refused);
      expect(world.refused(acceptAction, accept(dispatched, { kind }))).toBe(refused);
      const accepted = world.done(acceptAction, accept(dispatched)).action;
      const keys = [accepted.acceptanceReceiptKey ?? ''];
      expect(world.refused(verifyAction, verify(accepted, keys, { kind }))).toBe(refused);
    },
  );

  it('never takes the place of a gate, a contract or an observation', () => {
    const action = world.heldForDispatch();
    const [gate] = world.receipts(action.actionId, 'gate');
    for (const receiptKey of [gate?.receiptKey ?? '', 'contract', 'observation-1']) {
      expect(world.refused(addReceipt, add('worker', action, { receiptKey }))).toBe('done');
    }
    expect(world.receipts(action.actionId, 'gate')).toEqual([gate]);
  });

  it('has evidence that every parser reads alike', () => {
    const action = world.heldForDispatch();
    for (const text of ['', '{"a":1,"a":2}', '"\\ud800"', `"${'x'.repeat(16_384)}"`]) {
      const evidence = Buffer.from(text);
      expect(world.refused(addReceipt, add('worker', action, { evidence }))).toBe(
        'FIELD_INVALID receipt.evidence',
      );
    }
  });

  it('is one of at most 64, of which the parties, the leaseholder and what settles have their parts', () => {
    const action = world.dispatched();
    const fill = (by: keyof typeof BY, until: number) => {
      const first = add(by, action);
      world.done(addReceipt, first);
      while (world.action(action.actionId).receiptCount < until) world.done(addReceipt, add(by, action));
      expect(world.refused(addReceipt, add(by, action))).toBe('RECEIPT_LIMIT_REACHED');
      expect(world.done(addReceipt, first).duplicate).toBe(true);
    };
    fill('harness', 32);
    expect(world.refused(addReceipt, add('owner', action))).toBe('RECEIPT_LIMIT_REACHED');
    fill('worker', 62);
    const accepted = world.done(acceptAction, accept(action)).action;
    const keys = [accepted.acceptanceReceiptKey ?? ''];
    expect(world.done(verifyAction, verify(accepted, keys, {})).action.receiptCount).toBe(64);
  });

  it('of whoever let the lease go is counted with those of the other parties', () => {
    const action = world.heldForDispatch();
    for (let i = 0; i < 32; i += 1) world.done(addReceipt, add('worker', action));
    world.advance(HOUR);
    expect(world.refused(addReceipt, add('worker', action))).toBe('RECEIPT_LIMIT_REACHED');
  });
});

describe('verified means witnessed (I9)', () => {
  it('by receipts that were recorded after the dispatch, the acceptance among them', () => {
    const held = world.heldForDispatch();
    const early = world.done(addReceipt, add('worker', held)).receipt.receiptKey;
    const dispatched = world.dispatched();
    const other = world.done(addReceipt, add('worker', dispatched)).receipt.receiptKey;
    const accepted = world.done(acceptAction, accept(dispatched)).action;
    const acceptance = accepted.acceptanceReceiptKey ?? '';
    const refused = (keys: readonly string[]) => world.refused(verifyAction, verify(accepted, keys));
    expect(refused([])).toBe(`WITNESS_INVALID acceptance ${acceptance}`);
    expect(refused([other])).toBe(`WITNESS_INVALID acceptance ${acceptance}`);
    expect(refused([acceptance, 'absent'])).toBe('WITNESS_INVALID missing absent');
    // Of another action.
    expect(refused([acceptance, early])).toBe(`WITNESS_INVALID missing ${early}`);
    expect(refused(['contract', acceptance])).toBe('WITNESS_INVALID missing contract');
    expect(refused([other, acceptance])).toBe('done');
  });

  it('never by one from before the dispatch', () => {
    const action = world.gated();
    const early = world.done(addReceipt, add('harness', action)).receipt;
    const held = world.leased(action);
    const { action: dispatched } = world.done(beginDispatch, world.dispatch(held));
    const same = { receiptKey: early.receiptKey };
    expect(world.refused(acceptAction, accept(dispatched, same))).toBe(
      `WITNESS_INVALID before_dispatch ${early.receiptKey}`,
    );
    const accepted = world.done(acceptAction, accept(dispatched)).action;
    const keys = [accepted.acceptanceReceiptKey ?? '', early.receiptKey];
    expect(world.refused(verifyAction, verify(accepted, keys))).toBe(
      `WITNESS_INVALID before_dispatch ${early.receiptKey}`,
    );
  });

  it('nor by the verification itself', () => {
    const accepted = world.accepted();
    const keys = [accepted.acceptanceReceiptKey ?? '', 'verification'];
    const command = verify(accepted, keys, { receiptKey: 'verification' });
    expect(world.refused(verifyAction, command)).toBe('WITNESS_INVALID missing verification');
  });

  it('takes a receipt that was recorded before the call that accepts', () => {
    const dispatched = world.dispatched();
    const { receipt } = world.done(addReceipt, add('worker', dispatched));
    const { receiptKey, kind, status, externalId, evidence } = receipt;
    const reply = world.done(acceptAction, {
      ...world.held(dispatched),
      receipt: { receiptKey, kind, status, externalId, evidence },
    });
    expect(reply).toMatchObject({
      duplicate: false,
      receipt,
      action: { state: 'ACCEPTED', receiptCount: 1 },
    });
  });
});

describe('who sees an action', () => {
  function sees(request: ActionViewerRequest, actionId: string): string {
    const draft = new Draft(world.store.gather([visibleActionReads(request, actionId)]));
    try {
      return visibleAction(draft, actionViewer(draft, request), actionId).actionId;
    } catch (error) {
      if (error instanceof Refused) return error.refusal.reason;
      throw error;
    }
  }

  it('its proposer, owners in scope, who ever held it, operators and auditors', () => {
    const action = world.leased(world.gated(), { caller: OTHER_WORKER });
    world.advance(MINUTE);
    const auditor = callerOf('auditor/ann');
    world.store.put('operators', {
      spiffeId: auditor.spiffeId,
      signingKeyJwk: null,
      signingKeyThumbprint: null,
      roles: ['AUDITOR'],
      scopeDomainId: null,
      status: 'active',
      revision: 1n,
    });
    const { actionId } = action;
    for (const by of ['harness', 'owner', 'other'] as const) expect(sees(BY[by], actionId)).toBe(actionId);
    expect(sees({ caller: auditor, kind: 'auditor' }, actionId)).toBe(actionId);
    expect(sees(BY.worker, actionId)).toBe('NOT_VISIBLE');
    expect(sees(BY.owner, 'absent')).toBe('NOT_VISIBLE');
    const owner = world.store.get('owners', OWNER.spiffeId);
    if (owner) world.store.put('owners', { ...owner, sourceScopes: ['crm'] });
    expect(sees(BY.owner, actionId)).toBe('NOT_VISIBLE');
    world.seedWorker(OTHER_WORKER, { status: 'revoked' });
    expect(sees(BY.other, actionId)).toBe('WORKLOAD_NOT_CURRENT');
    world.store.put('actions', { ...world.action(actionId), type: 'another' });
    expect(sees(BY.harness, actionId)).toBe('DATA_CORRUPT');
  });
});
