-- The log of a domain ($1), read in short statements of at most a thousand rows.

-- name: audit_page
SELECT seq, entry, leaf_hash, chain_hash, effect_id, effect_step
FROM audit_entries WHERE domain_id = $1 AND seq > $2::bigint ORDER BY seq LIMIT $3::integer

-- name: audit_head
-- The head and the last entry that is there, of one snapshot: one without the other is a finding.
SELECT h.seq, h.chain_hash,
  coalesce((SELECT a.seq FROM audit_entries a WHERE a.domain_id = $1 ORDER BY a.seq DESC LIMIT 1), 0) AS last_seq
FROM domain_heads h WHERE h.domain_id = $1

-- name: audit_steps
-- Where the steps ($2, $3) of effects stand in the log.
SELECT k.effect_id, k.effect_step, t.seq
FROM unnest($2::text[], $3::text[]::bigint[]) AS k(effect_id, effect_step)
CROSS JOIN LATERAL (
  SELECT seq FROM audit_entries
  WHERE domain_id = $1 AND effect_id = k.effect_id AND effect_step = k.effect_step LIMIT 1
) AS t

-- name: watched_heads
-- Heads of several domains ($1), for watchers.
SELECT h.domain_id, h.seq FROM unnest($1::text[]) AS k(domain_id)
CROSS JOIN LATERAL (SELECT domain_id, seq FROM domain_heads WHERE domain_id = k.domain_id LIMIT 1) AS h
