-- Effects of a domain ($1), read in short statements that look at a bounded number of rows.

-- name: effects_after
-- Effects behind a fence ($2) in the order of their fences, and how far was looked. At most $3 rows are looked at, whatever
-- the filter leaves of them, so that a rare match costs many short statements and never a long one; at most $4 are
-- answered. One row comes in any case, without an effect where none matched.
-- $5 where to look: `all`, `unknown` (the few that nobody knows the outcome of) or `events` (those of $6).
-- Filter, empty for any: $7 state, $8 sink, $9 explicit key; $10 least age in microseconds; $11 sinks, null for any.
WITH scanned AS MATERIALIZED (
  SELECT * FROM (
    (
      SELECT effect_id, fence, state, sink, effect_key, reserved_at FROM effects
      WHERE domain_id = $1 AND fence > $2::bigint AND $5::text = 'all' ORDER BY fence LIMIT $3::integer
    ) UNION ALL (
      SELECT effect_id, fence, state, sink, effect_key, reserved_at FROM effects
      WHERE domain_id = $1 AND fence > $2::bigint AND state = 'UNKNOWN' AND $5::text = 'unknown'
      ORDER BY fence LIMIT $3::integer
    ) UNION ALL (
      SELECT e.* FROM unnest($6::text[]) AS k(event_id)
      CROSS JOIN LATERAL (
        SELECT effect_id, fence, state, sink, effect_key, reserved_at FROM effects
        WHERE domain_id = $1 AND event_id = k.event_id AND fence > $2::bigint ORDER BY fence LIMIT $3::integer
      ) AS e
      WHERE $5::text = 'events'
    )
  ) AS found
  ORDER BY fence LIMIT $3::integer
)
SELECT matched.effect_id, matched.fence, seen.last_fence, seen.scanned
FROM (SELECT max(fence) AS last_fence, count(*) AS scanned FROM scanned) AS seen
LEFT JOIN (
  SELECT effect_id, fence FROM scanned
  WHERE ($7::text = '' OR state = $7) AND ($8::text = '' OR sink = $8) AND ($9::text = '' OR effect_key = $9)
    AND reserved_at <= (SELECT surety_now()) - $10::bigint AND ($11::text[] IS NULL OR sink = ANY ($11))
  ORDER BY fence LIMIT $4::integer
) AS matched ON true
ORDER BY matched.fence

-- name: sinks_of_systems
-- The sinks that one of the systems ($2) may settle.
SELECT sink, authority_systems FROM sinks WHERE domain_id = $1 AND authority_systems && $2::text[]

-- name: effect_history
-- The log's entries of one effect ($2) after a step ($3).
SELECT seq, entry, leaf_hash, effect_step FROM audit_entries
WHERE domain_id = $1 AND effect_id = $2 AND effect_step > $3::bigint ORDER BY effect_step LIMIT $4::integer

-- name: effect_entries_after
-- The next $3 entries of the log behind a position ($2); of those about effects, at one sink ($4) or any (empty), with the
-- bytes and what says who may see the effect.
SELECT a.seq, a.effect_id, CASE WHEN $4::text = '' OR e.sink = $4 THEN a.entry END AS entry,
  CASE WHEN $4::text = '' OR e.sink = $4 THEN a.leaf_hash END AS leaf_hash,
  e.sink, e.event_id, e.grant_id, e.harness_id, e.executor_registration_id, e.reconciler_registration_id
FROM (
  SELECT seq, effect_id, CASE WHEN effect_id IS NOT NULL THEN entry END AS entry, leaf_hash FROM audit_entries
  WHERE domain_id = $1 AND seq > $2::bigint ORDER BY seq LIMIT $3::integer
) AS a
LEFT JOIN LATERAL (
  (
    SELECT sink, event_id, grant_id, harness_id, executor_registration_id, reconciler_registration_id FROM effects
    WHERE domain_id = $1 AND effect_id = a.effect_id LIMIT 1
  ) UNION ALL (
    SELECT sink, event_id, grant_id, harness_id, executor_registration_id, reconciler_registration_id FROM effect_tombstones
    WHERE domain_id = $1 AND effect_id = a.effect_id LIMIT 1
  )
) AS e ON true
ORDER BY a.seq
