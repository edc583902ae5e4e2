import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  GetLineageRequestSchema,
  type GetLineageResponseSchema,
  LineageDirection,
  LineageNodeSchema,
  ProvenanceService,
} from '../../../src/gen/surety/provenance/v1/provenance_service_pb.js';
import { ObjectType } from '../../../src/gen/surety/provenance/v1/record_pb.js';
import { MAX_STEPS } from '../../../src/ledger/provenance/derivation.js';
import { provenanceService } from '../../../src/rpc/provenance-service.js';
import { callerOf, type EffectWorld, HARNESS, openWorld, type Replica } from '../../support/effect-world.js';
import { contextOf, handlersOf, reasonOf, toolsOf } from '../../support/handlers.js';
import { GraphRows } from './graph-rows.js';
import type { MessageInitShape } from '@bufbuild/protobuf';
import { toBinary } from '@bufbuild/protobuf';
import { FIXTURE_NOW } from '../../support/ledger-fixture.js';

type Lineage = MessageInitShape<typeof GetLineageResponseSchema>;

const { ANCESTORS, DESCENDANTS } = LineageDirection;
const PAGE_BYTES = 2 * 1024 * 1024;

let world: EffectWorld;
let replica: Replica;
/** mail and page → draft → answer, which is also made from mail; letter from answer; memo from page. */
const graph = new GraphRows();

beforeAll(async () => {
  world = await openWorld();
  replica = world.replica();
  graph.origin('mail');
  graph.origin('page');
  graph.derived('draft', ['mail', 'page']);
  graph.derived('answer', ['draft', 'mail']);
  graph.derived('letter', ['answer']);
  graph.derived('memo', ['page']);
  await graph.store(world);
});

afterAll(() => world.close());

function lineage(name: string, over: object = {}, context = contextOf(HARNESS, 'harness')): Promise<Lineage> {
  const origin = !graph.records.get(name)?.parentDigests.length;
  const request = create(GetLineageRequestSchema, {
    objectType: origin ? ObjectType.ARTIFACT : ObjectType.MODEL_OUTPUT,
    objectId: name,
    version: 1n,
    direction: ANCESTORS,
    ...over,
  });
  return handlersOf(ProvenanceService, provenanceService(toolsOf(replica))).getLineage(request, context);
}

/** Names with their depth, in the order of the answer. */
function shown({ nodes }: Lineage): string[] {
  return (nodes ?? []).map(({ depth, record }) => `${depth} ${record?.reference?.objectId}`);
}

/** The same, sorted: within a depth the order is that of digests. */
const walk = async (name: string, over: object = {}) => shown(await lineage(name, over)).sort();

describe('GetLineage (provenance-audit-replay.md, Provenance)', () => {
  test('walks what a record was made from, each record once at its least depth', async () => {
    expect(await walk('letter')).toEqual(['0 letter', '1 answer', '2 draft', '2 mail', '3 page']);
    expect(await walk('mail')).toEqual(['0 mail']);
  });

  test('walks what was made of a record', async () => {
    expect(await walk('page', { direction: DESCENDANTS })).toEqual([
      '0 page',
      '1 draft',
      '1 memo',
      '2 answer',
      '3 letter',
    ]);
    expect(await walk('mail', { direction: DESCENDANTS })).toEqual([
      '0 mail',
      '1 answer',
      '1 draft',
      '2 letter',
    ]);
  });

  test('goes as deep as asked', async () => {
    expect(await walk('letter', { maxDepth: 1 })).toEqual(['0 letter', '1 answer']);
    expect(await walk('page', { maxDepth: 2, direction: DESCENDANTS })).toEqual([
      '0 page',
      '1 draft',
      '1 memo',
      '2 answer',
    ]);
  });

  test('is a graph: every edge can be drawn from the parents that records name', async () => {
    const { nodes } = await lineage('letter');
    const edges = (nodes ?? []).flatMap(({ record }) =>
      (record?.parentDigests ?? []).map((parent) => `${record?.reference?.objectId} ${graph.nameOf(parent)}`),
    );
    expect(edges.sort()).toEqual([
      'answer draft',
      'answer mail',
      'draft mail',
      'draft page',
      'letter answer',
    ]);
    expect(nodes?.[1]?.record?.steps).toHaveLength(1);
  });

  test.each([1, 2, 3, 4])('is the same in pages of %d', async (pageSize) => {
    const whole = shown(await lineage('page', { direction: DESCENDANTS }));
    const paged: string[] = [];
    let pageToken = '';
    do {
      const page = await lineage('page', { direction: DESCENDANTS, pageSize, pageToken });
      expect(page.nodes?.length).toBeLessThanOrEqual(pageSize);
      paged.push(...shown(page));
      pageToken = page.nextPageToken ?? '';
    } while (pageToken !== '');
    expect(paged).toEqual(whole);
  });

  test('a token is good for its own walk only', async () => {
    const { nextPageToken: pageToken } = await lineage('letter', { pageSize: 1 });
    for (const over of [{ direction: DESCENDANTS }, { maxDepth: 3 }, { version: 0n }, { pageToken: 'x' }]) {
      expect(await reasonOf(lineage('letter', { pageToken, ...over }))).toBe('FIELD_INVALID');
    }
    expect(await reasonOf(lineage('answer', { pageToken }))).toBe('FIELD_INVALID');
  });

  test('the newest version stays the one that the first page began at', async () => {
    const versions = new GraphRows();
    versions.origin('source');
    versions.derived('doc', ['source']);
    await versions.store(world);
    const request = { objectType: ObjectType.MODEL_OUTPUT, version: 0n, pageSize: 1 };
    const first = await lineage('doc', request);
    const next = new GraphRows();
    next.records.set('source', versions.get('source'));
    next.derived('doc', ['source'], { version: 2n, predecessorDigest: versions.get('doc').provenanceDigest });
    next.records.delete('source');
    await next.store(world);
    const second = await lineage('doc', { ...request, pageToken: first.nextPageToken });
    expect([...shown(first), ...shown(second)]).toEqual(['0 doc', '1 source']);
    expect((await lineage('doc', request)).nodes?.[0]?.record?.reference?.version).toBe(2n);
  });

  test('a page of large records has fewer', async () => {
    const large = new GraphRows();
    large.origin('root');
    const text = 'x'.repeat(512);
    const step = { operation: text, implementation: text, executor: text };
    const steps = Array.from({ length: MAX_STEPS }, (_, i) => ({
      kind: 'model' as const,
      implementationVersion: '1',
      inputDigests: [],
      outputDigest: Buffer.alloc(32, i),
      startedAt: FIXTURE_NOW,
      completedAt: FIXTURE_NOW,
      ...step,
    }));
    for (let i = 0; i < 50; i += 1) large.derived(`large-${i}`, ['root'], { steps });
    await large.store(world);
    const sizes: number[] = [];
    const names = new Set<string>();
    let pageToken = '';
    do {
      const page = await lineage('root', { direction: DESCENDANTS, pageSize: 1000, pageToken });
      const nodes = (page.nodes ?? []).map((node) => create(LineageNodeSchema, node));
      sizes.push(nodes.reduce((sum, node) => sum + toBinary(LineageNodeSchema, node).length, 0));
      for (const name of shown(page)) names.add(name);
      pageToken = page.nextPageToken ?? '';
    } while (pageToken !== '');
    expect(sizes.length).toBeGreaterThan(1);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(PAGE_BYTES);
    expect(names.size).toBe(51);
  });

  test('malformed requests name every field', async () => {
    const bad = lineage('', { direction: 0, maxDepth: 65, pageSize: -1, version: -1n });
    await expect(bad).rejects.toMatchObject({
      refusal: {
        violations: [
          { field: 'object_id' },
          { field: 'version' },
          { field: 'direction' },
          { field: 'max_depth' },
          { field: 'page_size' },
        ],
      },
    });
  });

  test('what is not there, and who may not see it, look alike', async () => {
    expect(await reasonOf(lineage('nothing'))).toBe('NOT_VISIBLE');
    expect(await reasonOf(lineage('mail', { version: 2n }))).toBe('NOT_VISIBLE');
    const stranger = contextOf(callerOf('spiffe://acme.test/auditor/nobody'), 'auditor');
    expect(await reasonOf(lineage('mail', {}, stranger))).toBe('NOT_VISIBLE');
  });
});

describe('a lineage that was changed', () => {
  /** As a superuser could, with the triggers of the table off. */
  async function tamper(table: string, sql: string, parameters: unknown[]): Promise<void> {
    await world.admin.query(`ALTER TABLE ${table} DISABLE TRIGGER USER`);
    await world.admin.query(sql, parameters);
    await world.admin.query(`ALTER TABLE ${table} ENABLE TRIGGER USER`);
  }

  async function chain(names: readonly string[]): Promise<GraphRows> {
    const rows = new GraphRows();
    for (const [i, name] of names.entries()) {
      if (i === 0) rows.origin(name);
      else rows.derived(name, [names[i - 1] as string]);
    }
    await rows.store(world);
    return rows;
  }

  const ofOutput = { objectType: ObjectType.MODEL_OUTPUT };

  test('a changed record is named, and what is nearer is still shown', async () => {
    await chain(['c1', 'c2', 'c3']);
    await tamper(
      'provenance_records',
      'UPDATE provenance_records SET classification = 1 WHERE object_id = $1',
      ['c2'],
    );
    await expect(lineage('c3', ofOutput)).rejects.toMatchObject({
      refusal: { reason: 'DATA_CORRUPT', metadata: { record: 'provenance:model_output/c2/1' } },
    });
    expect(shown(await lineage('c3', { ...ofOutput, pageSize: 1 }))).toEqual(['0 c3']);
  });

  test('a changed step, a missing edge and an edge too many are found', async () => {
    const rows = await chain(['d1', 'd2', 'd3']);
    const named = {
      refusal: { reason: 'DATA_CORRUPT', metadata: { record: 'provenance:model_output/d2/1' } },
    };
    const digest = rows.get('d2').provenanceDigest;
    const of = 'WHERE provenance_digest = $1';
    await tamper('provenance_steps', `UPDATE provenance_steps SET executor = 'x' ${of}`, [digest]);
    await expect(lineage('d3', ofOutput)).rejects.toMatchObject(named);
    await tamper('provenance_steps', `UPDATE provenance_steps SET executor = 'planner' ${of}`, [digest]);
    expect(shown(await lineage('d3', ofOutput))).toHaveLength(3);
    const edge = { provenanceDigest: digest, parentDigest: rows.get('d3').provenanceDigest };
    await world.seed('provenance_parents', [edge]);
    await expect(lineage('d3', ofOutput)).rejects.toMatchObject(named);
    await tamper('provenance_parents', `DELETE FROM provenance_parents ${of}`, [digest]);
    await expect(lineage('d3', ofOutput)).rejects.toMatchObject(named);
  });

  test('an edge to a record that is gone names its digest', async () => {
    const rows = await chain(['e1', 'e2']);
    await tamper('provenance_records', 'DELETE FROM provenance_records WHERE object_id = $1', ['e1']);
    const record = `provenance:${rows.get('e1').provenanceDigest.toString('hex')}`;
    await expect(lineage('e2', ofOutput)).rejects.toMatchObject({
      refusal: { reason: 'DATA_CORRUPT', metadata: { record } },
    });
  });
});
