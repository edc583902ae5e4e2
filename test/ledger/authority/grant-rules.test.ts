import { describe, expect, it } from 'vitest';
import { grantConsumptionRefusal, grantShapeRefusal } from '../../../src/ledger/authority/grant-rules.js';
import type { GrantRow } from '../../../src/ledger/authority/records.js';
import { grantRow, harnessRow } from '../../support/authority-fixture.js';
import { FIXTURE_NOW, workingSet } from '../../support/ledger-fixture.js';

const holder = { harnessId: 'planner', actorKind: 'principal', actorId: 'paula' } as const;
const wanted = {
  action: 'payment.refund',
  resource: 'order-1184',
  inputSource: 'tickets',
  outputSink: 'bank',
  dataClass: 2,
} as const;

describe('effects.md, Reserve 3', () => {
  const shape = (over: Partial<GrantRow> | null) =>
    grantShapeRefusal(over === null ? undefined : grantRow(over), holder, wanted, FIXTURE_NOW)?.reason;

  it('takes a grant in force that names the actor and all five values', () => {
    expect(shape({})).toBeUndefined();
  });

  it('leaves uses and binding to the rules behind it', () => {
    expect(shape({ uses: 1n, policyRevision: 9n, credentialEpoch: 9n })).toBeUndefined();
  });

  it.each<readonly [string, Partial<GrantRow> | null]>([
    ['GRANT_MISSING', null],
    ['GRANT_REVOKED', { revokedAt: FIXTURE_NOW }],
    ['GRANT_EXPIRED', { expiresAt: FIXTURE_NOW }],
    ['GRANT_FOREIGN', { harnessId: 'other' }],
    ['GRANT_FOREIGN', { actorId: 'paul' }],
    ['GRANT_FOREIGN', { actorKind: 'guest' }],
    ['GRANT_ACTION_NOT_COVERED', { actions: ['*'] }],
    ['GRANT_RESOURCE_NOT_COVERED', { resources: ['*'] }],
    ['GRANT_INPUT_SOURCE_NOT_COVERED', { inputSources: [] }],
    ['GRANT_OUTPUT_SINK_NOT_COVERED', { outputSinks: ['Bank'] }],
    ['GRANT_DATA_CLASS_NOT_COVERED', { dataClasses: [1, 3, 4] }],
  ])('refuses with %s', (reason, over) => {
    expect(shape(over)).toBe(reason);
  });
});

describe('effects.md, Reserve 6', () => {
  const { domain } = workingSet();
  const consume = (over: Partial<GrantRow>) =>
    grantConsumptionRefusal(grantRow(over), domain, harnessRow())?.reason;

  it('gives the last use, and none after it', () => {
    expect(consume({ uses: 2n, maxUses: 3n })).toBeUndefined();
    expect(consume({ uses: 3n, maxUses: 3n })).toBe('GRANT_EXHAUSTED');
  });

  it('needs policy revision and credential epoch to be those at issuance', () => {
    expect(consume({ policyRevision: 2n })).toBe('GRANT_BINDING_STALE');
    expect(consume({ credentialEpoch: 2n })).toBe('GRANT_BINDING_STALE');
  });
});
