-- Workload registrations of a domain ($1), each with its proof key.

-- name: proof_key
-- A public key by its thumbprint ($2).
SELECT public_jwk FROM proof_keys WHERE domain_id = $1 AND thumbprint = $2

-- name: workload_by_key
SELECT r.*, k.public_jwk FROM registrations r
JOIN proof_keys k ON k.domain_id = r.domain_id AND k.thumbprint = r.proof_key_thumbprint
WHERE r.domain_id = $1 AND r.registration_id = $2

-- name: workloads_page
-- Those behind a key ($2), of at most $3, of a status ($4) where that is not empty.
SELECT r.*, k.public_jwk FROM registrations r
JOIN proof_keys k ON k.domain_id = r.domain_id AND k.thumbprint = r.proof_key_thumbprint
WHERE r.domain_id = $1 AND r.registration_id > $2 AND ($4 = '' OR r.status = $4)
ORDER BY r.registration_id LIMIT $3::integer

-- name: workloads_of_spiffe_id_page
-- The same of one SPIFFE ID ($5).
SELECT r.*, k.public_jwk FROM registrations r
JOIN proof_keys k ON k.domain_id = r.domain_id AND k.thumbprint = r.proof_key_thumbprint
WHERE r.domain_id = $1 AND r.registration_id > $2 AND ($4 = '' OR r.status = $4) AND r.spiffe_id = $5
ORDER BY r.registration_id LIMIT $3::integer
