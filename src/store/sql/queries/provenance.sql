-- Records of a domain ($1).

-- name: provenance_newest_version
SELECT version FROM provenance_records
WHERE domain_id = $1 AND object_type = $2 AND object_id = $3 ORDER BY version DESC LIMIT 1

-- name: provenance_versions
-- The versions of an object after $4.
SELECT version FROM provenance_records
WHERE domain_id = $1 AND object_type = $2 AND object_id = $3 AND version > $4::bigint ORDER BY version LIMIT $5::integer


-- name: provenance_ancestors
-- What a record ($2) was made from: at most $4 pairs of record and depth, breadth first, to a depth of $3; of these the
-- records behind depth $5 and digest $6, each at its least depth, at most $7. The walk stops where nothing more is asked of
-- it. No record has more than 64 parents.
WITH RECURSIVE walk (digest, depth) AS (
  SELECT $2::bytea, 0
  UNION
  SELECT e.parent_digest, w.depth + 1 FROM walk AS w
  CROSS JOIN LATERAL (
    SELECT parent_digest FROM provenance_parents
    WHERE domain_id = $1 AND provenance_digest = w.digest ORDER BY parent_digest LIMIT 64
  ) AS e
  WHERE w.depth < $3::integer
),
bounded AS MATERIALIZED (SELECT digest, depth FROM walk LIMIT $4::integer),
page AS (
  SELECT digest, min(depth) AS depth FROM bounded GROUP BY digest
  HAVING (min(depth), digest) > ($5::integer, $6::bytea) ORDER BY 2, 1 LIMIT $7::integer
)
SELECT p.digest, p.depth, r.object_type, r.object_id, r.version, (SELECT count(*) FROM bounded) = $4::integer AS truncated
FROM page AS p
LEFT JOIN LATERAL (
  SELECT object_type, object_id, version FROM provenance_records
  WHERE domain_id = $1 AND provenance_digest = p.digest LIMIT 1
) AS r ON true
ORDER BY p.depth, p.digest

-- name: provenance_descendants
-- What was made of a record: the same the other way.
WITH RECURSIVE walk (digest, depth) AS (
  SELECT $2::bytea, 0
  UNION
  SELECT e.provenance_digest, w.depth + 1 FROM walk AS w
  CROSS JOIN LATERAL (
    SELECT provenance_digest FROM provenance_parents
    WHERE domain_id = $1 AND parent_digest = w.digest ORDER BY provenance_digest LIMIT $4::integer
  ) AS e
  WHERE w.depth < $3::integer
),
bounded AS MATERIALIZED (SELECT digest, depth FROM walk LIMIT $4::integer),
page AS (
  SELECT digest, min(depth) AS depth FROM bounded GROUP BY digest
  HAVING (min(depth), digest) > ($5::integer, $6::bytea) ORDER BY 2, 1 LIMIT $7::integer
)
SELECT p.digest, p.depth, r.object_type, r.object_id, r.version, (SELECT count(*) FROM bounded) = $4::integer AS truncated
FROM page AS p
LEFT JOIN LATERAL (
  SELECT object_type, object_id, version FROM provenance_records
  WHERE domain_id = $1 AND provenance_digest = p.digest LIMIT 1
) AS r ON true
ORDER BY p.depth, p.digest

-- name: approver_signing_key
-- A key by its thumbprint ($2): an owner's or an operator's, here or an operator's in the service's own domain. Whose it is,
-- and whether it may approve, is judged in the transaction.
SELECT signing_key_jwk FROM owners WHERE domain_id = $1 AND signing_key_thumbprint = $2
UNION ALL
SELECT signing_key_jwk FROM operators
WHERE domain_id IN ($1, (SELECT service_domain_id FROM service_state)) AND signing_key_thumbprint = $2
LIMIT 1

-- name: receipt_signing_key
-- The key with a thumbprint ($5) under which a receipt of a version ($2 to $4) verified, as it is kept beside the receipt.
SELECT c.signing_key_jwk
FROM (
  SELECT provenance_digest FROM provenance_records
  WHERE domain_id = $1 AND object_type = $2 AND object_id = $3 AND version = $4::bigint ORDER BY version LIMIT 1
) AS r
CROSS JOIN LATERAL (
  SELECT signing_key_jwk FROM clearance_receipts
  WHERE domain_id = $1 AND provenance_digest = r.provenance_digest AND signing_key_thumbprint = $5
  ORDER BY signing_key_thumbprint LIMIT 1
) AS c
