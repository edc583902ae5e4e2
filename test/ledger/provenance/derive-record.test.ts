import { describe, expect, test } from 'vitest';
import { sha256 } from '../../../src/ledger/encoding.js';
import { MAX_PARENTS, MAX_STEPS } from '../../../src/ledger/provenance/derivation.js';
import type { DeriveRecordCommand } from '../../../src/ledger/provenance/derive-record.js';
import { verifyRecord } from '../../../src/ledger/provenance/provenance-digest.js';
import { MINUTE } from '../../../src/ledger/types.js';
import { caller } from '../../support/authority-fixture.js';
import { decodeJsonEntry, FIXTURE_DOMAIN, FIXTURE_NOW } from '../../support/ledger-fixture.js';
import {
  derivation,
  derived,
  MAIL,
  PAGE,
  reference,
  refused,
  remade,
  setWithRecords,
  step,
} from './derivation-fixture.js';

const one = { parents: [reference(MAIL)] };

describe('deriving a record (provenance-audit-replay.md, Provenance)', () => {
  test('is tainted, under the current policy revision, with edges, steps and one audit entry', () => {
    const set = setWithRecords([MAIL, PAGE], { domain: { policyRevision: 4n } });
    const { record, steps, duplicate } = derived(set);
    expect(duplicate).toBe(false);
    expect(record).toMatchObject({
      tainted: true,
      reviewed: false,
      scanPending: true,
      policyRevision: 4n,
      originKind: null,
    });
    expect(record.parentDigests).toEqual(
      [MAIL, PAGE].map((parent) => parent.provenanceDigest).sort((a, b) => Buffer.compare(a, b)),
    );
    expect(verifyRecord(FIXTURE_DOMAIN, record, steps)).toBe(true);
    const { rows } = set.changes();
    const written = (table: string) => rows.filter((row) => row.table === table).map((row) => row.after);
    expect(written('provenance_parents')).toHaveLength(2);
    expect(written('provenance_steps')).toEqual(steps);
    expect(
      decodeJsonEntry((written('audit_entries') as { entry: Buffer }[])[0]?.entry as Buffer),
    ).toMatchObject({
      kind: 'provenance',
      actorSpiffeId: caller().spiffeId,
      record: {
        id: 'model_output/answer',
        operation: 'derive_record',
        digest: record.provenanceDigest.toString('hex'),
      },
    });
    expect(written('audit_entries')).toHaveLength(1);
  });

  test('an exact repeat is a duplicate, with its parents in any order and under a later policy revision', () => {
    const set = setWithRecords();
    const first = derived(set);
    const again = derived(set, { parents: [reference(PAGE), reference(MAIL)] });
    expect(again).toEqual({ ...first, duplicate: true });
    expect(set.head.seq).toBe(1n);
    set.domain = { ...set.domain, policyRevision: 9n };
    expect(derived(set)).toEqual({ ...first, duplicate: true });
    expect(derived(set, { policyRevision: 1n }).duplicate).toBe(true);
  });

  test.each<[string, Partial<DeriveRecordCommand>]>([
    ['content', { contentDigest: sha256('x') }],
    ['class', { classification: 3 }],
    ['sinks', { allowedSinks: [] }],
    ['parents', one],
    ['steps', { steps: [step(['page', 'mail'], 'answer', { executor: 'somebody' })] }],
    ['input order', { steps: [step(['mail', 'page'], 'answer')] }],
    ['revision', { policyRevision: 2n }],
  ])('the same version with other %s is a conflict', (_, over) => {
    const set = setWithRecords();
    derived(set);
    set.domain = { ...set.domain, policyRevision: 2n };
    const before = set.head;
    expect(() => derived(set, over)).toThrow('PROVENANCE_CONFLICT');
    expect(set.head).toBe(before);
  });

  test('a record can be derived from one that the same batch wrote', () => {
    const set = setWithRecords();
    const first = derived(set).record;
    const over = {
      objectId: 'answer',
      version: 2n,
      predecessorDigest: first.provenanceDigest,
      parents: [reference(first)],
      steps: [step(['answer'], 'better answer')],
      contentDigest: sha256('better answer'),
    };
    expect(derived(set, over).record).toMatchObject({
      version: 2n,
      predecessorDigest: first.provenanceDigest,
    });
  });
});

describe('each rule of a derivation is refused by name', () => {
  const other = referenceTo({ objectId: 'other' });
  function referenceTo(over: object) {
    return { ...reference(MAIL), ...over };
  }
  const rule = (name: string, field: string) => `PROVENANCE_RULE_VIOLATED ${name} ${field}`;
  const second = { version: 2n, predecessorDigest: sha256('x') };
  const at = (seconds: bigint) => FIXTURE_NOW + seconds * 1_000_000n;
  const chain = (over: object, last: object = {}) => [
    step(['mail', 'page'], 'draft', { startedAt: at(-10n), completedAt: at(-8n), ...over }),
    step(['draft'], 'answer', { startedAt: at(-8n), completedAt: at(-8n), ...last }),
  ];

  test.each<[string, Partial<DeriveRecordCommand>, string]>([
    [
      'a parent of another domain',
      { parents: [referenceTo({ domainId: 'globex.test' })] },
      rule('parent_domain', 'parents[0]'),
    ],
    [
      'a parent that is not there',
      { parents: [reference(PAGE), other] },
      rule('parent_missing', 'parents[1]'),
    ],
    [
      'a parent with another digest',
      { parents: [referenceTo({ provenanceDigest: sha256('x') })] },
      rule('parent_mismatch', 'parents[0].provenance_digest'),
    ],
    [
      'a parent of another class than its reference says',
      { parents: [referenceTo({ classification: 1 })] },
      rule('parent_mismatch', 'parents[0].classification'),
    ],
    ['a revision that is still to come', { policyRevision: 2n }, rule('policy_revision', 'policy_revision')],
    ['a skipped version', second, rule('predecessor_missing', 'version')],
    ['a lowered class', { classification: 1 }, rule('classification_lowered', 'classification')],
    ['a further sink', { allowedSinks: ['bank', 'mail'] }, rule('sink_widened', 'allowed_sinks')],
    ['any sink', { allowedSinks: ['*'] }, rule('sink_widened', 'allowed_sinks')],
    [
      'an input too few',
      { steps: [step(['mail'], 'answer')] },
      rule('first_inputs', 'steps[0].input_digests'),
    ],
    [
      'an input too many',
      { steps: [step(['mail', 'page', 'x'], 'answer')] },
      rule('first_inputs', 'steps[0].input_digests'),
    ],
    [
      'an input twice',
      { steps: [step(['mail', 'page', 'page'], 'answer')] },
      rule('first_inputs', 'steps[0].input_digests'),
    ],
    [
      'another input',
      { steps: [step(['mail', 'x'], 'answer')] },
      rule('first_inputs', 'steps[0].input_digests'),
    ],
    [
      'an input of the second step that is not the output of the first',
      { steps: chain({}, { inputDigests: [sha256('mail')] }) },
      rule('step_inputs', 'steps[1].input_digests'),
    ],
    [
      'an input too many of the second step',
      { steps: chain({}, { inputDigests: [sha256('draft'), sha256('mail')] }) },
      rule('step_inputs', 'steps[1].input_digests'),
    ],
    ['another output', { contentDigest: sha256('x') }, rule('last_output', 'content_digest')],
    [
      'times that go back within a step',
      { steps: chain({ completedAt: at(-11n) }) },
      rule('step_times', 'steps[0].completed_time'),
    ],
    [
      'times that go back between steps',
      { steps: chain({}, { startedAt: at(-9n) }) },
      rule('step_times', 'steps[1].started_time'),
    ],
    [
      'a step of a tool that ends a model output',
      { steps: chain({}, { kind: 'tool' }) },
      rule('last_kind', 'steps[1].kind'),
    ],
    [
      'a step of a model that ends a parser output',
      { objectType: 'parser_output' },
      rule('last_kind', 'steps[0].kind'),
    ],
    [
      'a step that ends more than a minute ahead',
      { steps: chain({}, { completedAt: FIXTURE_NOW + MINUTE + 1n }) },
      'EVIDENCE_TIME_OUTSIDE_WINDOW steps[1].completed_time',
    ],
    ["the service's own names", { objectId: 'effect-output:eff-1' }, 'FIELD_INVALID'],
    ['no parent', { parents: [] }, 'FIELD_INVALID'],
    ['a parent twice', { parents: [reference(MAIL), reference(MAIL)] }, 'FIELD_INVALID'],
    ['no step', { steps: [] }, 'FIELD_INVALID'],
    ['too many steps', { steps: Array.from({ length: MAX_STEPS + 1 }, () => step([], '')) }, 'FIELD_INVALID'],
    [
      'too many parents',
      { parents: Array.from({ length: MAX_PARENTS + 1 }, (_, i) => referenceTo({ objectId: `${i}` })) },
      'FIELD_INVALID',
    ],
    ['a predecessor at version 1', { predecessorDigest: sha256('x') }, 'FIELD_INVALID'],
    ['none at version 2', { version: 2n }, 'FIELD_INVALID'],
    ['`*` beside others', { allowedSinks: ['*', 'bank'] }, 'FIELD_INVALID'],
    ['a certificate past its validity', { caller: caller({ notAfter: FIXTURE_NOW }) }, 'CALLER_UNKNOWN'],
  ])('%s', (_, over, expected) => {
    const set = setWithRecords([MAIL, PAGE], {
      absent: {
        provenance_records: [
          ['artifact', 'other', 1n],
          ['parser_output', 'answer', 1n],
          ['model_output', 'effect-output:eff-1', 1n],
        ],
      },
    });
    expect(refused(set, over)).toBe(expected);
  });

  test('a parent with a later policy revision', () => {
    const later = remade(MAIL, { policyRevision: 2n });
    const set = setWithRecords([later, PAGE], { domain: { policyRevision: 2n } });
    const parents = [reference(later), reference(PAGE)];
    expect(refused(set, { parents, policyRevision: 1n })).toBe(
      'PROVENANCE_RULE_VIOLATED parent_revision parents[0]',
    );
    expect(derived(set, { parents, policyRevision: 2n }).record.policyRevision).toBe(2n);
  });

  test('another predecessor than the exact one', () => {
    const set = setWithRecords();
    const first = derived(set).record;
    const named = { version: 2n, predecessorDigest: MAIL.provenanceDigest };
    expect(() => derived(set, named)).toThrow('"rule":"predecessor_mismatch"');
    expect(derived(set, { ...named, predecessorDigest: first.provenanceDigest }).duplicate).toBe(false);
  });

  test('a parent that was changed is named', () => {
    const set = setWithRecords([{ ...MAIL, allowedSinks: ['*'] }, PAGE]);
    expect(() => derived(set)).toThrow('DATA_CORRUPT {"record":"provenance:artifact/mail/1"}');
  });
});

describe('what a derivation may', () => {
  test('go where every parent may go: finite sets intersect, `*` is any', () => {
    const open = { parents: [reference(PAGE)], steps: [step(['page'], 'answer')] };
    for (const allowedSinks of [['*'], ['bank', 'mail'], []]) {
      expect(derived(setWithRecords(), { ...open, allowedSinks }).record.allowedSinks).toEqual(allowedSinks);
    }
    expect(derived(setWithRecords(), { allowedSinks: [] }).record.allowedSinks).toEqual([]);
  });

  test('be of a higher class, end up to a minute ahead, and be of a type without a kind of its own', () => {
    expect(derived(setWithRecords(), { classification: 4 }).record.classification).toBe(4);
    const ahead = step(['mail', 'page'], 'answer', { completedAt: FIXTURE_NOW + MINUTE });
    expect(derived(setWithRecords(), { steps: [ahead] }).duplicate).toBe(false);
    const set = setWithRecords([MAIL, PAGE], {
      absent: { provenance_records: [['artifact', 'answer', 1n]] },
    });
    expect(derived(set, { objectType: 'artifact' }).record.objectType).toBe('artifact');
  });

  test('have two parents of the same content, which is then two inputs', () => {
    const twin = remade(MAIL, { objectId: 'twin' });
    const parents = [reference(MAIL), reference(twin)];
    const over = (inputs: string[]) => ({ parents, steps: [step(inputs, 'answer')] });
    expect(refused(setWithRecords([MAIL, twin]), over(['mail']))).toContain('first_inputs');
    expect(derived(setWithRecords([MAIL, twin]), over(['mail', 'mail'])).duplicate).toBe(false);
  });

  test('the command itself keeps every rule', () => {
    expect(derived(setWithRecords(), derivation()).duplicate).toBe(false);
  });
});
