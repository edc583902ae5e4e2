-- Candidates of the sweeps: found outside of any lane, judged again inside of one. Per domain, so that each lookup is a
-- range of its index, and of each domain $2 are passed over. The clock is read once, in a subquery: it is volatile, and compared as it is would be read for each
-- row that is not due, which are most.

-- name: late_prepared_effects
SELECT d.domain_id, e.effect_id FROM domains AS d
CROSS JOIN LATERAL (
  SELECT effect_id FROM effects
  WHERE domain_id = d.domain_id AND state = 'PREPARED' AND start_before <= (SELECT surety_now())
  ORDER BY start_before LIMIT $1 OFFSET $2
) AS e

-- name: prepared_effects_of_ended_grants
-- No index says which grants have ended, so what is not settled is walked in the order of its index, in pages: behind a place
-- ($1 domain, $2 grant, $3 event, $4 effect) at most $5 are looked at, however many there are. Answers where the page ended,
-- how many were looked at, and of them what is PREPARED under a grant that was revoked or went stale; one row in any case.
WITH looked AS MATERIALIZED (
  SELECT domain_id, grant_id, event_id, effect_id, state FROM effects
  WHERE (domain_id, grant_id, event_id, effect_id) > ($1::text, $2::text, $3::text, $4::text)
    AND state IN ('PREPARED', 'EXECUTING', 'UNKNOWN')
  ORDER BY domain_id, grant_id, event_id, effect_id LIMIT $5::integer
), ended AS (
  SELECT l.domain_id, l.effect_id FROM looked AS l
  CROSS JOIN LATERAL (SELECT policy_revision FROM domains WHERE domain_id = l.domain_id LIMIT 1) AS d
  CROSS JOIN LATERAL (
    SELECT revoked_at, policy_revision, credential_epoch, harness_id FROM grants
    WHERE domain_id = l.domain_id AND grant_id = l.grant_id LIMIT 1
  ) AS g
  CROSS JOIN LATERAL (
    SELECT credential_epoch FROM harnesses WHERE domain_id = l.domain_id AND harness_id = g.harness_id LIMIT 1
  ) AS h
  WHERE l.state = 'PREPARED'
    AND (g.revoked_at IS NOT NULL OR g.policy_revision <> d.policy_revision OR g.credential_epoch <> h.credential_epoch)
)
SELECT seen.looked_at, last.domain_id AS last_domain_id, last.grant_id AS last_grant_id, last.event_id AS last_event_id,
  last.effect_id AS last_effect_id, found.domain_id, found.effect_id
FROM (SELECT count(*) AS looked_at FROM looked) AS seen
LEFT JOIN (
  SELECT * FROM looked ORDER BY domain_id DESC, grant_id DESC, event_id DESC, effect_id DESC LIMIT 1
) AS last ON true
LEFT JOIN ended AS found ON true

-- name: lost_executions
SELECT d.domain_id, e.effect_id FROM domains AS d
CROSS JOIN LATERAL (
  SELECT effect_id FROM effects
  WHERE domain_id = d.domain_id AND state = 'EXECUTING' AND lost_at <= (SELECT surety_now())
  ORDER BY lost_at LIMIT $1 OFFSET $2
) AS e

-- name: expired_proposals
SELECT d.domain_id, a.action_id FROM domains AS d
CROSS JOIN LATERAL (
  SELECT action_id FROM actions
  WHERE domain_id = d.domain_id AND state = 'PROPOSED' AND proposal_expires_at <= (SELECT surety_now())
  ORDER BY proposal_expires_at LIMIT $1 OFFSET $2
) AS a

-- name: expired_action_leases
SELECT d.domain_id, a.action_id FROM domains AS d
CROSS JOIN LATERAL (
  SELECT action_id FROM actions
  WHERE domain_id = d.domain_id AND lease_token IS NOT NULL AND lease_expires_at <= (SELECT surety_now())
  ORDER BY lease_expires_at LIMIT $1 OFFSET $2
) AS a

-- name: unobservable_actions
-- DISPATCHED, without a lease, and past the end of what may be observed.
SELECT d.domain_id, a.action_id FROM domains AS d
CROSS JOIN LATERAL (
  SELECT action_id FROM actions
  WHERE domain_id = d.domain_id AND state = 'DISPATCHED' AND lease_token IS NULL AND observation_deadline <= (SELECT surety_now())
  ORDER BY observation_deadline LIMIT $1 OFFSET $2
) AS a
