-- Spent nonces whose carriers can verify no more. Each statement stays within one domain, so that it runs on a store
-- that is sharded by domain, and reads its expired rows from the index on (domain_id, expires_at), from where the sweep before
-- it came to: entries of rows that are gone stay in an index until the next vacuum, and would be passed again each time. Rows
-- are removed by where they lie: joined by their keys they could be looked for in all of the table.

-- name: sweep_domains
-- Domains that have something to sweep; $1: how much longer than its carrier a replay nonce is kept, in microseconds. From
-- where on, by domain ($2): of replay nonces ($3), and of those of transitions ($4).
SELECT d.domain_id FROM (SELECT surety_now() AS now) AS c CROSS JOIN domains AS d
LEFT JOIN unnest($2::text[], $3::bigint[], $4::bigint[]) AS p(domain_id, replay, transition) ON p.domain_id = d.domain_id
WHERE EXISTS (
    SELECT FROM replay_nonces n
    WHERE n.domain_id = d.domain_id AND n.expires_at >= coalesce(p.replay, 0) AND n.expires_at < c.now - $1::bigint
  ) OR EXISTS (
    SELECT FROM transition_nonces n
    WHERE n.domain_id = d.domain_id AND n.expires_at >= coalesce(p.transition, 0) AND n.expires_at < c.now
  )

-- name: sweep_replay_nonces
-- $1 the domain, $2: at most so many rows, $3 from where on, $4 as $1 above. Answers how many are gone, and how far they went.
WITH due AS MATERIALIZED (
  SELECT n.ctid AS place, n.expires_at FROM replay_nonces n
  WHERE n.domain_id = $1 AND n.expires_at >= $3::bigint AND n.expires_at < (SELECT surety_now()) - $4::bigint
  ORDER BY n.expires_at LIMIT $2::integer
), gone AS (
  DELETE FROM replay_nonces WHERE ctid = ANY (ARRAY(SELECT place FROM due)) RETURNING 1
)
SELECT (SELECT count(*) FROM gone) AS removed, (SELECT max(expires_at) FROM due) AS last_expires_at

-- name: sweep_transition_nonces
-- $1 to $3 as above.
WITH due AS MATERIALIZED (
  SELECT n.ctid AS place, n.expires_at FROM transition_nonces n
  WHERE n.domain_id = $1 AND n.expires_at >= $3::bigint AND n.expires_at < (SELECT surety_now())
  ORDER BY n.expires_at LIMIT $2::integer
), gone AS (
  DELETE FROM transition_nonces WHERE ctid = ANY (ARRAY(SELECT place FROM due)) RETURNING 1
)
SELECT (SELECT count(*) FROM gone) AS removed, (SELECT max(expires_at) FROM due) AS last_expires_at
