-- What batches read, by keys ($2 and further) of one domain ($1). Every lookup by several keys goes through a LATERAL
-- subquery with LIMIT, so that a plan made while a table was empty still uses its exact index when it is full.
-- An ORDER BY does the same where there is no least number: it keeps the lookup from being joined the other way around.
-- Where a table has several indexes that begin with the domain, a lookup of one row asks for the last column as a range of one
-- value, in order: to an empty table all of these indexes cost the same, and the plan would keep any of them.
-- Where a record has at most so many rows, the LIMIT is one more, so that a row too many is found.
-- Lookups by a table's own key are generated from the table descriptions; these are the joined ones.

-- A row travels as one value, `{effects}` (sql-files.ts), beside what the joins above it need of it: all its columns would be
-- described anew at each level of the joins, whenever the statement is begun.

-- Whatever of it is there: the caller, and if it is a harness that one, its owner, and what it is counted by.
-- name: harness_callers
SELECT c.found, h.found, p.found, g.found, a.found
FROM unnest($2::text[]) AS k(spiffe_id)
CROSS JOIN LATERAL (SELECT {callers}, ref_id, kind FROM callers WHERE domain_id = $1 AND spiffe_id = k.spiffe_id LIMIT 1) AS c
LEFT JOIN LATERAL (SELECT {harnesses}, owner_id, owner_kind FROM harnesses WHERE domain_id = $1 AND harness_id = c.ref_id AND c.kind = 'harness' LIMIT 1) AS h ON true
LEFT JOIN LATERAL (SELECT {principals} FROM principals WHERE domain_id = $1 AND principal_id = h.owner_id AND h.owner_kind = 'principal' LIMIT 1) AS p ON true
LEFT JOIN LATERAL (SELECT {guests} FROM guests WHERE domain_id = $1 AND guest_id = h.owner_id AND h.owner_kind = 'guest' LIMIT 1) AS g ON true
LEFT JOIN LATERAL (SELECT {actor_counters} FROM actor_counters WHERE domain_id = $1 AND actor = 'harness:' || c.ref_id AND c.kind = 'harness' LIMIT 1) AS a ON true

-- Those that are active and have not expired, all of them: any may be the one of the caller's certificate. And the last ones, which
-- say why where none is good.
-- name: credentials_of_spiffe_ids
SELECT t.found FROM unnest($2::text[]) AS k(spiffe_id)
CROSS JOIN LATERAL (
  (
    SELECT {credentials} FROM credentials
    WHERE domain_id = $1 AND spiffe_id = k.spiffe_id AND status = 'active'
      AND expires_at > (SELECT greatest(surety_now(), last_time) FROM domain_heads WHERE domain_id = $1)
    ORDER BY expires_at DESC, credential_id DESC
  )
  UNION ALL
  (SELECT {credentials} FROM credentials WHERE domain_id = $1 AND spiffe_id = k.spiffe_id ORDER BY expires_at DESC, credential_id DESC LIMIT 32)
) AS t

-- name: principals_of_harnesses
SELECT t.found FROM unnest($2::text[]) AS k(id)
CROSS JOIN LATERAL (SELECT owner_id FROM harnesses WHERE domain_id = $1 AND harness_id = k.id AND owner_kind = 'principal' LIMIT 1) AS h
CROSS JOIN LATERAL (SELECT {principals} FROM principals WHERE domain_id = $1 AND principal_id = h.owner_id LIMIT 1) AS t

-- name: guests_of_harnesses
SELECT t.found FROM unnest($2::text[]) AS k(id)
CROSS JOIN LATERAL (SELECT owner_id FROM harnesses WHERE domain_id = $1 AND harness_id = k.id AND owner_kind = 'guest' LIMIT 1) AS h
CROSS JOIN LATERAL (SELECT {guests} FROM guests WHERE domain_id = $1 AND guest_id = h.owner_id LIMIT 1) AS t

-- name: entitlements_of
SELECT t.found FROM unnest($2::text[], $3::text[], $4::text[]) AS k(principal_id, action, resource)
CROSS JOIN LATERAL (VALUES (k.resource), ('*')) AS r(resource)
CROSS JOIN LATERAL (
  SELECT {entitlements} FROM entitlements
  WHERE domain_id = $1 AND principal_id = k.principal_id AND action = k.action AND resource >= r.resource AND resource <= r.resource ORDER BY resource LIMIT 1
) AS t

-- name: entitlements_of_callers
SELECT t.found FROM unnest($2::text[], $3::text[], $4::text[]) AS k(spiffe_id, action, resource)
CROSS JOIN LATERAL (SELECT ref_id FROM callers WHERE domain_id = $1 AND spiffe_id = k.spiffe_id AND kind = 'harness' LIMIT 1) AS c
CROSS JOIN LATERAL (SELECT owner_id FROM harnesses WHERE domain_id = $1 AND harness_id = c.ref_id AND owner_kind = 'principal' LIMIT 1) AS h
CROSS JOIN LATERAL (VALUES (k.resource), ('*')) AS r(resource)
CROSS JOIN LATERAL (
  SELECT {entitlements} FROM entitlements
  WHERE domain_id = $1 AND principal_id = h.owner_id AND action = k.action AND resource >= r.resource AND resource <= r.resource ORDER BY resource LIMIT 1
) AS t

-- The newest, and those within the 300 s before it: one question is denied for one reason and then for another, each of them
-- once a minute, and there are fewer reasons than 32. What allows a cancel is good for 300 s.
-- name: denials_of
SELECT t.found FROM unnest($2::bytea[]) AS k(denial_key)
CROSS JOIN LATERAL (
  SELECT decided_at FROM decisions WHERE domain_id = $1 AND denial_key = k.denial_key ORDER BY decided_at DESC LIMIT 1
) AS newest
CROSS JOIN LATERAL (
  SELECT {decisions} FROM decisions
  WHERE domain_id = $1 AND denial_key = k.denial_key AND decided_at >= newest.decided_at - 300000000
  ORDER BY decided_at DESC LIMIT 32
) AS t

-- name: entitlements_of_decisions
SELECT t.found FROM unnest($2::text[]) AS k(id)
CROSS JOIN LATERAL (SELECT entitlement_id FROM decisions WHERE domain_id = $1 AND decision_id = k.id LIMIT 1) AS d
CROSS JOIN LATERAL (SELECT {entitlements} FROM entitlements WHERE domain_id = $1 AND entitlement_id >= d.entitlement_id AND entitlement_id <= d.entitlement_id ORDER BY entitlement_id LIMIT 1) AS t

-- name: grants_of_decisions
SELECT t.found FROM unnest($2::text[]) AS k(id)
CROSS JOIN LATERAL (SELECT grant_id FROM decisions WHERE domain_id = $1 AND decision_id = k.id LIMIT 1) AS d
CROSS JOIN LATERAL (SELECT {grants} FROM grants WHERE domain_id = $1 AND grant_id = d.grant_id LIMIT 1) AS t

-- name: events_with_provenance
SELECT e.found, p.found
FROM unnest($2::text[]) AS k(id)
CROSS JOIN LATERAL (SELECT {events}, object_type FROM events WHERE domain_id = $1 AND event_id = k.id LIMIT 1) AS e
LEFT JOIN LATERAL (
  SELECT {provenance_records} FROM provenance_records
  WHERE domain_id = $1 AND object_type = e.object_type AND object_id >= k.id AND object_id <= k.id AND version = 1
  ORDER BY object_id LIMIT 1
) AS p ON true

-- name: sinks_with_counters
SELECT s.found, c.found
FROM unnest($2::text[]) AS k(sink)
LEFT JOIN LATERAL (SELECT {sinks} FROM sinks WHERE domain_id = $1 AND sink = k.sink LIMIT 1) AS s ON true
LEFT JOIN LATERAL (
  SELECT {sink_counters} FROM sink_counters WHERE domain_id = $1 AND sink >= k.sink AND sink <= k.sink ORDER BY sink LIMIT 1
) AS c ON true

-- Those in force, all of them: one that is left out hides what it is for. And the one that lasts longest, for the reason where
-- none is in force.
-- name: registrations_of_spiffe_ids
SELECT t.found FROM unnest($2::text[]) AS k(spiffe_id)
CROSS JOIN LATERAL (
  (
    SELECT {registrations} FROM registrations
    WHERE domain_id = $1 AND spiffe_id = k.spiffe_id
      AND expires_at > (SELECT greatest(surety_now(), last_time) FROM domain_heads WHERE domain_id = $1)
      AND status = 'active' AND revocation_epoch = (SELECT revocation_epoch FROM domains WHERE domain_id = $1)
    ORDER BY expires_at DESC, registration_id DESC
  )
  UNION ALL
  (SELECT {registrations} FROM registrations WHERE domain_id = $1 AND spiffe_id = k.spiffe_id ORDER BY expires_at DESC, registration_id DESC LIMIT 1)
) AS t

-- Of those in force the ones that are for an effect, or for its tombstone; one of each kind of the others, which says whether the
-- workload is current at all; and the one that lasts longest, for the reason where none is.
-- name: registrations_for_effects
SELECT t.found FROM unnest($2::text[], $3::text[]) AS k(spiffe_id, effect_id)
LEFT JOIN LATERAL (SELECT event_id, grant_id, sink, executor_registration_id, reconciler_registration_id FROM effects WHERE domain_id = $1 AND effect_id >= k.effect_id AND effect_id <= k.effect_id ORDER BY effect_id LIMIT 1) AS e ON true
LEFT JOIN LATERAL (
  SELECT event_id, grant_id, sink, executor_registration_id, reconciler_registration_id FROM effect_tombstones WHERE domain_id = $1 AND effect_id >= k.effect_id AND effect_id <= k.effect_id ORDER BY effect_id LIMIT 1
) AS m ON true
CROSS JOIN LATERAL (
  (
    SELECT {registrations} FROM registrations
    WHERE domain_id = $1 AND spiffe_id = k.spiffe_id
      AND expires_at > (SELECT greatest(surety_now(), last_time) FROM domain_heads WHERE domain_id = $1)
      AND status = 'active' AND revocation_epoch = (SELECT revocation_epoch FROM domains WHERE domain_id = $1)
      AND (
        (parent_event_id = coalesce(e.event_id, m.event_id) AND grant_id = coalesce(e.grant_id, m.grant_id))
        OR (parent_event_id IS NULL AND coalesce(e.sink, m.sink) = ANY (sinks))
        OR registration_id IN (e.executor_registration_id, e.reconciler_registration_id, m.executor_registration_id, m.reconciler_registration_id)
      )
    ORDER BY expires_at DESC, registration_id DESC
  )
  UNION ALL
  (
    SELECT DISTINCT ON (role, certificate_digest, parent_event_id IS NULL) {registrations} FROM registrations
    WHERE domain_id = $1 AND spiffe_id = k.spiffe_id
      AND expires_at > (SELECT greatest(surety_now(), last_time) FROM domain_heads WHERE domain_id = $1)
      AND status = 'active' AND revocation_epoch = (SELECT revocation_epoch FROM domains WHERE domain_id = $1)
    ORDER BY role, certificate_digest, parent_event_id IS NULL, expires_at DESC, registration_id DESC
  )
  UNION ALL
  (SELECT {registrations} FROM registrations WHERE domain_id = $1 AND spiffe_id = k.spiffe_id ORDER BY expires_at DESC, registration_id DESC LIMIT 1)
) AS t

-- name: versions_of_registrations
SELECT t.found FROM unnest($2::text[]) AS k(id)
CROSS JOIN LATERAL (
  SELECT {registration_versions} FROM registration_versions WHERE domain_id = $1 AND registration_id = k.id ORDER BY credential_epoch
) AS t

-- name: versions_with_keys
SELECT t.found FROM unnest($2::text[]) AS k(id)
CROSS JOIN LATERAL (
  SELECT {registration_versions} FROM registration_versions WHERE domain_id = $1 AND proof_key_thumbprint = k.id ORDER BY proof_key_thumbprint
) AS t

-- name: effects_with_audit
SELECT e.found, l.found FROM unnest($2::text[]) AS k(id)
CROSS JOIN LATERAL (SELECT {effects}, last_seq FROM effects WHERE domain_id = $1 AND effect_id >= k.id AND effect_id <= k.id ORDER BY effect_id LIMIT 1) AS e
LEFT JOIN LATERAL (SELECT {audit_entries} FROM audit_entries WHERE domain_id = $1 AND seq = e.last_seq LIMIT 1) AS l ON true

-- name: tombstones_with_audit
SELECT e.found, l.found FROM unnest($2::text[]) AS k(id)
CROSS JOIN LATERAL (SELECT {effect_tombstones}, last_seq FROM effect_tombstones WHERE domain_id = $1 AND effect_id >= k.id AND effect_id <= k.id ORDER BY effect_id LIMIT 1) AS e
LEFT JOIN LATERAL (SELECT {audit_entries} FROM audit_entries WHERE domain_id = $1 AND seq = e.last_seq LIMIT 1) AS l ON true

-- An effect with all that its transitions rest on, or what is left of one that was archived.
-- name: effect_contexts
SELECT e.found, v.found, r.found, g.found, s.found, c.found, a.found, h.found, p.found, u.found, w.found, t.found, l.found
FROM unnest($2::text[]) AS k(id)
LEFT JOIN LATERAL (SELECT {effects}, effect_id, event_id, grant_id, sink, harness_id, actor_id, actor_kind, last_seq FROM effects WHERE domain_id = $1 AND effect_id >= k.id AND effect_id <= k.id ORDER BY effect_id LIMIT 1) AS e ON true
LEFT JOIN LATERAL (
  SELECT {effect_tombstones}, last_seq FROM effect_tombstones WHERE domain_id = $1 AND effect_id >= k.id AND effect_id <= k.id AND e.effect_id IS NULL ORDER BY effect_id LIMIT 1
) AS t ON true
LEFT JOIN LATERAL (SELECT {events}, object_type, event_id FROM events WHERE domain_id = $1 AND event_id = e.event_id LIMIT 1) AS v ON true
LEFT JOIN LATERAL (
  SELECT {provenance_records} FROM provenance_records
  WHERE domain_id = $1 AND object_type = v.object_type AND object_id >= v.event_id AND object_id <= v.event_id AND version = 1
  ORDER BY object_id LIMIT 1
) AS r ON true
LEFT JOIN LATERAL (SELECT {grants} FROM grants WHERE domain_id = $1 AND grant_id = e.grant_id LIMIT 1) AS g ON true
LEFT JOIN LATERAL (SELECT {sinks} FROM sinks WHERE domain_id = $1 AND sink = e.sink LIMIT 1) AS s ON true
LEFT JOIN LATERAL (SELECT {sink_counters} FROM sink_counters WHERE domain_id = $1 AND sink = e.sink LIMIT 1) AS c ON true
LEFT JOIN LATERAL (SELECT {actor_counters} FROM actor_counters WHERE domain_id = $1 AND actor = 'harness:' || e.harness_id LIMIT 1) AS a ON true
LEFT JOIN LATERAL (SELECT {harnesses} FROM harnesses WHERE domain_id = $1 AND harness_id = e.harness_id LIMIT 1) AS h ON true
LEFT JOIN LATERAL (SELECT {principals} FROM principals WHERE domain_id = $1 AND principal_id = e.actor_id AND e.actor_kind = 'principal' LIMIT 1) AS p ON true
LEFT JOIN LATERAL (SELECT {guests} FROM guests WHERE domain_id = $1 AND guest_id = e.actor_id AND e.actor_kind = 'guest' LIMIT 1) AS u ON true
LEFT JOIN LATERAL (
  SELECT {pending_work} FROM pending_work WHERE domain_id = $1 AND effect_id >= k.id AND effect_id <= k.id ORDER BY effect_id LIMIT 1
) AS w ON true
LEFT JOIN LATERAL (SELECT {audit_entries} FROM audit_entries WHERE domain_id = $1 AND seq = coalesce(e.last_seq, t.last_seq) LIMIT 1) AS l ON true

-- name: outputs_with_steps
SELECT r.found, s.found FROM unnest($2::text[]) AS k(id)
CROSS JOIN LATERAL (
  SELECT {provenance_records}, provenance_digest FROM provenance_records
  WHERE domain_id = $1 AND object_type = 'tool_output' AND object_id >= 'effect-output:' || k.id AND object_id <= 'effect-output:' || k.id AND version = 1
  ORDER BY object_id LIMIT 1
) AS r
LEFT JOIN LATERAL (
  SELECT {provenance_steps} FROM provenance_steps WHERE domain_id = $1 AND provenance_digest = r.provenance_digest ORDER BY ordinal LIMIT 33
) AS s ON true

-- name: output_parents_of_effects
SELECT t.found FROM unnest($2::text[]) AS k(id)
CROSS JOIN LATERAL (
  SELECT provenance_digest FROM provenance_records
  WHERE domain_id = $1 AND object_type = 'tool_output' AND object_id >= 'effect-output:' || k.id AND object_id <= 'effect-output:' || k.id AND version = 1
  ORDER BY object_id LIMIT 1
) AS p
CROSS JOIN LATERAL (
  SELECT {provenance_parents} FROM provenance_parents WHERE domain_id = $1 AND provenance_digest = p.provenance_digest ORDER BY parent_digest LIMIT 65
) AS t

-- name: executor_versions_of_effects
SELECT t.found FROM unnest($2::text[]) AS k(id)
CROSS JOIN LATERAL (SELECT executor_registration_id FROM effects WHERE domain_id = $1 AND effect_id >= k.id AND effect_id <= k.id ORDER BY effect_id LIMIT 1) AS e
CROSS JOIN LATERAL (
  SELECT {registration_versions} FROM registration_versions
  WHERE domain_id = $1 AND registration_id = e.executor_registration_id ORDER BY credential_epoch
) AS t

-- Of those that do not hold their key themselves: nobody else can then.
-- name: key_holders_of_effects
SELECT t.found FROM unnest($2::text[]) AS k(id)
CROSS JOIN LATERAL (SELECT sink, key_digest, holds_key FROM effects WHERE domain_id = $1 AND effect_id >= k.id AND effect_id <= k.id ORDER BY effect_id LIMIT 1) AS e
CROSS JOIN LATERAL (
  SELECT {effects} FROM effects WHERE domain_id = $1 AND sink = e.sink AND key_digest >= e.key_digest AND key_digest <= e.key_digest AND holds_key ORDER BY key_digest LIMIT 1
) AS t
WHERE NOT e.holds_key

-- Nothing is there for most of them: then there is no row.
-- name: identities_with_audit
SELECT e.found, t.found, l.found, m.found
FROM unnest($2::text[], $3::bytea[]) AS k(event_id, identity_digest)
LEFT JOIN LATERAL (SELECT {effects}, last_seq, effect_id FROM effects WHERE domain_id = $1 AND event_id || '' = k.event_id AND identity_digest >= k.identity_digest AND identity_digest <= k.identity_digest ORDER BY identity_digest LIMIT 1) AS e ON true
LEFT JOIN LATERAL (
  SELECT {effect_tombstones}, last_seq, effect_id FROM effect_tombstones WHERE domain_id = $1 AND identity_digest >= k.identity_digest AND identity_digest <= k.identity_digest ORDER BY identity_digest LIMIT 1
) AS t ON true
LEFT JOIN LATERAL (SELECT {audit_entries} FROM audit_entries WHERE domain_id = $1 AND seq = e.last_seq LIMIT 1) AS l ON true
LEFT JOIN LATERAL (SELECT {audit_entries} FROM audit_entries WHERE domain_id = $1 AND seq = t.last_seq LIMIT 1) AS m ON true
WHERE e.effect_id IS NOT NULL OR t.effect_id IS NOT NULL

-- name: unsettled_of
SELECT t.found FROM unnest($2::text[], $3::text[]) AS k(event_id, grant_id)
CROSS JOIN LATERAL (
  SELECT {effects} FROM effects WHERE domain_id = $1 AND grant_id = k.grant_id AND event_id >= k.event_id AND event_id <= k.event_id
    AND state IN ('PREPARED', 'EXECUTING', 'UNKNOWN') ORDER BY event_id, effect_id LIMIT 1
) AS t

-- Who holds a key, a success that let it go, the archived one that stands for it.
-- name: keys_with_audit
SELECT h.found, s.found, t.found, l.found
FROM unnest($2::text[], $3::bytea[]) AS k(sink, key_digest)
LEFT JOIN LATERAL (
  SELECT {effects}, last_seq, effect_id FROM effects WHERE domain_id = $1 AND sink = k.sink AND key_digest >= k.key_digest AND key_digest <= k.key_digest AND holds_key ORDER BY key_digest LIMIT 1
) AS h ON true
LEFT JOIN LATERAL (
  SELECT {effects}, effect_id FROM effects WHERE domain_id = $1 AND sink = k.sink AND key_digest >= k.key_digest AND key_digest <= k.key_digest AND state = 'SUCCEEDED' AND NOT holds_key ORDER BY key_digest LIMIT 1
) AS s ON true
LEFT JOIN LATERAL (
  SELECT {effect_tombstones}, effect_id FROM effect_tombstones WHERE domain_id = $1 AND sink = k.sink AND key_digest = k.key_digest AND state = 'SUCCEEDED'
  ORDER BY holds_key DESC LIMIT 1
) AS t ON true
LEFT JOIN LATERAL (SELECT {audit_entries} FROM audit_entries WHERE domain_id = $1 AND seq = h.last_seq LIMIT 1) AS l ON true
WHERE h.effect_id IS NOT NULL OR s.effect_id IS NOT NULL OR t.effect_id IS NOT NULL

-- name: tombstones_under_keys_of_effects
SELECT t.found FROM unnest($2::text[]) AS k(id)
CROSS JOIN LATERAL (SELECT sink, key_digest FROM effects WHERE domain_id = $1 AND effect_id >= k.id AND effect_id <= k.id ORDER BY effect_id LIMIT 1) AS e
CROSS JOIN LATERAL (
  SELECT {effect_tombstones} FROM effect_tombstones WHERE domain_id = $1 AND sink = e.sink AND key_digest = e.key_digest AND state = 'SUCCEEDED'
  ORDER BY holds_key DESC LIMIT 1
) AS t

-- name: transitions_of_effects
SELECT t.found FROM unnest($2::text[]) AS k(id)
CROSS JOIN LATERAL (SELECT {transitions} FROM transitions WHERE domain_id = $1 AND effect_id = k.id ORDER BY step) AS t

-- name: steps_of_records
SELECT t.found FROM unnest($2::text[], $3::text[], $4::bigint[]) AS k(object_type, object_id, version)
CROSS JOIN LATERAL (
  SELECT provenance_digest FROM provenance_records
  WHERE domain_id = $1 AND object_type = k.object_type AND object_id >= k.object_id AND object_id <= k.object_id AND version = k.version
  ORDER BY object_id LIMIT 1
) AS p
CROSS JOIN LATERAL (
  SELECT {provenance_steps} FROM provenance_steps WHERE domain_id = $1 AND provenance_digest = p.provenance_digest ORDER BY ordinal LIMIT 33
) AS t

-- name: parents_of_records
SELECT t.found FROM unnest($2::text[], $3::text[], $4::bigint[]) AS k(object_type, object_id, version)
CROSS JOIN LATERAL (
  SELECT provenance_digest FROM provenance_records
  WHERE domain_id = $1 AND object_type = k.object_type AND object_id >= k.object_id AND object_id <= k.object_id AND version = k.version
  ORDER BY object_id LIMIT 1
) AS p
CROSS JOIN LATERAL (
  SELECT {provenance_parents} FROM provenance_parents WHERE domain_id = $1 AND provenance_digest = p.provenance_digest ORDER BY parent_digest LIMIT 65
) AS t

-- name: clearances_of_records
SELECT t.found FROM unnest($2::text[], $3::text[], $4::bigint[]) AS k(object_type, object_id, version)
CROSS JOIN LATERAL (
  SELECT provenance_digest FROM provenance_records
  WHERE domain_id = $1 AND object_type = k.object_type AND object_id >= k.object_id AND object_id <= k.object_id AND version = k.version
  ORDER BY object_id LIMIT 1
) AS p
CROSS JOIN LATERAL (
  SELECT {clearance_receipts} FROM clearance_receipts WHERE domain_id = $1 AND provenance_digest = p.provenance_digest ORDER BY purpose LIMIT 3
) AS t

-- name: gate_shapes_of_domain
SELECT {gate_shapes} FROM gate_shapes WHERE domain_id = $1 ORDER BY gate_shape_id LIMIT 65

-- name: platform_operators
SELECT {operators} FROM unnest($2::text[]) AS k(id)
JOIN operators AS t ON t.domain_id = (SELECT service_domain_id FROM service_state) AND t.spiffe_id = k.id AND $1::text IS NOT NULL

-- name: platform_operators_locked
SELECT {operators} FROM operators AS t
WHERE t.domain_id = (SELECT service_domain_id FROM service_state) AND t.spiffe_id = ANY ($2::text[]) AND $1::text IS NOT NULL
FOR SHARE

-- name: other_domains
SELECT t.domain_id FROM unnest($2::text[]) AS k(id) JOIN domains AS t ON t.domain_id = k.id AND $1::text IS NOT NULL

-- name: oldest_unknown_of_sinks
SELECT t.found FROM unnest($2::text[]) AS k(sink)
CROSS JOIN LATERAL (
  SELECT {effects} FROM effects WHERE domain_id = $1 AND sink = k.sink AND state = 'UNKNOWN' ORDER BY unknown_at LIMIT $3::integer
) AS t

-- name: service_limit
SELECT requests_per_minute FROM service_state WHERE $1::text IS NOT NULL

-- name: service_limit_locked
SELECT requests_per_minute FROM service_state WHERE $1::text IS NOT NULL FOR NO KEY UPDATE

-- name: shares
SELECT s.requests_per_minute AS service,
  (SELECT coalesce(sum(requests_per_minute), 0)::bigint FROM domains WHERE domain_id <> $1) AS others
FROM service_state AS s
