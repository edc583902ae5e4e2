import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  GetLineageRequestSchema,
  LineageDirection,
  ProvenanceService,
} from '../../../src/gen/surety/provenance/v1/provenance_service_pb.js';
import { ObjectType } from '../../../src/gen/surety/provenance/v1/record_pb.js';
import { provenanceService } from '../../../src/rpc/provenance-service.js';
import { loadStatements } from '../../../src/store/sql-files.js';
import { DOMAIN, type EffectWorld, HARNESS, openWorld, type Replica } from '../../support/effect-world.js';
import { contextOf, handlersOf, toolsOf } from '../../support/handlers.js';
import { GraphRows } from './graph-rows.js';

// Lineage over many records (SURETY_LINEAGE_RECORDS, in a run of its own: a million). What lies around the graph that is
// asked for has digests that nobody hashes again: only the walk meets it.
const RECORDS = Number(process.env['SURETY_LINEAGE_RECORDS'] ?? 20_000);
const DEPTH = 50;
const WIDTH = 4;
const MAX_WALK_ROWS = 20_000;

const { ANCESTORS, DESCENDANTS } = LineageDirection;

let world: EffectWorld;
let replica: Replica;
const graph = new GraphRows();
const name = (level: number, column: number): string => `g-${level}-${column % WIDTH}`;

/** Each record is made from two of the 200 before it, so that every walk of 50 levels meets thousands, by many ways. */
const NOISE = `
  INSERT INTO provenance_parents (domain_id, provenance_digest, parent_digest)
  SELECT $1, sha256(i::text::bytea), sha256((i - d)::text::bytea)
  FROM generate_series(200, $2::integer) AS i, LATERAL (VALUES (1 + i * 31 % 97), (98 + i * 17 % 89)) AS v(d);
`;
const NOISE_RECORDS = `
  INSERT INTO provenance_records (domain_id, object_type, object_id, version, provenance_digest, content_digest,
    classification, policy_revision, allowed_sinks, tainted, reviewed, scan_pending, origin_kind, parent_digests, recorded_at)
  SELECT $1, 'artifact', 'noise-' || i, 1, sha256(i::text::bytea), sha256(i::text::bytea), 2, 1, '{}', true, false, true,
    CASE WHEN i < 200 THEN 'system' END, CASE WHEN i < 200 THEN '{}' ELSE ARRAY[sha256((i - 1)::text::bytea)] END, 1
  FROM generate_series(1, $2::integer) AS i
`;

beforeAll(async () => {
  world = await openWorld();
  replica = world.replica();
  for (let column = 0; column < WIDTH; column += 1) graph.origin(name(0, column));
  for (let level = 1; level <= DEPTH; level += 1) {
    for (let column = 0; column < WIDTH; column += 1) {
      graph.derived(name(level, column), [name(level - 1, column), name(level - 1, column + 1)]);
    }
  }
  // The statements are prepared while there is nothing, as they are in a young domain.
  await graph.store(world);
  await lineage(name(3, 0), ANCESTORS);
  await lineage(name(3, 0), DESCENDANTS);
  await world.admin.query(NOISE, [DOMAIN, RECORDS]);
  await world.admin.query(NOISE_RECORDS, [DOMAIN, RECORDS]);
}, 1_200_000);

afterAll(() => world.close(), 120_000);

function lineage(objectId: string, direction: LineageDirection) {
  const objectType = objectId.startsWith('g-0') ? ObjectType.ARTIFACT : ObjectType.MODEL_OUTPUT;
  const request = create(GetLineageRequestSchema, {
    objectType,
    objectId,
    direction,
    pageSize: 1000,
    version: 1n,
  });
  const handlers = handlersOf(ProvenanceService, provenanceService(toolsOf(replica)));
  return handlers.getLineage(request, contextOf(HARNESS, 'harness'));
}

/** In a run of its own it tells how long; no statement of a read lasts longer than 2 s (`src/store/pg-reader.ts`). */
async function timed<T>(what: string, work: () => Promise<T>): Promise<T> {
  const started = performance.now();
  const result = await work();
  const ms = performance.now() - started;
  if (process.env['SURETY_LINEAGE_RECORDS'] !== undefined) {
    process.stdout.write(`${what} over ${RECORDS} records: ${ms.toFixed(1)} ms\n`);
  }
  return result;
}

/** The parameters of a walk from a record in the middle of everything. */
async function walkFrom(from: number) {
  const digest = await world.admin.query('SELECT sha256($1::text::bytea) AS digest', [String(from)]);
  return [DOMAIN, digest.rows[0].digest as Buffer, DEPTH, MAX_WALK_ROWS, -1, Buffer.alloc(0), 101].map(
    (value) => (typeof value === 'number' ? String(value) : value),
  );
}

describe(`lineage of depth ${DEPTH} among ${RECORDS} records`, () => {
  test.each([
    ['ancestors', ANCESTORS, name(DEPTH, 0), name(0, 0)],
    ['descendants', DESCENDANTS, name(0, 0), name(DEPTH, 0)],
  ])(
    '%s',
    async (what, direction, from, to) => {
      for (const run of ['first', 'again']) {
        const { nodes, truncated } = await timed(`${what}, ${run}`, () => lineage(from, direction));
        expect(truncated).toBe(false);
        const at = (depth: number) => nodes?.filter((node) => node.depth === depth).length;
        expect([at(0), at(1), at(2), at(DEPTH)]).toEqual([1, 2, 3, WIDTH]);
        const names = nodes?.map(({ record }) => record?.reference?.objectId);
        expect(names).toContain(to);
        expect(names).toHaveLength(1 + 2 + 3 + WIDTH * (DEPTH - 2));
      }
    },
    30_000,
  );

  test.each([
    ['provenance_ancestors', RECORDS],
    ['provenance_descendants', 200],
  ])(
    '%s of a record with thousands of relatives ends at the limit',
    async (statement, from) => {
      const parameters = await walkFrom(from);
      for (const run of ['first', 'again']) {
        const rows = await timed(`${statement}, cut at ${MAX_WALK_ROWS}, ${run}`, () =>
          replica.reader.query<{ depth: number; objectId: string; truncated: boolean }>(
            statement,
            parameters,
          ),
        );
        expect(rows).toHaveLength(101);
        expect(rows[0]).toMatchObject({ depth: 0, objectId: `noise-${from}`, truncated: true });
      }
    },
    30_000,
  );

  test.each(['provenance_ancestors', 'provenance_descendants'])(
    '%s reads indexes only, also by a plan for any values',
    async (statement) => {
      const text = loadStatements('./sql/queries').get(statement) as string;
      const types = 'text, bytea, integer, integer, integer, bytea, integer';
      await world.admin.query(
        `SET plan_cache_mode = force_generic_plan; PREPARE walk_of (${types}) AS ${text}`,
      );
      const { rows } = await world.admin.query(
        `EXPLAIN (COSTS OFF) EXECUTE walk_of ('${DOMAIN}', '\\x00', ${DEPTH}, ${MAX_WALK_ROWS}, -1, '', 100)`,
      );
      await world.admin.query('DEALLOCATE walk_of; RESET plan_cache_mode');
      const plan = rows.map((row) => row['QUERY PLAN'] as string).join('\n');
      expect(plan).not.toMatch(/Seq Scan/);
      expect(plan.match(/Index (Only )?Scan/g)?.length).toBeGreaterThanOrEqual(2);
    },
  );
});
