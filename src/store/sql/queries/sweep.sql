-- Candidates of the sweeps: found outside of any lane, judged again inside of one. Per domain, so that each lookup is a
-- range of its index. The clock is read once, in a subquery: it is volatile, and compared as it is would be read for each
-- row that is not due, which are most.

-- name: late_prepared_effects
SELECT d.domain_id, e.effect_id FROM domains AS d
CROSS JOIN LATERAL (
  SELECT effect_id FROM effects
  WHERE domain_id = d.domain_id AND state = 'PREPARED' AND start_before <= (SELECT surety_now())
  ORDER BY start_before LIMIT $1
) AS e

-- name: prepared_effects_of_ended_grants
SELECT d.domain_id, e.effect_id FROM domains AS d
CROSS JOIN LATERAL (
  SELECT p.effect_id FROM effects AS p
  JOIN grants AS g ON g.domain_id = p.domain_id AND g.grant_id = p.grant_id
  JOIN harnesses AS h ON h.domain_id = g.domain_id AND h.harness_id = g.harness_id
  WHERE p.domain_id = d.domain_id AND p.state = 'PREPARED'
    AND (g.revoked_at IS NOT NULL OR g.policy_revision <> d.policy_revision OR g.credential_epoch <> h.credential_epoch)
  LIMIT $1
) AS e

-- name: lost_executions
SELECT d.domain_id, e.effect_id FROM domains AS d
CROSS JOIN LATERAL (
  SELECT effect_id FROM effects
  WHERE domain_id = d.domain_id AND state = 'EXECUTING' AND lost_at <= (SELECT surety_now())
  ORDER BY lost_at LIMIT $1
) AS e

-- name: expired_proposals
SELECT d.domain_id, a.action_id FROM domains AS d
CROSS JOIN LATERAL (
  SELECT action_id FROM actions
  WHERE domain_id = d.domain_id AND state = 'PROPOSED' AND proposal_expires_at <= (SELECT surety_now())
  ORDER BY proposal_expires_at LIMIT $1
) AS a

-- name: expired_action_leases
SELECT d.domain_id, a.action_id FROM domains AS d
CROSS JOIN LATERAL (
  SELECT action_id FROM actions
  WHERE domain_id = d.domain_id AND lease_token IS NOT NULL AND lease_expires_at <= (SELECT surety_now())
  ORDER BY lease_expires_at LIMIT $1
) AS a

-- name: unobservable_actions
-- DISPATCHED, without a lease, and past the end of what may be observed.
SELECT d.domain_id, a.action_id FROM domains AS d
CROSS JOIN LATERAL (
  SELECT action_id FROM actions
  WHERE domain_id = d.domain_id AND state = 'DISPATCHED' AND lease_token IS NULL AND observation_deadline <= (SELECT surety_now())
  ORDER BY observation_deadline LIMIT $1
) AS a
