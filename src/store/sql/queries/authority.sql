-- Records of a domain ($1): one by its key, or a page of those behind a key ($2), of at most $3.

-- name: operator_signing_key
-- The key of a caller's ($2) own operator row, here or in the service's own domain, by its thumbprint ($3).
SELECT signing_key_jwk FROM operators
WHERE domain_id IN ($1, (SELECT service_domain_id FROM service_state)) AND spiffe_id = $2 AND signing_key_thumbprint = $3
LIMIT 1

-- name: domain_by_key
SELECT d.*, CASE WHEN d.domain_id = s.service_domain_id THEN s.requests_per_minute ELSE 0 END AS service_requests_per_minute
FROM domains AS d CROSS JOIN service_state AS s WHERE d.domain_id = $1

-- name: domains_page
-- Every domain, for whoever reads in the service's own ($1).
SELECT d.*, CASE WHEN d.domain_id = s.service_domain_id THEN s.requests_per_minute ELSE 0 END AS service_requests_per_minute
FROM domains AS d CROSS JOIN service_state AS s
WHERE $1 = s.service_domain_id AND d.domain_id > $2 ORDER BY d.domain_id LIMIT $3::integer

-- name: sinks_of_domains
-- All sinks of several domains ($1), at most $2 of each.
SELECT s.* FROM unnest($1::text[]) AS k(domain_id)
CROSS JOIN LATERAL (SELECT * FROM sinks WHERE domain_id = k.domain_id ORDER BY sink LIMIT $2::integer) AS s

-- name: sink_by_key
SELECT * FROM sinks WHERE domain_id = $1 AND sink = $2

-- name: sinks_page
SELECT * FROM sinks WHERE domain_id = $1 AND sink > $2 ORDER BY sink LIMIT $3::integer

-- name: principal_by_key
SELECT * FROM principals WHERE domain_id = $1 AND principal_id = $2

-- name: principals_page
SELECT * FROM principals WHERE domain_id = $1 AND principal_id > $2 ORDER BY principal_id LIMIT $3::integer

-- name: guest_by_key
SELECT * FROM guests WHERE domain_id = $1 AND guest_id = $2

-- name: guests_page
SELECT * FROM guests WHERE domain_id = $1 AND guest_id > $2 ORDER BY guest_id LIMIT $3::integer

-- name: harness_by_key
SELECT * FROM harnesses WHERE domain_id = $1 AND harness_id = $2

-- name: harnesses_page
SELECT * FROM harnesses WHERE domain_id = $1 AND harness_id > $2 ORDER BY harness_id LIMIT $3::integer

-- name: credential_by_key
SELECT * FROM credentials WHERE domain_id = $1 AND credential_id = $2

-- name: credentials_page
SELECT * FROM credentials WHERE domain_id = $1 AND credential_id > $2 ORDER BY credential_id LIMIT $3::integer

-- name: entitlement_by_key
SELECT * FROM entitlements WHERE domain_id = $1 AND entitlement_id = $2

-- name: entitlements_page
SELECT * FROM entitlements WHERE domain_id = $1 AND entitlement_id > $2 ORDER BY entitlement_id LIMIT $3::integer

-- name: grant_by_key
SELECT * FROM grants WHERE domain_id = $1 AND grant_id = $2

-- name: grants_page
SELECT * FROM grants WHERE domain_id = $1 AND grant_id > $2 ORDER BY grant_id LIMIT $3::integer

-- name: operator_by_key
SELECT * FROM operators WHERE domain_id = $1 AND spiffe_id = $2

-- name: operators_page
SELECT * FROM operators WHERE domain_id = $1 AND spiffe_id > $2 ORDER BY spiffe_id LIMIT $3::integer

-- name: owner_by_key
SELECT * FROM owners WHERE domain_id = $1 AND spiffe_id = $2

-- name: owners_page
SELECT * FROM owners WHERE domain_id = $1 AND spiffe_id > $2 ORDER BY spiffe_id LIMIT $3::integer

-- name: gate_shape_by_key
SELECT * FROM gate_shapes WHERE domain_id = $1 AND gate_shape_id = $2

-- name: gate_shapes_page
SELECT * FROM gate_shapes WHERE domain_id = $1 AND gate_shape_id > $2 ORDER BY gate_shape_id LIMIT $3::integer

-- name: action_condition_by_key
SELECT * FROM action_conditions WHERE domain_id = $1 AND action_type = $2

-- name: action_conditions_page
SELECT * FROM action_conditions WHERE domain_id = $1 AND action_type > $2 ORDER BY action_type LIMIT $3::integer

-- name: tool_by_key
SELECT * FROM tools WHERE domain_id = $1 AND tool_name = $2

-- name: tools_page
SELECT * FROM tools WHERE domain_id = $1 AND tool_name > $2 ORDER BY tool_name LIMIT $3::integer
