import { describe, expect, test } from 'vitest';
import { sha256 } from '../../../src/ledger/encoding.js';
import {
  type RecordReference,
  type ReferenceExpectation,
  referenceOf,
  verifyReference,
} from '../../../src/ledger/provenance/verify-reference.js';
import { FIXTURE_DOMAIN } from '../../support/ledger-fixture.js';
import { eventRecord } from './provenance-fixture.js';

const verify = (
  reference: Partial<RecordReference> = {},
  expectation: Partial<ReferenceExpectation> = {},
  record = eventRecord(),
) =>
  verifyReference(
    FIXTURE_DOMAIN,
    { ...referenceOf(FIXTURE_DOMAIN, eventRecord()), ...reference },
    { requiredSinks: [], ...expectation },
    record,
  );

describe('VerifyReference (provenance-audit-replay.md)', () => {
  test('nothing differs', () => {
    const expectation = {
      domainId: FIXTURE_DOMAIN,
      contentDigest: sha256('payload'),
      objectType: 'task',
      classification: 2,
      requiredSinks: ['bank'],
      policyRevision: 1n,
    } as const;
    expect(verify({}, expectation)).toEqual([]);
  });

  test.each<[string, Partial<RecordReference>, string]>([
    ['domain', { domainId: 'globex.test' }, 'reference.domain_id'],
    ['provenance digest', { provenanceDigest: sha256('x') }, 'reference.provenance_digest'],
    ['content digest', { contentDigest: sha256('x') }, 'reference.content_digest'],
    ['class', { classification: 3 }, 'reference.classification'],
    ['revision', { policyRevision: 2n }, 'reference.policy_revision'],
    ['type', { objectType: 'event' }, 'reference.object_type'],
  ])('names the %s of the reference', (_, reference, expected) => {
    expect(verify(reference)).toEqual([expected]);
  });

  test.each<[Partial<ReferenceExpectation>, string]>([
    [{ domainId: 'globex.test' }, 'expectation.domain_id'],
    [{ contentDigest: sha256('x') }, 'expectation.content_digest'],
    [{ objectType: 'event' }, 'expectation.object_type'],
    [{ classification: 1 }, 'expectation.classification'],
    [{ requiredSinks: ['bank', 'mail'] }, 'expectation.required_sinks'],
    [{ policyRevision: 2n }, 'expectation.policy_revision'],
  ])('names what is not as expected: %o', (expectation, expected) => {
    expect(verify({}, expectation)).toEqual([expected]);
  });

  test('`*` allows any sink, an empty set none', () => {
    expect(verify({}, { requiredSinks: ['mail'] }, eventRecord({ allowedSinks: ['*'] }))).not.toContain(
      'expectation.required_sinks',
    );
    expect(verify({}, { requiredSinks: ['mail'] }, eventRecord({ allowedSinks: [] }))).toContain(
      'expectation.required_sinks',
    );
  });

  test('names everything that differs, in order', () => {
    expect(verify({ classification: 3, policyRevision: 2n }, { classification: 1 })).toEqual([
      'reference.classification',
      'reference.policy_revision',
      'expectation.classification',
    ]);
  });

  test('says where there is no record', () => {
    expect(
      verifyReference(
        FIXTURE_DOMAIN,
        referenceOf(FIXTURE_DOMAIN, eventRecord()),
        { requiredSinks: [] },
        undefined,
      ),
    ).toEqual(['record']);
  });
});
