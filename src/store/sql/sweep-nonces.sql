-- Spent nonces whose carriers can verify no more. Each statement stays within one domain ($1), so that it runs on a store
-- that is sharded by domain, and reads its expired rows from the index on (domain_id, expires_at).

-- name: sweep_domains
-- Domains that have something to sweep; $1: how much longer than its carrier a replay nonce is kept, in microseconds.
SELECT d.domain_id FROM domains d, (SELECT surety_now() AS now) AS c
WHERE EXISTS (SELECT FROM replay_nonces n WHERE n.domain_id = d.domain_id AND n.expires_at < c.now - $1::bigint)
  OR EXISTS (SELECT FROM transition_nonces n WHERE n.domain_id = d.domain_id AND n.expires_at < c.now)

-- name: sweep_replay_nonces
-- $2 as above, $3: at most so many rows.
DELETE FROM replay_nonces WHERE domain_id = $1 AND nonce_key = ANY (ARRAY(
  SELECT n.nonce_key FROM replay_nonces n
  WHERE n.domain_id = $1 AND n.expires_at < (SELECT surety_now()) - $2::bigint
  ORDER BY n.expires_at, n.nonce_key LIMIT $3::integer))

-- name: sweep_transition_nonces
-- $2: at most so many rows.
DELETE FROM transition_nonces t USING (
  SELECT n.registration_id, n.nonce_digest FROM transition_nonces n
  WHERE n.domain_id = $1 AND n.expires_at < (SELECT surety_now())
  ORDER BY n.expires_at, n.registration_id, n.nonce_digest LIMIT $2::integer) AS s
WHERE t.domain_id = $1 AND t.registration_id = s.registration_id AND t.nonce_digest = s.nonce_digest
