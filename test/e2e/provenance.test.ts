import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { digest } from '../../src/cli/client/workload-session.js';
import { RecordStatus } from '../../src/gen/surety/identity/v1/workload_pb.js';
import { LineageDirection } from '../../src/gen/surety/provenance/v1/provenance_service_pb.js';
import {
  ClearancePurpose,
  DataClass,
  ObjectType,
  type RecordReference,
} from '../../src/gen/surety/provenance/v1/record_pb.js';
import { createSigningKey, type SigningKey } from '../../src/identity/sign.js';
import {
  ACME,
  AUDITOR,
  type E2eWorld,
  GLOBEX,
  HARNESS,
  openE2eWorld,
  OPERATOR,
  refusedWith,
} from '../support/e2e-world.js';
import {
  type Derivation,
  entriesSince,
  ProvenanceParty,
  referenceOf,
  signed,
  signedAsCommand,
  type Statement,
  tamper,
} from '../support/provenance-party.js';

const OLGA = `spiffe://${ACME}/owner/olga`;
const { REVIEW, SCAN } = ClearancePurpose;

let world: E2eWorld;
let harness: ProvenanceParty;
let mail: RecordReference;
let page: RecordReference;

beforeAll(async () => {
  world = await openE2eWorld({ globex: true });
  harness = new ProvenanceParty(world.channel(HARNESS), await world.now());
  mail = await harness.origin('mail');
  page = await harness.origin('page', ['*']);
});

afterAll(() => world.close());

let names = 0;
/** A derivation from mail and page, of an object that no other test uses. */
function fresh(over: Derivation = {}, parents = [mail, page]): Derivation {
  names += 1;
  return harness.derivation(`answer-${names}`, parents, over);
}

const refusal = (derivation: Derivation): Promise<string> => harness.refusal(derivation);
const review = (derivation: Derivation, over: Statement = {}, key?: SigningKey): Promise<string> =>
  signed(harness.statement(derivation, REVIEW, OLGA, over), key ?? world.signingKey(OLGA));
const scan = (derivation: Derivation, over: Statement = {}, key?: SigningKey): Promise<string> =>
  signed(harness.statement(derivation, SCAN, OPERATOR, over), key ?? world.signingKey(OPERATOR));

async function cleared(derivation: Derivation): Promise<Derivation> {
  return { ...derivation, clearanceJws: [await review(derivation), await scan(derivation)] };
}

const head = async () => (await entriesSince(world, 1_000_000n)).headSeq;

describe('DeriveRecord', () => {
  test('records a derivation of a harness as tainted, and answers its exact repeat', async () => {
    const derivation = fresh();
    const first = await harness.rpc.deriveRecord(derivation);
    expect(first).toMatchObject({
      duplicate: false,
      record: { tainted: true, reviewed: false, scanPending: true, clearances: [] },
    });
    expect(first.record?.steps).toHaveLength(1);
    expect(await harness.rpc.deriveRecord(derivation)).toEqual({ ...first, duplicate: true });
    const { objectType, objectId } = referenceOf(first.record);
    expect((await harness.rpc.getRecord({ objectType, objectId })).record).toEqual(first.record);
    expect(await refusal({ ...derivation, allowedSinks: [] })).toBe('PROVENANCE_CONFLICT');
  });

  test('records one of an operator in the domain that it names', async () => {
    const operator = new ProvenanceParty(world.channel(OPERATOR), await world.now());
    const { record } = await operator.rpc.deriveRecord({ ...fresh(), domainId: ACME });
    expect(record?.reference?.domainId).toBe(ACME);
    expect(record?.tainted).toBe(true);
  });

  test('the same request twice at the same moment is recorded once', async () => {
    const derivation = fresh();
    const before = await head();
    const answers = await Promise.all(Array.from({ length: 8 }, () => harness.rpc.deriveRecord(derivation)));
    expect(answers.filter(({ duplicate }) => !duplicate)).toHaveLength(1);
    expect((await entriesSince(world, before)).entries).toHaveLength(1);
  });

  test('each rule is refused by name, and leaves nothing', async () => {
    const rule = (name: string, field: string) => `PROVENANCE_RULE_VIOLATED ${name} ${field}`;
    const foreign = new ProvenanceParty(
      world.channel(`spiffe://${GLOBEX}/harness/planner`),
      await world.now(),
    );
    const theirs = await foreign.origin('theirs');
    const withStep = (over: object): Derivation => {
      const derivation = fresh();
      return { ...derivation, steps: [{ ...derivation.steps?.[0], ...over }] };
    };
    const before = await head();
    const cases: [Derivation, string][] = [
      [fresh({}, [theirs]), rule('parent_domain', 'parents[0]')],
      // Under our own name it is a record that is not there.
      [fresh({}, [{ ...theirs, domainId: ACME }]), rule('parent_missing', 'parents[0]')],
      [
        fresh({}, [{ ...mail, provenanceDigest: page.provenanceDigest }]),
        rule('parent_mismatch', 'parents[0].provenance_digest'),
      ],
      [fresh({ allowedSinks: ['bank', 'web'] }), rule('sink_widened', 'allowed_sinks')],
      [fresh({ classification: DataClass.C1_INTERNAL }), rule('classification_lowered', 'classification')],
      [fresh({ version: 2n, predecessorDigest: digest('x') }), rule('predecessor_missing', 'version')],
      [fresh({ policyRevision: 99n }), rule('policy_revision', 'policy_revision')],
      [
        withStep({ inputDigests: [mail.contentDigest, page.contentDigest, digest('x')] }),
        rule('first_inputs', 'steps[0].input_digests'),
      ],
      [withStep({ completedTime: timestampFromMs(1000) }), rule('step_times', 'steps[0].completed_time')],
      [fresh({ objectType: ObjectType.TOOL_OUTPUT }), rule('last_kind', 'steps[0].kind')],
      [fresh({ contentDigest: digest('x') }), rule('last_output', 'content_digest')],
    ];
    for (const [derivation, expected] of cases) expect(await refusal(derivation)).toBe(expected);
    expect(await head()).toBe(before);
  });

  test('malformed fields are named all at once', async () => {
    const bad = fresh(
      {
        objectType: 0,
        objectId: 'effect-output:x',
        contentDigest: new Uint8Array(31),
        classification: 0,
        allowedSinks: ['*', 'bank'],
        steps: [{}],
        clearanceJws: ['a', 'b', 'c'],
      },
      [mail, mail],
    );
    const { reason, violations } = await refusedWith(harness.rpc.deriveRecord(bad));
    expect(reason).toBe('FIELD_INVALID');
    expect([...new Set(violations.map(({ field }) => field))].sort()).toEqual([
      'allowed_sinks',
      'classification',
      'clearance_jws',
      'content_digest',
      'object_id',
      'object_type',
      'parents',
      'steps[0].completed_time',
      'steps[0].executor',
      'steps[0].implementation',
      'steps[0].implementation_version',
      'steps[0].input_digests',
      'steps[0].kind',
      'steps[0].operation',
      'steps[0].output_digest',
      'steps[0].started_time',
    ]);
  });
});

describe('clearance', () => {
  test('an owner and an operator clear a derivation; the receipts are recorded, audited, and shown', async () => {
    const before = await head();
    const derivation = await cleared(fresh());
    const first = await harness.rpc.deriveRecord(derivation);
    expect(first.record).toMatchObject({ tainted: false, reviewed: true, scanPending: false });
    expect(
      first.record?.clearances.map(({ purpose, approverSpiffeId, jws }) => [purpose, approverSpiffeId, jws]),
    ).toEqual([
      [REVIEW, OLGA, derivation.clearanceJws?.[0]],
      [SCAN, OPERATOR, derivation.clearanceJws?.[1]],
    ]);
    expect(first.record?.clearances[0]?.signingKeyJwk).toBe(world.signingKey(OLGA).publicKey.jwk);
    const { entries } = await entriesSince(world, before);
    expect(entries.map(({ record }) => record?.operation)).toEqual([
      'derive_cleared_record',
      'review',
      'scan',
    ]);
    expect(entries.map(({ commandId }) => commandId)).toEqual(Array(3).fill(entries[0]?.commandId));
    expect(await harness.rpc.deriveRecord(derivation)).toEqual({ ...first, duplicate: true });
    const { objectType, objectId } = referenceOf(first.record);
    expect((await harness.rpc.getRecord({ objectType, objectId })).record).toEqual(first.record);
    const { tainted } = await harness.rpc.verifyReference({
      reference: referenceOf(first.record),
      expectation: {},
    });
    expect(tainted).toBe(false);
  });

  test('what does not clear is refused by name, and leaves nothing', async () => {
    const stranger = createSigningKey();
    const before = await head();
    const pair = async (one: Promise<string>, two: Promise<string>) => [await one, await two];
    const d = fresh();
    const asCommand = signedAsCommand(harness.statement(d, REVIEW, OLGA), world.signingKey(OLGA));
    const broken = async () => `${(await review(d)).slice(0, -8)}AAAAAAAA`;
    const olga = world.signingKey(OLGA);
    const cases: [string, string[], string][] = [
      ['one receipt', [await review(d)], 'PROVENANCE_RULE_VIOLATED clearance_pair clearance_jws'],
      [
        'one approver for both',
        await pair(review(d), scan(d, { approverSpiffeId: OLGA }, olga)),
        'PROVENANCE_RULE_VIOLATED clearance_independence clearance_jws',
      ],
      [
        'one key under two names',
        await pair(review(d), scan(d, {}, olga)),
        'PROVENANCE_RULE_VIOLATED clearance_independence clearance_jws',
      ],
      [
        'an unknown key',
        await pair(review(d, {}, stranger), scan(d)),
        'CLEARANCE_INVALID key clearance_jws[0]',
      ],
      ['another signature', [await scan(d), await broken()], 'CLEARANCE_INVALID signature clearance_jws[1]'],
      [
        'a statement signed as a command',
        await pair(asCommand, scan(d)),
        'CLEARANCE_INVALID header clearance_jws[0]',
      ],
      ['no JWS', [await scan(d), 'x'], 'CLEARANCE_INVALID encoding clearance_jws[1]'],
      [
        'an approver of another domain',
        await pair(review(d, { approverSpiffeId: `spiffe://${GLOBEX}/owner/olga` }), scan(d)),
        'CLEARANCE_INVALID approver clearance_jws[0]',
      ],
      [
        'other content',
        await pair(review(d), scan(d, { contentDigest: digest('other') })),
        'CLEARANCE_INVALID binding clearance_jws[1].content_digest',
      ],
      [
        'an expired receipt',
        await pair(review(d), scan(d, { expireTime: timestampFromMs(1000) })),
        'CLEARANCE_INVALID validity clearance_jws[1]',
      ],
    ];
    for (const [name, clearanceJws, expected] of cases) {
      expect([name, await refusal({ ...d, clearanceJws })]).toEqual([name, expected]);
    }
    const malformed = [
      await review(d, { receiptId: 'short', stepsDigest: new Uint8Array(3) }),
      await scan(d),
    ];
    const { violations } = await refusedWith(harness.rpc.deriveRecord({ ...d, clearanceJws: malformed }));
    expect(violations.map(({ field }) => field)).toEqual([
      'clearance_jws[0].steps_digest',
      'clearance_jws[0].receipt_id',
    ]);
    expect(await head()).toBe(before);
    expect((await harness.rpc.deriveRecord(d)).record?.tainted).toBe(true);
  });

  test('a receipt is used once', async () => {
    const first = await cleared(fresh());
    await harness.rpc.deriveRecord(first);
    const other = fresh();
    expect(await refusal({ ...other, clearanceJws: first.clearanceJws ?? [] })).toBe(
      'CLEARANCE_REPLAYED clearance_jws[0]',
    );
    // Another statement under the receipt id that is spent.
    const receiptId = 'receipt-0123456789';
    const spent = fresh();
    await harness.rpc.deriveRecord({
      ...spent,
      clearanceJws: [await review(spent), await scan(spent, { receiptId })],
    });
    const again = [await review(other), await scan(other, { receiptId })];
    expect(await refusal({ ...other, clearanceJws: again })).toBe('CLEARANCE_REPLAYED clearance_jws[1]');
  });

  test('eight that race with one receipt for two records: it is used once', async () => {
    const receiptId = `race-${names}-0123456789`;
    const rivals = await Promise.all(
      [fresh(), fresh()].map(async (d) => ({
        ...d,
        clearanceJws: [await review(d, { receiptId }), await scan(d)],
      })),
    );
    const results = await Promise.allSettled(
      Array.from({ length: 8 }, (_, i) => harness.rpc.deriveRecord(rivals[i % 2] as Derivation)),
    );
    const won = results.filter((result) => result.status === 'fulfilled').map((result) => result.value);
    expect(won).toHaveLength(4);
    expect(new Set(won.map(({ record }) => record?.reference?.objectId)).size).toBe(1);
    const { rows } = await world.sql.query(
      'SELECT count(*)::int AS n FROM clearance_receipts WHERE receipt_id = $1',
      [receiptId],
    );
    expect(rows[0].n).toBe(1);
  });

  test('an owner who was suspended, or whose key was replaced, clears nothing from then on', async () => {
    const d = await cleared(fresh());
    const owner = { spiffeId: OLGA, sourceScopes: ['*'], typeScopes: ['*'] };
    const put = (status: RecordStatus, key: SigningKey) =>
      world.admin.execute(ACME, {
        case: 'putOwner',
        value: { owner: { ...owner, status, signingKeyJwk: key.publicKey.jwk } },
      });
    await put(RecordStatus.SUSPENDED, world.signingKey(OLGA));
    expect(await refusal(d)).toBe('CLEARANCE_INVALID approver clearance_jws[0]');
    await put(RecordStatus.ACTIVE, createSigningKey());
    expect(await refusal(d)).toBe('CLEARANCE_INVALID key clearance_jws[0]');
    await put(RecordStatus.ACTIVE, world.signingKey(OLGA));
    const first = await harness.rpc.deriveRecord(d);
    expect(first.record?.tainted).toBe(false);
    // What is recorded answers its repeat under the keys of then; nothing else goes by them.
    await put(RecordStatus.ACTIVE, createSigningKey());
    expect(await harness.rpc.deriveRecord(d)).toEqual({ ...first, duplicate: true });
    const stored = { ...d, clearanceJws: [await review(d), d.clearanceJws?.[1] ?? ''] };
    expect(await refusal(stored)).toBe('PROVENANCE_CONFLICT');
    expect(await refusal(await cleared(fresh()))).toBe('CLEARANCE_INVALID key clearance_jws[0]');
    await put(RecordStatus.ACTIVE, world.signingKey(OLGA));
  });

  test('the database keeps a record tainted that has no receipts, and never changes a receipt', async () => {
    const { record } = await harness.rpc.deriveRecord(fresh());
    const { objectId } = referenceOf(record);
    const forge = `INSERT INTO provenance_records SELECT (r).* FROM (
      SELECT jsonb_populate_record(p, '{"version": 2, "tainted": false, "reviewed": true, "scan_pending": false,
        "provenance_digest": "\\\\x${'00'.repeat(32)}"}') AS r FROM provenance_records AS p WHERE object_id = $1) AS s`;
    await expect(world.sql.query(forge, [objectId])).rejects.toThrow(
      'only a derivation with a review and a scan',
    );
    await expect(world.sql.query('UPDATE clearance_receipts SET used_at = 1')).rejects.toThrow('append-only');
    await expect(world.sql.query('DELETE FROM clearance_receipts')).rejects.toThrow('append-only');
    await expect(world.sql.query('TRUNCATE clearance_receipts')).rejects.toThrow('append-only');
  });
});

describe('a parent with a later policy revision', () => {
  // Last of those that sign: statements name the first revision.
  test('is refused by name', async () => {
    await world.admin.execute(ACME, { case: 'bumpPolicyRevision', value: {} });
    const later = await harness.origin('later');
    expect(later.policyRevision).toBe(2n);
    expect(await refusal(fresh({ policyRevision: 1n }, [mail, later]))).toBe(
      'PROVENANCE_RULE_VIOLATED parent_revision parents[1]',
    );
    const { record } = await harness.rpc.deriveRecord(fresh({}, [mail, later]));
    expect(record?.reference?.policyRevision).toBe(2n);
  });
});

describe('GetLineage', () => {
  test('walks both ways, for harness and auditor, in pages', async () => {
    const source = await harness.origin('source');
    const middle = referenceOf((await harness.rpc.deriveRecord(fresh({}, [source, mail]))).record);
    const end = referenceOf((await harness.rpc.deriveRecord(fresh({}, [middle, source]))).record);
    const auditor = new ProvenanceParty(world.channel(AUDITOR), await world.now());
    const walk = async (from: RecordReference, direction: LineageDirection) => {
      const shown: string[] = [];
      let pageToken = '';
      do {
        const { objectType, objectId, version } = from;
        const request = { domainId: ACME, objectType, objectId, version, direction, pageSize: 2, pageToken };
        const page = await auditor.rpc.getLineage(request);
        shown.push(...page.nodes.map(({ depth, record }) => `${depth} ${record?.reference?.objectId}`));
        pageToken = page.nextPageToken;
      } while (pageToken !== '');
      return shown.sort();
    };
    expect(await walk(end, LineageDirection.ANCESTORS)).toEqual(
      [`0 ${end.objectId}`, `1 ${middle.objectId}`, '1 source', '2 mail'].sort(),
    );
    expect(await walk(source, LineageDirection.DESCENDANTS)).toEqual(
      ['0 source', `1 ${middle.objectId}`, `1 ${end.objectId}`].sort(),
    );
    await tamper(
      world,
      'provenance_records',
      "UPDATE provenance_records SET allowed_sinks = '{web}' WHERE object_id = $1",
      [middle.objectId],
    );
    const { reason, metadata } = await refusedWith(
      harness.rpc.getLineage({ ...end, domainId: '', direction: LineageDirection.ANCESTORS } as never),
    );
    expect([reason, metadata['record']]).toEqual([
      'DATA_CORRUPT',
      `provenance:model_output/${middle.objectId}/1`,
    ]);
    expect(await refusal(fresh({}, [middle]))).toBe('DATA_CORRUPT');
  });
});
