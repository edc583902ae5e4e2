-- Records of a domain ($1).

-- name: provenance_newest_version
SELECT version FROM provenance_records
WHERE domain_id = $1 AND object_type = $2 AND object_id = $3 ORDER BY version DESC LIMIT 1

-- name: provenance_versions
-- The versions of an object after $4.
SELECT version FROM provenance_records
WHERE domain_id = $1 AND object_type = $2 AND object_id = $3 AND version > $4::bigint ORDER BY version LIMIT $5::integer
