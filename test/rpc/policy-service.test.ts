import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { PolicyService } from '../../src/gen/surety/authority/v1/policy_service_pb.js';
import { Reason } from '../../src/gen/surety/error/v1/reason_pb.js';
import { type AdminWorld, DOMAIN, ROOT, refusedFor, SERVICE_DOMAIN } from '../support/admin-world.js';
import { ANN, ANNA, HARNESS, openAuthorityWorld } from './authority-world.js';

// authority.md, Deciding: over the handlers, on Postgres.

let world: AdminWorld;
beforeAll(async () => {
  world = await openAuthorityWorld();
});
afterAll(() => world.close());

const asRoot = (domainId = DOMAIN) => world.context(ROOT, 'operator', domainId);
const asHarness = () => world.context(HARNESS, 'harness', DOMAIN);

describe('Decide and GetDecision', () => {
  const decide = PolicyService.method.decide;
  const requestDigest = createHash('sha256').update('request').digest();
  const request = {
    action: 'payment.refund',
    resource: 'order-7',
    requestDigest: Uint8Array.from(requestDigest),
  };

  test('records an allowance, which its actor, operators and auditors may see', async () => {
    const { decision, auditPosition, duplicate } = await world.call(decide, request, asHarness());
    expect(decision).toMatchObject({
      harnessId: 'planner',
      principalId: 'paula',
      allowed: true,
      reason: Reason.UNSPECIFIED,
      entitlementId: 'ent-1',
      used: false,
    });
    expect(duplicate).toBe(false);
    expect(auditPosition).toBeGreaterThan(0n);
    const read = (spiffeId: string, kind: 'harness' | 'operator' | 'auditor', domainId = DOMAIN) =>
      world.call(
        PolicyService.method.getDecision,
        { decisionId: decision?.decisionId ?? '' },
        world.context(spiffeId, kind, domainId),
      );
    for (const call of [read(HARNESS, 'harness'), read(ROOT, 'operator'), read(ANN, 'auditor')]) {
      expect((await call).decision).toEqual(decision);
    }
    expect(await refusedFor(read(ANNA.spiffeId, 'operator', 'globex.test'))).toBe('NOT_VISIBLE');
  });

  test('answers a denial, and the same one within the minute from the stored one', async () => {
    const denied = { ...request, action: 'payment.charge' };
    const first = await world.call(decide, denied, asHarness());
    expect(first.decision).toMatchObject({ allowed: false, reason: Reason.ENTITLEMENT_MISSING });
    const second = await world.call(decide, denied, asHarness());
    expect(second).toEqual({ ...first, duplicate: true });
    const other = await world.call(decide, { ...denied, eventId: 'event-1' }, asHarness());
    expect(other.decision?.decisionId).not.toBe(first.decision?.decisionId);
  });

  test('decides with the whole grant where one is named', async () => {
    const whole = {
      ...request,
      resource: 'order "1184", {a}\\',
      grantId: 'grant-1',
      inputSource: 'tickets',
      outputSink: 'bank',
      dataClass: 2,
    };
    const allowed = await world.call(decide, whole, asHarness());
    expect(allowed.decision).toMatchObject({ allowed: true, grantId: 'grant-1' });
    const denied = await world.call(decide, { ...whole, outputSink: 'mail' }, asHarness());
    expect(denied.decision?.reason).toBe(Reason.GRANT_OUTPUT_SINK_NOT_COVERED);
  });

  test('gives an operator no authority', async () => {
    const call = world.call(decide, request, asRoot(SERVICE_DOMAIN));
    expect(await refusedFor(call)).toBe('CALLER_KIND_WITHOUT_AUTHORITY');
  });

  test('names what is wrong with a question', async () => {
    const call = world.call(decide, { eligibilityDenials: [''], policyRevision: -1n }, asHarness());
    expect(await refusedFor(call)).toBe(
      'FIELD_INVALID policy_revision action resource request_digest eligibility_denials[0]',
    );
  });
});
