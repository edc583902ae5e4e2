-- Grants that many effects use, in turn for the domain's harnesses. $1 domain, $2 prefix, $3 from, $4 to (exclusive),
-- $5 harnesses, $6 principal, $7 action, $8 resource, $9 input source, $10 sink, $11 data class, $12 most uses.
INSERT INTO grants (domain_id, grant_id, actor_kind, actor_id, harness_id, actions, resources, input_sources, output_sinks,
    data_classes, max_uses, uses, repeatable, expires_at, revoked_at, policy_revision, credential_epoch, revision)
  SELECT d.domain_id, $2 || lpad(n::text, 8, '0'), 'principal', $6, ($5::text[])[1 + n % cardinality($5::text[])], ARRAY[$7],
    ARRAY[$8], ARRAY[$9], ARRAY[$10], ARRAY[$11::integer], $12::bigint, 0, false,
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + 31536000000000, NULL, d.policy_revision, 1, 1
  FROM domains AS d CROSS JOIN generate_series($3::integer, $4::integer - 1) AS n
  WHERE d.domain_id = $1
