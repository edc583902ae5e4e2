-- What the archival looks for (effects.md, Archival). Candidates are found outside of any lane and judged again inside.

-- name: archive_domains
-- Domains behind an id ($1), at most $2.
SELECT domain_id FROM domains WHERE domain_id > $1 ORDER BY domain_id LIMIT $2::integer

-- name: archivable_effects
-- Effects that were settled at least $2 microseconds ago, behind ($3, $4) in the order of settlement, at most $5.
SELECT effect_id, settled_at FROM effects
WHERE domain_id = $1 AND settled_at IS NOT NULL AND NOT disputed AND settled_at <= (SELECT surety_now()) - $2::bigint
  AND settled_at >= $3::bigint AND (settled_at, effect_id) > ($3::bigint, $4::text)
ORDER BY settled_at, effect_id LIMIT $5::integer

-- name: last_archive
SELECT archive_number, archive_id, log_last_seq, log_chain_hash FROM archives
WHERE domain_id = $1 ORDER BY archive_number DESC LIMIT 1
