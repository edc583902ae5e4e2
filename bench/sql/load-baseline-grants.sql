-- One-use grants of the baseline. $1 round, $2 clients, $3 grants of each client.
INSERT INTO bench.grants (grant_id, max_uses, uses)
  SELECT format('g-%s-%s-%s', $1::bigint, c, n), 1, 0
  FROM generate_series(0, $2::integer - 1) AS c CROSS JOIN generate_series(1, $3::integer) AS n
