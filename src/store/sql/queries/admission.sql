-- What is counted for admission (authority.md, Admission; effects.md, Cost of not knowing). Numbers, names and ids alone.

-- name: actors_admission_page
-- The counters of a domain's actors ($1) behind one ($2), at most $3, each with its nonces and the clock that it was read by.
SELECT a.*, n.first_bucket, n.counts, (SELECT surety_now()) AS read_at FROM (
  SELECT * FROM actor_counters WHERE domain_id = $1 AND actor > $2 ORDER BY actor LIMIT $3::integer
) AS a
LEFT JOIN LATERAL (
  SELECT first_bucket, counts FROM replay_callers
  WHERE domain_id = $1 AND spiffe_id = substr(a.actor, length('caller:') + 1) AND a.actor LIKE 'caller:%' LIMIT 1
) AS n ON true
ORDER BY a.actor

-- name: sinks_admission
-- The sinks of a domain ($1), at most $2, with what is counted of them and since when the oldest effect is UNKNOWN.
SELECT s.sink, s.breaker_threshold, s.breaker_reset, s.unknown_ceiling, s.unknown_age,
  coalesce(c.breaker, 'closed') AS breaker, coalesce(c.failures, 0) AS failures, c.opened_at, c.probe_effect_id,
  coalesce(c.unknown, 0) AS unknown, e.unknown_at AS oldest_unknown_at
FROM (SELECT * FROM sinks WHERE domain_id = $1 ORDER BY sink LIMIT $2::integer) AS s
LEFT JOIN LATERAL (SELECT * FROM sink_counters WHERE domain_id = $1 AND sink = s.sink LIMIT 1) AS c ON true
LEFT JOIN LATERAL (
  SELECT unknown_at FROM effects WHERE domain_id = $1 AND sink = s.sink AND state = 'UNKNOWN' AND c.unknown > 0
  ORDER BY unknown_at LIMIT 1
) AS e ON true
ORDER BY s.sink

-- name: watched_sinks
-- Of all domains, the sinks about which something is to be told: their breaker is not closed, or an effect is UNKNOWN. At
-- most $1, by domain and name.
SELECT c.domain_id, c.sink, c.breaker, c.unknown, s.unknown_ceiling, s.unknown_age,
  e.unknown_at AS oldest_unknown_at, (SELECT surety_now()) AS read_at
FROM (
  SELECT * FROM sink_counters WHERE breaker <> 'closed' OR unknown > 0 ORDER BY domain_id, sink LIMIT $1::integer
) AS c
CROSS JOIN LATERAL (SELECT * FROM sinks WHERE domain_id = c.domain_id AND sink = c.sink LIMIT 1) AS s
LEFT JOIN LATERAL (
  SELECT unknown_at FROM effects WHERE domain_id = c.domain_id AND sink = c.sink AND state = 'UNKNOWN' AND c.unknown > 0
  ORDER BY unknown_at LIMIT 1
) AS e ON true
ORDER BY c.domain_id, c.sink

-- name: pending_of_domains
-- The domains with pending work, at most $1, by name.
SELECT h.domain_id, h.pending, d.pending_ceiling
FROM (SELECT domain_id, pending FROM domain_heads WHERE pending > 0 ORDER BY domain_id LIMIT $1::integer) AS h
CROSS JOIN LATERAL (SELECT pending_ceiling FROM domains WHERE domain_id = h.domain_id LIMIT 1) AS d
ORDER BY h.domain_id
