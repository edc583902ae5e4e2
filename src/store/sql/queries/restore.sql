-- What `surety restore` walks through, in pages of its own transactions (effects.md, Restore).

-- name: domains_after
SELECT domain_id, status, frozen, freeze_reason, policy_revision, revocation_epoch FROM domains WHERE domain_id > $1 ORDER BY domain_id LIMIT $2

-- name: in_flight
SELECT p.effect_id, e.state, e.state_source, e.sink, e.fence, e.request_digest, e.event_id, e.grant_id, e.attempt_id
FROM (SELECT effect_id FROM pending_work WHERE domain_id = $1 AND effect_id > $2 ORDER BY effect_id LIMIT $3) AS p
LEFT JOIN LATERAL (
  SELECT state, state_source, sink, fence, request_digest, event_id, grant_id, attempt_id FROM effects
  WHERE domain_id = $1 AND effect_id = p.effect_id LIMIT 1
) AS e ON true
ORDER BY p.effect_id

-- name: actions_in_doubt
-- Governed actions that came to be GATED or DISPATCHED before the incarnation ($3), which may have been dispatched since the backup.
SELECT action_id, state, execution_digest FROM actions
WHERE domain_id = $1 AND action_id > $2 AND state IN ('GATED', 'DISPATCHED') AND state_incarnation < $3
ORDER BY action_id LIMIT $4
