-- What batches read of governed actions (actions.md), in the manner of gather.sql.
-- A lookup of one row asks for the last column of its index as a range of one value, in order: made while the table is empty, a
-- plan for equality alone may take any index that begins with the domain, since all of them cost the same then.

-- name: actions_of_keys
SELECT t.found FROM unnest($2::text[]) AS k(id)
CROSS JOIN LATERAL (SELECT {actions} FROM actions WHERE domain_id = $1 AND idempotency_key >= k.id AND idempotency_key <= k.id ORDER BY idempotency_key LIMIT 1) AS t

-- name: actions_of_effects
SELECT t.found FROM unnest($2::text[]) AS k(id)
CROSS JOIN LATERAL (SELECT {actions} FROM actions WHERE domain_id = $1 AND effect_id >= k.id AND effect_id <= k.id ORDER BY effect_id LIMIT 1) AS t

-- name: gates_of_approvals
SELECT t.found FROM unnest($2::text[]) AS k(id)
CROSS JOIN LATERAL (
  SELECT {action_receipts} FROM action_receipts
  WHERE domain_id = $1 AND external_id >= k.id AND external_id <= k.id AND receipt_class = 'gate' AND status = 'passed'
  ORDER BY external_id LIMIT 1
) AS t

-- name: gates_of_decisions
SELECT t.found FROM unnest($2::text[]) AS k(id)
CROSS JOIN LATERAL (
  SELECT {action_receipts} FROM action_receipts WHERE domain_id = $1 AND decision_id >= k.id AND decision_id <= k.id
  ORDER BY decision_id LIMIT 1
) AS t

-- name: events_of_requests
SELECT t.found FROM unnest($2::text[], $3::bytea[]) AS k(action_id, request_digest)
CROSS JOIN LATERAL (
  SELECT {action_events} FROM action_events
  WHERE domain_id = $1 AND action_id = k.action_id AND request_digest >= k.request_digest
    AND request_digest <= k.request_digest ORDER BY request_digest LIMIT 1
) AS t

-- name: leases_of_holders
SELECT t.found FROM unnest($2::text[], $3::text[]) AS k(action_id, spiffe_id)
CROSS JOIN LATERAL (
  SELECT {action_leases} FROM action_leases WHERE domain_id = $1 AND action_id = k.action_id AND holder_spiffe_id = k.spiffe_id
  ORDER BY lease_token LIMIT 1
) AS t

-- name: leases_of_requests
SELECT t.found FROM unnest($2::text[], $3::text[]) AS k(spiffe_id, request_id)
CROSS JOIN LATERAL (
  SELECT {action_leases} FROM action_leases WHERE domain_id = $1 AND holder_spiffe_id = k.spiffe_id AND request_id >= k.request_id AND request_id <= k.request_id ORDER BY request_id LIMIT 1
) AS t

-- name: actions_of_lease_requests
SELECT t.found FROM unnest($2::text[], $3::text[]) AS k(spiffe_id, request_id)
CROSS JOIN LATERAL (
  SELECT action_id FROM action_leases
  WHERE domain_id = $1 AND holder_spiffe_id = k.spiffe_id AND request_id >= k.request_id AND request_id <= k.request_id ORDER BY request_id LIMIT 1
) AS l
CROSS JOIN LATERAL (SELECT {actions} FROM actions WHERE domain_id = $1 AND action_id >= l.action_id AND action_id <= l.action_id ORDER BY action_id LIMIT 1) AS t

-- part: found_in_scopes
-- What each scope has next: of every pair of source and type in it, the first that are ready, and of these the first. The
-- pairs are walked from one to the next in the index, so that neither what is not ready nor what is out of scope is read.
-- A scope without a limit needs no pairs, however many there are: it has an index in the order of turns.
-- $2 source, or how it begins; $3 whether exactly; $4 types, $5 actions, $6 states, each a list as text; $7 how many.
WITH clock AS MATERIALIZED (
  SELECT greatest(surety_now(), (SELECT last_time FROM domain_heads WHERE domain_id = $1)) AS now
)
SELECT t.found FROM (
  SELECT DISTINCT r.action_id
  FROM unnest($2::text[], $3::boolean[], $4::text[], $5::text[], $6::text[]) AS k(source, exact, types, ids, states)
  CROSS JOIN LATERAL (
    SELECT c.action_id FROM (
      SELECT a.action_id, a.next_attempt_at, a.created_at
      FROM unnest(CASE WHEN k.ids = '{}' AND k.source = '' AND NOT k.exact AND k.types = '{}' THEN k.states::text[] ELSE '{}' END) AS s(state)
      CROSS JOIN LATERAL (
        SELECT action_id, next_attempt_at, created_at FROM actions
        WHERE domain_id = $1 AND state = s.state
          AND lease_token IS NULL AND state IN ('GATED', 'DISPATCHED', 'ACCEPTED', 'VERIFIED')
          AND next_attempt_at <= (SELECT now FROM clock)
        ORDER BY next_attempt_at, created_at, action_id LIMIT $7::integer
      ) AS a
      UNION ALL
      SELECT a.action_id, a.next_attempt_at, a.created_at
      FROM unnest(CASE WHEN k.ids = '{}' AND NOT (k.source = '' AND NOT k.exact AND k.types = '{}') THEN k.states::text[] ELSE '{}' END) AS s(state)
      CROSS JOIN LATERAL (
        WITH RECURSIVE pairs AS (
          (
            SELECT source, type FROM actions
            WHERE domain_id = $1 AND state = s.state AND source >= k.source
              AND lease_token IS NULL AND state IN ('GATED', 'DISPATCHED', 'ACCEPTED', 'VERIFIED')
            ORDER BY source, type LIMIT 1
          )
          UNION ALL
          SELECT n.source, n.type FROM pairs AS p
          CROSS JOIN LATERAL (
            SELECT source, type FROM actions
            WHERE domain_id = $1 AND state = s.state AND (source, type) > (p.source, p.type)
              AND lease_token IS NULL AND state IN ('GATED', 'DISPATCHED', 'ACCEPTED', 'VERIFIED')
            ORDER BY source, type LIMIT 1
          ) AS n
          WHERE CASE WHEN k.exact THEN p.source = k.source ELSE starts_with(p.source, k.source) END
        )
        SELECT source, type FROM pairs
        WHERE CASE WHEN k.exact THEN source = k.source ELSE starts_with(source, k.source) END
          AND (k.types = '{}' OR type = ANY (k.types::text[]))
      ) AS g
      CROSS JOIN LATERAL (
        SELECT action_id, next_attempt_at, created_at FROM actions
        WHERE domain_id = $1 AND state = s.state AND source = g.source AND type = g.type
          AND lease_token IS NULL AND state IN ('GATED', 'DISPATCHED', 'ACCEPTED', 'VERIFIED')
          AND next_attempt_at <= (SELECT now FROM clock)
        ORDER BY next_attempt_at, created_at, action_id LIMIT $7::integer
      ) AS a
      UNION ALL
      SELECT a.action_id, a.next_attempt_at, a.created_at FROM unnest(k.ids::text[]) AS i(action_id)
      CROSS JOIN LATERAL (
        SELECT action_id, next_attempt_at, created_at, state, source, type, lease_token FROM actions
        WHERE domain_id = $1 AND action_id >= i.action_id AND action_id <= i.action_id ORDER BY action_id LIMIT 1
      ) AS a
      WHERE a.lease_token IS NULL AND a.state = ANY (k.states::text[]) AND a.next_attempt_at <= (SELECT now FROM clock)
        AND CASE WHEN k.exact THEN a.source = k.source ELSE starts_with(a.source, k.source) END
        AND (k.types = '{}' OR a.type = ANY (k.types::text[]))
    ) AS c
    ORDER BY c.next_attempt_at, c.created_at, c.action_id LIMIT $7::integer
  ) AS r
) AS found

-- name: ready_actions
-- include found_in_scopes
CROSS JOIN LATERAL (SELECT {actions} FROM actions WHERE domain_id = $1 AND action_id >= found.action_id AND action_id <= found.action_id ORDER BY action_id LIMIT 1) AS t

-- name: recovery_of_ready_actions
-- The same again, for the contracts and journals of those that are DISPATCHED.
-- include found_in_scopes
CROSS JOIN LATERAL (
  SELECT state FROM actions WHERE domain_id = $1 AND action_id >= found.action_id AND action_id <= found.action_id ORDER BY action_id LIMIT 1
) AS d
CROSS JOIN LATERAL (VALUES ('recovery'), ('observation')) AS c(class)
CROSS JOIN LATERAL (
  SELECT {action_receipts} FROM action_receipts WHERE domain_id = $1 AND action_id = found.action_id AND receipt_class = c.class
  ORDER BY receipt_key LIMIT 101
) AS t
WHERE d.state = 'DISPATCHED'

-- name: expired_leases
SELECT t.found FROM (
  SELECT action_id FROM actions
  WHERE domain_id = $1 AND lease_token IS NOT NULL
    AND lease_expires_at <= (SELECT greatest(surety_now(), last_time) FROM domain_heads WHERE domain_id = $1)
  ORDER BY lease_expires_at, action_id LIMIT $2::integer
) AS found
CROSS JOIN LATERAL (SELECT {actions} FROM actions WHERE domain_id = $1 AND action_id >= found.action_id AND action_id <= found.action_id ORDER BY action_id LIMIT 1) AS t

-- name: recovery_of_expired_leases
SELECT t.found FROM (
  SELECT action_id FROM actions
  WHERE domain_id = $1 AND lease_token IS NOT NULL
    AND lease_expires_at <= (SELECT greatest(surety_now(), last_time) FROM domain_heads WHERE domain_id = $1)
  ORDER BY lease_expires_at, action_id LIMIT $2::integer
) AS found
CROSS JOIN LATERAL (
  SELECT state FROM actions WHERE domain_id = $1 AND action_id >= found.action_id AND action_id <= found.action_id ORDER BY action_id LIMIT 1
) AS d
CROSS JOIN LATERAL (VALUES ('recovery'), ('observation')) AS c(class)
CROSS JOIN LATERAL (
  SELECT {action_receipts} FROM action_receipts WHERE domain_id = $1 AND action_id = found.action_id AND receipt_class = c.class
  ORDER BY receipt_key LIMIT 101
) AS t
WHERE d.state = 'DISPATCHED'

-- name: receipts_of
SELECT t.found FROM unnest($2::text[], $3::text[]) AS k(action_id, receipt_class)
CROSS JOIN LATERAL (
  SELECT {action_receipts} FROM action_receipts WHERE domain_id = $1 AND action_id = k.action_id AND receipt_class = k.receipt_class
  ORDER BY receipt_key LIMIT 101
) AS t

-- name: tools_of_actions
SELECT t.found FROM unnest($2::text[]) AS k(id)
CROSS JOIN LATERAL (SELECT tool_name FROM actions WHERE domain_id = $1 AND action_id >= k.id AND action_id <= k.id ORDER BY action_id LIMIT 1) AS a
CROSS JOIN LATERAL (SELECT {tools} FROM tools WHERE domain_id = $1 AND tool_name >= a.tool_name AND tool_name <= a.tool_name ORDER BY tool_name LIMIT 1) AS t

-- name: conditions_of_actions
SELECT t.found FROM unnest($2::text[]) AS k(id)
CROSS JOIN LATERAL (SELECT type FROM actions WHERE domain_id = $1 AND action_id >= k.id AND action_id <= k.id ORDER BY action_id LIMIT 1) AS a
CROSS JOIN LATERAL (SELECT {action_conditions} FROM action_conditions WHERE domain_id = $1 AND action_type >= a.type AND action_type <= a.type ORDER BY action_type LIMIT 1) AS t

-- name: gates_of_actions
SELECT t.found FROM unnest($2::text[]) AS k(id)
CROSS JOIN LATERAL (
  SELECT {action_receipts} FROM action_receipts WHERE domain_id = $1 AND action_id = k.id AND receipt_class = 'gate'
  ORDER BY receipt_key LIMIT 101
) AS t

-- name: owners_of_gates
SELECT t.found FROM unnest($2::text[]) AS k(id)
CROSS JOIN LATERAL (
  SELECT approver_spiffe_id FROM action_receipts WHERE domain_id = $1 AND action_id = k.id AND receipt_class = 'gate'
  ORDER BY receipt_key LIMIT 101
) AS g
CROSS JOIN LATERAL (SELECT {owners} FROM owners WHERE domain_id = $1 AND spiffe_id >= g.approver_spiffe_id AND spiffe_id <= g.approver_spiffe_id ORDER BY spiffe_id LIMIT 1) AS t

-- name: bounded_grants_of_gates
SELECT t.found FROM unnest($2::text[]) AS k(id)
CROSS JOIN LATERAL (
  SELECT bounded_grant_id FROM action_receipts WHERE domain_id = $1 AND action_id = k.id AND receipt_class = 'gate'
  ORDER BY receipt_key LIMIT 101
) AS g
CROSS JOIN LATERAL (
  SELECT {bounded_grants} FROM bounded_grants WHERE domain_id = $1 AND bounded_grant_id >= g.bounded_grant_id AND bounded_grant_id <= g.bounded_grant_id ORDER BY bounded_grant_id LIMIT 1
) AS t

-- name: owners_of_bounded_grants
SELECT t.found FROM unnest($2::text[]) AS k(id)
CROSS JOIN LATERAL (SELECT owner_spiffe_id FROM bounded_grants WHERE domain_id = $1 AND bounded_grant_id >= k.id AND bounded_grant_id <= k.id ORDER BY bounded_grant_id LIMIT 1) AS g
CROSS JOIN LATERAL (SELECT {owners} FROM owners WHERE domain_id = $1 AND spiffe_id >= g.owner_spiffe_id AND spiffe_id <= g.owner_spiffe_id ORDER BY spiffe_id LIMIT 1) AS t
