import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { boundedGrantFields } from '../../src/cli/client/approval-evidence.js';
import { type Action, ActionState } from '../../src/gen/surety/action/v1/action_pb.js';
import { createSigningKey, signBoundedGrant } from '../../src/identity/sign.js';
import { microsToTimestamp } from '../../src/identity/timestamp.js';
import type { CommandRunner } from '../../src/lane/lanes.js';
import { actionService } from '../../src/rpc/action-service.js';
import {
  ActionService,
  BeginDispatchRequestSchema,
} from '../../src/gen/surety/action/v1/action_service_pb.js';
import { create } from '@bufbuild/protobuf';
import { AUDIENCE, DOMAIN, freshId, nowMicros } from '../support/effect-world.js';
import { contextOf, handlersOf } from '../support/handlers.js';
import {
  ActionServiceWorld,
  AUDITOR,
  type Gate,
  MAILER,
  OLGA,
  OPERATOR,
  PAYLOAD,
  PLANNER,
} from './action-service-world.js';
import { refusalOf } from './effect-service-world.js';

let service: ActionServiceWorld;
beforeAll(async () => {
  service = await ActionServiceWorld.open();
});
afterAll(() => service.close());

interface Leased {
  readonly action: Action;
  readonly gate: Gate;
  readonly leaseToken: bigint;
}

async function leased(): Promise<Leased> {
  const { action, gate } = await service.gated();
  return { action, gate, leaseToken: await service.lease(action.actionId) };
}

const begin = ({ action, gate, leaseToken }: Leased, over: object = {}) =>
  service.call('beginDispatch', MAILER, { ...service.dispatch(action, gate, leaseToken), ...over });

const show = async (actionId: string): Promise<Action> =>
  (await service.call('getAction', OPERATOR, { actionId })).action as Action;

/** A dispatch that is refused, and has changed nothing. */
async function refused(one: Leased, over: object = {}) {
  const before = await show(one.action.actionId);
  const refusal = await refusalOf(begin(one, over));
  expect(await show(one.action.actionId)).toEqual(before);
  const { reason, metadata } = refusal;
  return { reason, ...metadata };
}

describe("a domain's condition (actions.md, Gate validator)", () => {
  beforeEach(() => service.condition('true'));
  afterAll(() => service.condition('true', 'suspended'));

  test('allows what it holds for, on the exact payload and evidence', async () => {
    await service.condition(
      `payload.amount <= ${PAYLOAD.amount} && evidence.channel == "mail" && action.source == "support"`,
    );
    expect((await begin(await leased())).action?.state).toBe(ActionState.DISPATCHED);
  });

  test.each([
    ['payload.amount < 100', 'false'],
    ['payload.missing == 1', 'error'],
    ['payload.amount', 'error'],
    // What is stored and would not be taken today is never asked.
    ['payload.tool_name.matches("mail")', 'error'],
  ])('refuses for %s', async (expression, rule) => {
    const one = await leased();
    await service.condition(expression);
    expect(await refused(one)).toEqual({ reason: 'CONDITION_DENIED', rule });
    await service.condition(expression, 'suspended');
    expect((await begin(one)).action?.state).toBe(ActionState.DISPATCHED);
  });

  test('that changes between its evaluation and the transaction refuses, and changes nothing', async () => {
    const one = await leased();
    const changes = [() => service.condition('1 == 1'), () => service.condition('true', 'suspended')];
    for (const [index, change] of changes.entries()) {
      await service.condition('true');
      const outcome = begunBetween(one, change);
      // Turned off it is not asked at all.
      if (index === 0) {
        expect(await refusalOf(outcome)).toMatchObject({
          reason: 'CHECK_STALE',
          metadata: { rule: 'condition' },
        });
      } else expect((await outcome).action?.state).toBe(ActionState.DISPATCHED);
    }
    const other = await leased();
    await service.condition('true', 'suspended');
    expect(await refusalOf(begunBetween(other, () => service.condition('true')))).toMatchObject({
      reason: 'CHECK_STALE',
    });
  });
});

/** Begins a dispatch during which something happens behind the checks and before the transaction. */
async function begunBetween(
  { action, gate, leaseToken }: Leased,
  happens: () => Promise<unknown>,
): Promise<{ readonly action?: { readonly state?: ActionState } }> {
  const commands: CommandRunner = {
    submit: async (decision, command, options) => {
      await happens();
      return service.tools.commands.submit(decision, command, options);
    },
  };
  const tools = { ...service.tools, commands };
  const handlers = handlersOf(ActionService, actionService(tools, service.positions));
  const request = create(BeginDispatchRequestSchema, service.dispatch(action, gate, leaseToken));
  return handlers.beginDispatch(request, contextOf(MAILER.caller, 'worker')) as never;
}

describe('the gate at the moment of use (actions.md, I4)', () => {
  test('a second one that lands between the lease and the dispatch refuses it', async () => {
    const one = await leased();
    await service.call('gateAction', OLGA, await service.approval(one.action));
    expect(await refused(one)).toEqual({ reason: 'GATE_INVALID', rule: 'count' });
  });

  test('and one that lands between the checks and the transaction too', async () => {
    const one = await leased();
    const second = await service.approval(one.action);
    const outcome = begunBetween(one, () => service.call('gateAction', OLGA, second));
    expect(await refusalOf(outcome)).toMatchObject({ reason: 'GATE_INVALID', metadata: { rule: 'count' } });
  });

  test('a signature that was exchanged behind the service refuses it', async () => {
    const one = await leased();
    const other = await service.approval(await service.propose());
    await service.tamper('UPDATE action_receipts SET signature = $2 WHERE action_id = $1', [
      one.action.actionId,
      Buffer.from(other.signatureJws),
    ]);
    expect(await refused(one)).toEqual({ reason: 'GATE_INVALID', rule: 'signature' });
  });

  test("an owner's key that was replaced since refuses it", async () => {
    const one = await leased();
    const sql = 'UPDATE owners SET signing_key_jwk = $2, signing_key_thumbprint = $3 WHERE spiffe_id = $1';
    const set = ({ publicKey }: typeof service.key) =>
      service.tamper(sql, [OLGA.caller.spiffeId, publicKey.jwk, publicKey.thumbprint]);
    await set(createSigningKey());
    expect(await refused(one)).toEqual({ reason: 'OWNER_NOT_CURRENT', rule: 'key' });
    await set(service.key);
    expect((await begin(one)).action?.state).toBe(ActionState.DISPATCHED);
  });

  test('a view that changed, or a judgement past its time, refuses it', async () => {
    const one = await leased();
    const { actionId } = one.action;
    const seen = await service.call('getDispatchView', MAILER, { actionId, leaseToken: one.leaseToken });
    const judged = (by: bigint) => ({
      viewDigest: seen.viewDigest,
      authorizationExpireTime: microsToTimestamp(nowMicros() + by),
    });
    expect(await refused(one, judged(-60_000_000n))).toEqual({
      reason: 'VIEW_NOT_CURRENT',
      rule: 'authorization_expire_time',
    });
    const evidence = Uint8Array.from(Buffer.from('{}'));
    const receipt = { receiptKey: 'new', kind: 'note', status: 'seen', evidence };
    await service.call('addReceipt', PLANNER, { actionId, receipt });
    expect(await refused(one, judged(60_000_000n))).toEqual({
      reason: 'VIEW_NOT_CURRENT',
      rule: 'view_digest',
    });
    const again = await service.call('getDispatchView', MAILER, { actionId, leaseToken: one.leaseToken });
    const good = { ...judged(60_000_000n), viewDigest: again.viewDigest };
    expect((await begin(one, good)).action?.state).toBe(ActionState.DISPATCHED);
  });

  test.each([
    ['source', { source: 'other' }],
    ['source_ref', { sourceRef: 'other' }],
    ['type', { type: 'other' }],
    ['payload', { payload: Uint8Array.from(Buffer.from('{"tool_name":"mail.send","amount":101}')) }],
  ])('a caller that believes another %s is refused', async (field, over) => {
    expect(await refused(await leased(), over)).toEqual({ reason: 'EXPECTATION_MISMATCH', field });
  });

  test.each([
    ['key', { gateReceiptKey: 'other' }],
    ['approval_id', { approvalId: 'other' }],
    ['decision_id', { decisionId: 'other' }],
  ])('one that names another gate is refused for its %s', async (rule, over) => {
    expect(await refused(await leased(), over)).toEqual({ reason: 'GATE_INVALID', rule });
  });
});

describe('a bounded grant (actions.md, Bounded grant)', () => {
  const expiresAtMicros = (nowMicros() / 1_000_000n + 3600n) * 1_000_000n;

  async function grant(over: object = {}, key = service.key) {
    const boundedGrantId = freshId('bounded');
    const statement = {
      ...{ audience: AUDIENCE, incarnation: 1n, domainId: DOMAIN, boundedGrantId },
      ...{ ownerSpiffeId: OLGA.caller.spiffeId, sources: ['support'], types: ['mail.reply'] },
      ...{ tools: ['mail.send'], maxUses: 1n },
      ...{ expireTime: microsToTimestamp(expiresAtMicros), issuedTime: microsToTimestamp(nowMicros()) },
      ...over,
    };
    return { boundedGrantId, grantJws: await signBoundedGrant(statement, key) };
  }

  /** Approved by a worker under the grant, and leased. */
  async function leasedUnder(boundedGrantId: string): Promise<Leased> {
    const action = await service.propose();
    const fields = boundedGrantFields({ boundedGrantId, expiresAtMicros, sourceRequest: 'ticket-7' });
    const gate = { ...(await service.approval(action, { fields })), signatureJws: '' };
    await service.call('gateAction', MAILER, gate);
    return { action, gate, leaseToken: await service.lease(action.actionId) };
  }

  test('stands for the owner as often as it says, and is used up by the dispatch', async () => {
    const { boundedGrantId, grantJws } = await grant();
    const added = await service.call('addBoundedGrant', OLGA, { domainId: DOMAIN, grantJws });
    expect(added).toMatchObject({
      duplicate: false,
      boundedGrant: { boundedGrantId, uses: 0n, maxUses: 1n },
    });
    expect((await service.call('addBoundedGrant', OLGA, { grantJws })).duplicate).toBe(true);
    const [first, second] = [await leasedUnder(boundedGrantId), await leasedUnder(boundedGrantId)];
    expect((await begin(first)).action?.state).toBe(ActionState.DISPATCHED);
    expect(await refused(second)).toEqual({ reason: 'BOUNDED_GRANT_NOT_USABLE', rule: 'exhausted' });
  });

  test('that its owner has ended, or whose tool is no longer granted, covers nothing', async () => {
    const { boundedGrantId, grantJws } = await grant({ maxUses: 5n });
    await service.call('addBoundedGrant', OLGA, { grantJws });
    const one = await leasedUnder(boundedGrantId);
    const mark = (nonGrantable: boolean) =>
      service.world.admin.query(`UPDATE tools SET non_grantable = $1 WHERE tool_name = 'mail.send'`, [
        nonGrantable,
      ]);
    await mark(true);
    expect(await refused(one)).toEqual({ reason: 'BOUNDED_GRANT_NOT_USABLE', rule: 'non_grantable' });
    await mark(false);
    expect((await service.call('revokeBoundedGrant', OLGA, { boundedGrantId })).duplicate).toBe(false);
    expect((await service.call('revokeBoundedGrant', OLGA, { boundedGrantId })).duplicate).toBe(true);
    expect(await refused(one)).toEqual({ reason: 'BOUNDED_GRANT_NOT_USABLE', rule: 'revoked' });
  });

  test('is taken only from the owner who signed it', async () => {
    const reasonFor = async (over: object) => {
      const { grantJws } = await grant(over);
      const { reason, metadata } = await refusalOf(service.call('addBoundedGrant', OLGA, { grantJws }));
      return [reason, metadata?.['rule']];
    };
    expect(await reasonFor({ ownerSpiffeId: 'spiffe://acme.test/owner/sally' })).toEqual([
      'APPROVAL_SIGNATURE_INVALID',
      'signer',
    ]);
    expect(await reasonFor({ audience: 'spiffe://other.test/surety' })).toEqual([
      'APPROVAL_SIGNATURE_INVALID',
      'audience',
    ]);
    expect(await reasonFor({ incarnation: 2n })).toEqual(['APPROVAL_SIGNATURE_INVALID', 'incarnation']);
    expect(await reasonFor({ domainId: 'globex.test' })).toEqual(['APPROVAL_SIGNATURE_INVALID', 'domain_id']);
    expect(await reasonFor({ issuedTime: microsToTimestamp(nowMicros() - 90_000_000_000n) })).toEqual([
      'APPROVAL_SIGNATURE_INVALID',
      'issued_time',
    ]);
  });
});

describe('leases that ran out (actions.md, ReapLeases)', () => {
  const expire = (actionId: string) =>
    service.tamper(
      `UPDATE actions SET leased_at = leased_at - 120000000, lease_expires_at = lease_expires_at - 120000000
       WHERE action_id = $1`,
      [actionId],
    );

  test('are taken back by an operator alone', async () => {
    const { action } = await leased();
    const { actionId } = action;
    expect(await service.call('reapLeases', OPERATOR, { actionIds: [actionId] })).toMatchObject({
      released: 0,
    });
    await expire(actionId);
    expect((await refusalOf(service.call('reapLeases', AUDITOR, {}))).reason).toBe('NOT_VISIBLE');
    expect(await service.call('reapLeases', OPERATOR, {})).toMatchObject({ released: 1, ended: 0 });
    const { state, lease } = await show(actionId);
    expect([state, lease]).toEqual([ActionState.GATED, undefined]);
    expect(await service.call('reapLeases', OPERATOR, {})).toMatchObject({ released: 0, ended: 0 });
    const missing = service.call('reapLeases', OPERATOR, { actionIds: ['act_absent'] });
    expect((await refusalOf(missing)).reason).toBe('NOT_VISIBLE');
  });

  test('are not taken back where one that is named beside them is not there', async () => {
    const { action } = await leased();
    const { actionId } = action;
    await expire(actionId);
    const call = (actionIds: string[]) => service.call('reapLeases', OPERATOR, { actionIds });
    for (const named of [
      [actionId, 'act_absent'],
      ['act_absent', actionId],
    ]) {
      expect((await refusalOf(call(named))).reason).toBe('NOT_VISIBLE');
    }
    expect((await show(actionId)).lease).toBeDefined();
    expect(await call([actionId])).toMatchObject({ released: 1 });
  });

  test('are all taken back before one that was changed behind the back of the service is named', async () => {
    const [one, two, three] = [await leased(), await leased(), await leased()].map(
      ({ action }) => action.actionId,
    ) as [string, string, string];
    for (const each of [one, two, three]) await expire(each);
    await service.tamper(`UPDATE actions SET payload = '{}' WHERE action_id = $1`, [one]);
    const call = service.call('reapLeases', OPERATOR, { actionIds: [one, two, three] });
    expect((await refusalOf(call)).reason).toBe('DATA_CORRUPT');
    expect([(await show(two)).lease, (await show(three)).lease]).toEqual([undefined, undefined]);
    // It would stand in the way of what follows.
    await service.tamper(
      `UPDATE actions SET lease_expires_at = leased_at + 3600000000 WHERE action_id = $1`,
      [one],
    );
  });

  test('end a DISPATCHED action whose contract is gone as ambiguous', async () => {
    const one = await leased();
    await begin(one);
    const { actionId } = one.action;
    await service.tamper(`DELETE FROM action_receipts WHERE action_id = $1 AND receipt_class = 'recovery'`, [
      actionId,
    ]);
    await expire(actionId);
    expect(await service.call('reapLeases', OPERATOR, {})).toMatchObject({ released: 0, ended: 1 });
    expect((await show(actionId)).state).toBe(ActionState.FAILED);
  });
});
