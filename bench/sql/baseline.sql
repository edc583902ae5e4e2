-- What the service is compared with: one transaction per call, one function, four statements, no rules and no RPC.
CREATE SCHEMA bench;

CREATE TABLE bench.grants (
  grant_id text COLLATE "C" PRIMARY KEY,
  max_uses bigint NOT NULL,
  uses bigint NOT NULL
);

CREATE TABLE bench.effects (
  effect_id text COLLATE "C" PRIMARY KEY,
  identity_digest bytea NOT NULL UNIQUE,
  grant_id text COLLATE "C" NOT NULL,
  action text COLLATE "C" NOT NULL,
  resource text COLLATE "C" NOT NULL,
  sink text COLLATE "C" NOT NULL,
  state text COLLATE "C" NOT NULL,
  reserved_at bigint NOT NULL
);

CREATE TABLE bench.audit_entries (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  effect_id text COLLATE "C" NOT NULL,
  entry bytea NOT NULL
);

CREATE FUNCTION bench.reserve(client bigint, round bigint, n bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  wanted constant text := format('g-%s-%s-%s', round, client, n);
  identity constant bytea := sha256(convert_to(wanted, 'UTF8'));
  found_id text;
BEGIN
  SELECT effect_id INTO found_id FROM bench.effects WHERE identity_digest = identity;
  IF found_id IS NOT NULL THEN
    RETURN found_id;
  END IF;
  UPDATE bench.grants SET uses = uses + 1 WHERE grant_id = wanted AND uses < max_uses;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'no grant %', wanted;
  END IF;
  INSERT INTO bench.effects (effect_id, identity_digest, grant_id, action, resource, sink, state, reserved_at)
    VALUES ('eff_' || wanted, identity, wanted, 'refund.create', 'order-1184', 'payments', 'PREPARED',
      (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
  -- As many octets as an entry of the log has.
  INSERT INTO bench.audit_entries (effect_id, entry)
    VALUES ('eff_' || wanted, convert_to(rpad(wanted, 320, '.'), 'UTF8'));
  RETURN 'eff_' || wanted;
END
$$;

-- The same, but each entry of the log is chained to the one before it, as the service's are: who writes one holds the
-- log's head until it is committed.
CREATE TABLE bench.log_head (
  log text COLLATE "C" PRIMARY KEY,
  chain_hash bytea NOT NULL
);

INSERT INTO bench.log_head VALUES ('the log', sha256('beginning'));

CREATE FUNCTION bench.reserve_chained(client bigint, round bigint, n bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  reserved constant text := bench.reserve(client, round, n);
BEGIN
  UPDATE bench.log_head SET chain_hash = sha256(chain_hash || sha256(convert_to(rpad(reserved, 320, '.'), 'UTF8')))
    WHERE log = 'the log';
  RETURN reserved;
END
$$;
