import pg from 'pg';
import { auditCodec } from '../../src/lane/audit-codec.js';
import { decodeEntry } from '../../src/lane/decode-entry.js';
import { genesisHash } from '../../src/ledger/audit/chain.js';
import { ChainVerifier } from '../../src/ledger/audit/verify-chain.js';
import { effectOutput, shownEffectReads } from '../../src/ledger/effect/effect-output.js';
import { readEffect } from '../../src/ledger/effect/verified-effect.js';
import { Draft } from '../../src/ledger/working-set.js';
import { serviceRole } from '../../src/store/migrate-roles.js';
import { PgReader } from '../../src/store/pg-reader.js';
import { DOMAIN, SINK } from '../world/names.js';
import type { LoadPlan } from './load-effects.js';

const PAGE = 10_000;
/** Of a longer log the last entries are verified, from a position on: the whole would take longer than the load. */
const VERIFIED_ENTRIES = 250_000;
const SAMPLES = 100;

/**
 * Holds a load against the product's own words: its verifier on the log, its reads on a sample of effects with their
 * outputs, and its counters against the rows.
 *
 * @throws Error with what does not match
 */
export async function verifyLoad(
  url: string,
  plan: LoadPlan,
  onProgress: (what: string) => void,
): Promise<void> {
  const sql = new pg.Client({ connectionString: url });
  await sql.connect();
  const reader = new PgReader({ url, role: serviceRole, applicationName: 'surety-bench' }, 2, auditCodec);
  try {
    onProgress('verifying what was loaded');
    await verifyLog(sql);
    await verifySample(sql, reader);
    await verifyCounts(sql, plan);
  } finally {
    await reader.close();
    await sql.end();
  }
}

async function verifyLog(sql: pg.Client): Promise<void> {
  const { rows: heads } = await sql.query<{ seq: string; chain_hash: Buffer }>(
    'SELECT seq, chain_hash FROM domain_heads WHERE domain_id = $1',
    [DOMAIN],
  );
  const head = { seq: BigInt(heads[0]?.seq ?? 0), chainHash: heads[0]?.chain_hash ?? Buffer.alloc(0) };
  const from = head.seq > VERIFIED_ENTRIES ? head.seq - BigInt(VERIFIED_ENTRIES) : 0n;
  const verifier = new ChainVerifier(DOMAIN, decodeEntry, { seq: from, chainHash: await chainAt(sql, from) });
  const findings = [];
  for (let after = from; after < head.seq; ) {
    const { rows } = await sql.query<EntryRow>(
      `SELECT seq, entry, leaf_hash, chain_hash, effect_id, effect_step FROM audit_entries
       WHERE domain_id = $1 AND seq > $2 ORDER BY seq LIMIT $3`,
      [DOMAIN, after.toString(), PAGE],
    );
    for (const row of rows) findings.push(...verifier.add(entryOf(row)));
    if (rows.length === 0) break;
    after = BigInt(rows.at(-1)?.seq ?? 0);
  }
  findings.push(...verifier.finish(head));
  const [first] = findings;
  if (first)
    throw new Error(`the loaded log has ${findings.length} findings, first ${first.finding} at ${first.seq}`);
}

interface EntryRow {
  readonly seq: string;
  readonly entry: Buffer;
  readonly leaf_hash: Buffer;
  readonly chain_hash: Buffer;
  readonly effect_id: string | null;
  readonly effect_step: string | null;
}

function entryOf(row: EntryRow) {
  return {
    seq: BigInt(row.seq),
    entry: row.entry,
    leafHash: row.leaf_hash,
    chainHash: row.chain_hash,
    effect: { effectId: row.effect_id, step: row.effect_step === null ? null : BigInt(row.effect_step) },
  };
}

async function chainAt(sql: pg.Client, seq: bigint): Promise<Buffer> {
  if (seq === 0n) return genesisHash(DOMAIN);
  const { rows } = await sql.query<{ chain_hash: Buffer }>(
    'SELECT chain_hash FROM audit_entries WHERE domain_id = $1 AND seq = $2',
    [DOMAIN, seq.toString()],
  );
  return rows[0]?.chain_hash ?? Buffer.alloc(0);
}

/** Effects all over the table, as a reader is shown them: each against its last entry, each output against its digest. */
async function verifySample(sql: pg.Client, reader: PgReader): Promise<void> {
  const { rows } = await sql.query<{ effect_id: string; state: string }>(
    `SELECT e.effect_id, e.state FROM generate_series(1, $2::integer) AS n
     CROSS JOIN LATERAL (
       SELECT effect_id, state FROM effects WHERE domain_id = $1 AND fence >= (
         SELECT min(fence) + (n * (max(fence) - min(fence))) / $2::integer FROM effects WHERE domain_id = $1)
       ORDER BY fence LIMIT 1
     ) AS e`,
    [DOMAIN, SAMPLES],
  );
  const ids = [...new Set(rows.map((row) => row.effect_id))];
  const set = await reader.gather(DOMAIN, shownEffectReads(ids));
  if (!set) throw new Error('the domain is not there');
  const draft = new Draft(set);
  for (const id of ids) {
    const effect = readEffect(draft, id);
    if (!effect) throw new Error(`effect ${id} is not there`);
    const settled = ['SUCCEEDED', 'FAILED', 'CANCELLED'].includes(effect.state);
    if (settled !== (effectOutput(draft, effect) !== undefined))
      throw new Error(`the output of ${id} is not there`);
  }
}

async function verifyCounts(sql: pg.Client, plan: LoadPlan): Promise<void> {
  const { rows } = await sql.query<Record<string, string>>(
    `SELECT (SELECT count(*) FROM effects WHERE domain_id = $1) AS effects,
       (SELECT pending FROM domain_heads WHERE domain_id = $1) AS pending,
       (SELECT count(*) FROM pending_work WHERE domain_id = $1) AS pending_rows,
       (SELECT unknown FROM sink_counters WHERE domain_id = $1 AND sink = $2) AS unknown,
       (SELECT count(*) FROM effects WHERE domain_id = $1 AND sink = $2 AND state = 'UNKNOWN') AS unknown_rows,
       (SELECT sum(uses) FROM grants WHERE domain_id = $1) AS uses`,
    [DOMAIN, SINK],
  );
  const counted = rows[0] ?? {};
  const same = (a: string, b: string): void => {
    if (Number(counted[a]) !== Number(counted[b]))
      throw new Error(`${a} is ${counted[a]}, and ${b} ${counted[b]}`);
  };
  same('pending', 'pending_rows');
  same('unknown', 'unknown_rows');
  same('uses', 'effects');
  if (Number(counted['effects']) < plan.effects) throw new Error(`${counted['effects']} effects were loaded`);
}
