import type pg from 'pg';
import { expect } from 'vitest';
import { decodeEntry } from '../../src/lane/decode-entry.js';
import { genesisHash } from '../../src/ledger/audit/chain.js';
import { ChainVerifier } from '../../src/ledger/audit/verify-chain.js';
import { TABLES } from '../../src/store/tables.js';
import { DOMAIN } from '../support/effect-world.js';

const ALL_TABLES = ['service_state', 'domains', 'domain_heads', 'lanes', ...Object.keys(TABLES)];

/** Everything in the database, as one digest per table: equal before and after means that nothing was written. */
export async function fingerprint(admin: pg.Client): Promise<Record<string, string>> {
  const parts = ALL_TABLES.map(
    (table) =>
      `SELECT '${table}' AS name, count(*) || ' ' || md5(coalesce(string_agg(t::text, '|' ORDER BY t::text COLLATE "C"), '')) AS digest FROM ${table} AS t`,
  );
  const { rows } = await admin.query<{ name: string; digest: string }>(parts.join(' UNION ALL '));
  return Object.fromEntries(rows.map((row) => [row.name, row.digest]));
}

/** Each is a query for what must not be there; a row is a violation. */
const FORBIDDEN: Readonly<Record<string, string>> = {
  'uses of a grant are its reservations': `SELECT g.grant_id, g.uses, count(e.effect_id) AS reservations FROM grants g
    LEFT JOIN effects e USING (domain_id, grant_id) GROUP BY g.domain_id, g.grant_id, g.uses HAVING g.uses <> count(e.effect_id)`,
  'an effect that is not terminal is pending work, any other is not': `SELECT effect_id, state FROM effects e
    FULL JOIN pending_work p USING (domain_id, effect_id)
    WHERE (p.effect_id IS NOT NULL) <> coalesce(state IN ('PREPARED', 'EXECUTING', 'UNKNOWN'), false)`,
  "a domain's counter of pending work is its rows": `SELECT h.domain_id, h.pending, count(p.effect_id) AS rows FROM domain_heads h
    LEFT JOIN pending_work p USING (domain_id) GROUP BY h.domain_id, h.pending HAVING h.pending <> count(p.effect_id)`,
  "a sink's counter of what is not known is its effects": `SELECT sink, c.unknown, e.unknown AS effects FROM sink_counters c
    FULL JOIN (SELECT domain_id, sink, count(*) AS unknown FROM effects WHERE state = 'UNKNOWN' GROUP BY 1, 2) e USING (domain_id, sink)
    WHERE coalesce(c.unknown, 0) <> coalesce(e.unknown, 0)`,
  'the histogram of a window is its actors': `SELECT h.domain_id FROM domain_heads h
    WHERE (SELECT coalesce(array_agg(ROW(w.window_calls, w.actors)::text ORDER BY w.window_calls), '{}')
        FROM (SELECT window_calls, count(*) AS actors FROM actor_counters a
          WHERE a.domain_id = h.domain_id AND a.window_start = h.window_start AND a.window_calls > 0 GROUP BY 1) w)
      <> (SELECT coalesce(array_agg(ROW(s.calls, s.actors)::text ORDER BY s.calls), '{}')
        FROM unnest(h.served_calls, h.served_actors) AS s(calls, actors))`,
  'a fence is given out once, and none is lost': `SELECT h.domain_id, h.fence_counter, count(e.fence) AS fences FROM domain_heads h
    LEFT JOIN effects e USING (domain_id) GROUP BY h.domain_id, h.fence_counter
    HAVING h.fence_counter <> count(DISTINCT e.fence) OR count(e.fence) <> count(DISTINCT e.fence)`,
  'steps of an effect are its entries of the log': `SELECT e.effect_id, e.step, count(a.seq) AS entries FROM effects e
    LEFT JOIN audit_entries a USING (domain_id, effect_id) GROUP BY e.domain_id, e.effect_id, e.step
    HAVING e.step <> count(a.seq) OR e.step <> max(a.effect_step)`,
  'every nonce was spent by a receipt': `SELECT n.registration_id FROM transition_nonces n WHERE NOT EXISTS (SELECT FROM transitions t
    WHERE (t.domain_id, t.registration_id, t.statement_digest) = (n.domain_id, n.registration_id, n.statement_digest))`,
  'every receipt spent its nonce': `SELECT t.effect_id, t.step FROM transitions t WHERE NOT EXISTS (SELECT FROM transition_nonces n
    WHERE (n.domain_id, n.registration_id, n.statement_digest) = (t.domain_id, t.registration_id, t.statement_digest))`,
  'every state that a workload made has its receipt': `SELECT e.effect_id, e.state FROM effects e
    WHERE e.state_source IN ('executor', 'reconciler') AND NOT EXISTS (SELECT FROM transitions t
    WHERE (t.domain_id, t.effect_id, t.step, t.to_state) = (e.domain_id, e.effect_id, e.state_step, e.state))`,
  'every terminal state that a workload made has its output': `SELECT e.effect_id FROM effects e
    WHERE e.state IN ('SUCCEEDED', 'FAILED', 'CANCELLED') AND e.state_source IN ('executor', 'reconciler')
    AND NOT EXISTS (SELECT FROM provenance_records p
    WHERE (p.domain_id, p.object_id, p.provenance_digest) = (e.domain_id, 'effect-output:' || e.effect_id, e.output_digest))`,
  'every reservation has its decision, every allowed decision its use': `SELECT e.effect_id, d.decision_id FROM effects e
    FULL JOIN (SELECT * FROM decisions WHERE allowed AND action <> 'effect.cancel') d USING (domain_id, decision_id)
    WHERE e.effect_id IS NULL OR d.decision_id IS NULL`,
  'every event has its record': `SELECT v.event_id FROM events v WHERE NOT EXISTS (SELECT FROM provenance_records p
    WHERE (p.domain_id, p.object_type, p.object_id, p.provenance_digest) = (v.domain_id, v.object_type, v.event_id, v.provenance_digest))`,
};

/** What holds after any batch, whatever happened on the way: counters, pending work, receipts, nonces, and the whole log. */
export async function expectSound(admin: pg.Client, domainId = DOMAIN): Promise<void> {
  for (const [promise, query] of Object.entries(FORBIDDEN)) {
    const { rows } = await admin.query(query);
    expect(rows, promise).toEqual([]);
  }
  await expectWholeChain(admin, domainId);
}

/** Verifies the domain's log from its first entry to its head. */
export async function expectWholeChain(admin: pg.Client, domainId = DOMAIN): Promise<void> {
  const verifier = new ChainVerifier(domainId, decodeEntry, { seq: 0n, chainHash: genesisHash(domainId) });
  const { rows } = await admin.query(
    'SELECT seq, entry, leaf_hash, chain_hash, effect_id, effect_step FROM audit_entries WHERE domain_id = $1 ORDER BY seq',
    [domainId],
  );
  const findings = rows.flatMap((row) =>
    verifier.add({
      seq: BigInt(row.seq),
      entry: row.entry,
      leafHash: row.leaf_hash,
      chainHash: row.chain_hash,
      effect: { effectId: row.effect_id, step: row.effect_step === null ? null : BigInt(row.effect_step) },
    }),
  );
  const head = await admin.query('SELECT seq, chain_hash FROM domain_heads WHERE domain_id = $1', [domainId]);
  findings.push(
    ...verifier.finish({ seq: BigInt(head.rows[0].seq), chainHash: head.rows[0].chain_hash as Buffer }),
  );
  expect(findings, `the log of ${domainId}`).toEqual([]);
}
