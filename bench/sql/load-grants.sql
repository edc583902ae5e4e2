-- One-use grants of a domain, in turn for its harnesses. $1 domain, $2 name, $3 count, $4 harnesses, $5 principal,
-- $6 action, $7 resource, $8 input source, $9 sink, $10 data class.
INSERT INTO grants (domain_id, grant_id, actor_kind, actor_id, harness_id, actions, resources, input_sources, output_sinks,
    data_classes, max_uses, uses, repeatable, expires_at, revoked_at, policy_revision, credential_epoch, revision)
  SELECT d.domain_id, $2 || '-' || n, 'principal', $5, ($4::text[])[1 + n % cardinality($4::text[])], ARRAY[$6], ARRAY[$7],
    ARRAY[$8], ARRAY[$9], ARRAY[$10::integer], 1, 0, false,
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + 31536000000000, NULL, d.policy_revision, 1, 1
  FROM domains AS d CROSS JOIN generate_series(0, $3::integer - 1) AS n
  WHERE d.domain_id = $1
