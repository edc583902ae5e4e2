-- Governed actions of a domain ($1), read in short statements that look at a bounded number of rows.

-- name: owner_signing_key
-- An owner's key by its thumbprint ($2). Whose it is, and whether it still is, is judged in the transaction.
SELECT signing_key_jwk FROM owners WHERE domain_id = $1 AND signing_key_thumbprint = $2 LIMIT 1

-- name: actions_after
-- Actions behind a position ($2) in the order of their proposals, and how far was looked. At most $3 rows are looked at,
-- whatever the filter leaves of them; at most $4 are answered. One row comes in any case, without an action where none
-- matched. $5: only those of this proposer, found by it (as a range of its index, since by an equation the planner also takes the
-- order of the proposals, and reads everybody's); empty for any. $6: only those that this party has proposed or ever
-- held; empty for any. Filter, empty for any: $7 state, $8 source, $9 type; $10 sources and $11 types, null for any.
WITH scanned AS MATERIALIZED (
  SELECT * FROM (
    (
      SELECT action_id, proposed_seq, state, source, type, proposer_spiffe_id FROM actions
      WHERE domain_id = $1 AND proposed_seq > $2::bigint AND $5::text = '' ORDER BY proposed_seq LIMIT $3::integer
    ) UNION ALL (
      SELECT action_id, proposed_seq, state, source, type, proposer_spiffe_id FROM actions
      WHERE domain_id = $1 AND $5::text <> '' AND (proposer_spiffe_id, proposed_seq) > ($5::text, $2::bigint)
        AND proposer_spiffe_id <= $5::text
      ORDER BY proposer_spiffe_id, proposed_seq LIMIT $3::integer
    )
  ) AS found
  ORDER BY proposed_seq LIMIT $3::integer
)
SELECT matched.action_id, matched.proposed_seq, seen.last_seq, seen.scanned
FROM (SELECT max(proposed_seq) AS last_seq, count(*) AS scanned FROM scanned) AS seen
LEFT JOIN (
  SELECT s.action_id, s.proposed_seq FROM scanned AS s
  LEFT JOIN LATERAL (
    SELECT lease_token FROM action_leases
    WHERE domain_id = $1 AND action_id = s.action_id AND holder_spiffe_id = $6::text ORDER BY lease_token LIMIT 1
  ) AS held ON true
  WHERE ($6::text = '' OR s.proposer_spiffe_id = $6 OR held.lease_token IS NOT NULL)
    AND ($7::text = '' OR s.state = $7) AND ($8::text = '' OR s.source = $8) AND ($9::text = '' OR s.type = $9)
    AND ($10::text[] IS NULL OR s.source = ANY ($10)) AND ($11::text[] IS NULL OR s.type = ANY ($11))
  ORDER BY s.proposed_seq LIMIT $4::integer
) AS matched ON true
ORDER BY matched.proposed_seq

-- name: action_receipts_after
-- Receipts of an action ($2) behind an event of it ($3), in the order in which they were recorded.
SELECT * FROM action_receipts
WHERE domain_id = $1 AND action_id = $2 AND event_number > $3::bigint ORDER BY event_number LIMIT $4::integer

-- name: action_events_after
-- The log's entries of the events of an action ($2) behind one of them ($3).
SELECT e.action_id, e.event_number, a.seq, a.entry, a.leaf_hash FROM (
  SELECT action_id, event_number, audit_seq FROM action_events
  WHERE domain_id = $1 AND action_id = $2 AND event_number > $3::bigint ORDER BY event_number LIMIT $4::integer
) AS e
CROSS JOIN LATERAL (
  SELECT seq, entry, leaf_hash FROM audit_entries WHERE domain_id = $1 AND seq = e.audit_seq LIMIT 1
) AS a
ORDER BY e.event_number

-- name: dead_letters_after
-- Dead letters behind a position ($2) in the order of the log, and how far was looked; the limits ($3, $4) and the row that
-- comes in any case are those of `actions_after`. $5: only for this reason; empty for any. $6: only of actions that this party
-- has proposed or ever held; empty for any. $7 sources and $8 types, null for any.
WITH scanned AS MATERIALIZED (
  SELECT * FROM dead_letters
  WHERE domain_id = $1 AND audit_seq > $2::bigint ORDER BY audit_seq LIMIT $3::integer
)
SELECT matched.*, seen.last_seq, seen.scanned
FROM (SELECT max(audit_seq) AS last_seq, count(*) AS scanned FROM scanned) AS seen
LEFT JOIN (
  SELECT s.* FROM scanned AS s
  CROSS JOIN LATERAL (
    SELECT source, type, proposer_spiffe_id FROM actions WHERE domain_id = $1 AND action_id = s.action_id LIMIT 1
  ) AS a
  LEFT JOIN LATERAL (
    SELECT lease_token FROM action_leases
    WHERE domain_id = $1 AND action_id = s.action_id AND holder_spiffe_id = $6::text ORDER BY lease_token LIMIT 1
  ) AS held ON true
  WHERE ($5::text = '' OR s.failure_reason = $5)
    AND ($6::text = '' OR a.proposer_spiffe_id = $6 OR held.lease_token IS NOT NULL)
    AND ($7::text[] IS NULL OR a.source = ANY ($7)) AND ($8::text[] IS NULL OR a.type = ANY ($8))
  ORDER BY s.audit_seq LIMIT $4::integer
) AS matched ON true
ORDER BY matched.audit_seq

-- name: action_entries_after
-- The next $3 entries of the log behind a position ($2); of those about actions, or about one ($4; empty for any), with the
-- bytes and what says who may see it: $5 is the party that asks.
SELECT a.seq, e.action_id, e.event_number, CASE WHEN $4::text = '' OR e.action_id = $4 THEN a.entry END AS entry,
  CASE WHEN $4::text = '' OR e.action_id = $4 THEN a.leaf_hash END AS leaf_hash,
  x.source, x.type, x.proposer_spiffe_id, held.lease_token IS NOT NULL AS held
FROM (
  SELECT seq, entry, leaf_hash FROM audit_entries
  WHERE domain_id = $1 AND seq > $2::bigint ORDER BY seq LIMIT $3::integer
) AS a
LEFT JOIN LATERAL (
  SELECT action_id, event_number FROM action_events WHERE domain_id = $1 AND audit_seq = a.seq LIMIT 1
) AS e ON true
LEFT JOIN LATERAL (
  SELECT source, type, proposer_spiffe_id FROM actions WHERE domain_id = $1 AND action_id = e.action_id LIMIT 1
) AS x ON true
LEFT JOIN LATERAL (
  SELECT lease_token FROM action_leases
  WHERE domain_id = $1 AND action_id = e.action_id AND holder_spiffe_id = $5::text ORDER BY lease_token LIMIT 1
) AS held ON true
ORDER BY a.seq

-- name: actions_there
-- Those of some actions ($2) that there are.
SELECT t.action_id FROM unnest($2::text[]) AS k(action_id)
CROSS JOIN LATERAL (
  SELECT action_id FROM actions WHERE domain_id = $1 AND action_id >= k.action_id AND action_id <= k.action_id ORDER BY action_id LIMIT 1
) AS t

-- name: reapable_actions
-- What an operator reaps: leases that ran out, and DISPATCHED actions that nobody holds and that can be observed no more; at
-- most $2 of each.
WITH clock AS MATERIALIZED (
  SELECT greatest(surety_now(), (SELECT last_time FROM domain_heads WHERE domain_id = $1)) AS now
)
(
  SELECT action_id FROM actions
  WHERE domain_id = $1 AND lease_token IS NOT NULL AND lease_expires_at <= (SELECT now FROM clock)
  ORDER BY lease_expires_at LIMIT $2::integer
) UNION ALL (
  SELECT action_id FROM actions
  WHERE domain_id = $1 AND state = 'DISPATCHED' AND lease_token IS NULL
    AND observation_deadline <= (SELECT now FROM clock)
  ORDER BY observation_deadline LIMIT $2::integer
)
