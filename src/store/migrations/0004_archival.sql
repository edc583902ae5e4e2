-- Archived effects and their tombstones (effects.md, Archival): what was settled long ago leaves the tables that callers
-- work on, after an export, and a narrow row stays for ever that answers for it.

-- One row per archive, in the order in which they were made: the file that everything went into, by its digest, and which
-- part of the domain's log it carries. The parts follow each other without a gap.
CREATE TABLE archives (
  domain_id text COLLATE "C" NOT NULL,
  archive_number bigint NOT NULL,
  archive_id text COLLATE "C" NOT NULL,
  export_digest bytea NOT NULL,
  log_after_seq bigint NOT NULL,
  log_last_seq bigint NOT NULL,
  log_chain_hash bytea NOT NULL,
  archived_at bigint NOT NULL,
  CONSTRAINT archives_pkey PRIMARY KEY (domain_id, archive_number),
  CONSTRAINT archives_number CHECK (archive_number > 0),
  CONSTRAINT archives_log CHECK (log_after_seq >= 0 AND log_last_seq >= log_after_seq),
  CONSTRAINT archives_digests CHECK (octet_length(export_digest) = 32 AND octet_length(log_chain_hash) = 32)
);

CREATE TABLE effect_tombstones (
  domain_id text COLLATE "C" NOT NULL,
  effect_id text COLLATE "C" NOT NULL,
  identity_digest bytea NOT NULL,
  tuple_digest bytea NOT NULL,
  event_id text COLLATE "C" NOT NULL,
  sink text COLLATE "C" NOT NULL,
  actor_kind text COLLATE "C" NOT NULL,
  actor_id text COLLATE "C" NOT NULL,
  harness_id text COLLATE "C" NOT NULL,
  grant_id text COLLATE "C" NOT NULL,
  key_digest bytea NOT NULL,
  holds_key boolean NOT NULL,
  start_before bigint NOT NULL,
  decision_id text COLLATE "C" NOT NULL,
  fence bigint NOT NULL,
  state text COLLATE "C" NOT NULL,
  state_source text COLLATE "C" NOT NULL,
  reserve_seq bigint NOT NULL,
  reserve_leaf bytea NOT NULL,
  attempt_id text COLLATE "C",
  executor_registration_id text COLLATE "C",
  reconciler_registration_id text COLLATE "C",
  evidence_digest bytea,
  output_digest bytea,
  step bigint NOT NULL,
  last_seq bigint NOT NULL,
  record_digest bytea NOT NULL,
  archive_number bigint NOT NULL,
  archived_at bigint NOT NULL,
  CONSTRAINT effect_tombstones_pkey PRIMARY KEY (domain_id, effect_id),
  CONSTRAINT effect_tombstones_state CHECK (state IN ('SUCCEEDED', 'FAILED', 'CANCELLED')),
  CONSTRAINT effect_tombstones_key CHECK (NOT holds_key OR state = 'SUCCEEDED'),
  CONSTRAINT effect_tombstones_digests CHECK (octet_length(identity_digest) = 32 AND octet_length(tuple_digest) = 32
    AND octet_length(key_digest) = 32 AND octet_length(record_digest) = 32)
);
-- The rules of the live effects, kept on: an identity is reserved once, a key has one holder.
CREATE UNIQUE INDEX effect_tombstones_identity ON effect_tombstones (domain_id, identity_digest);
CREATE UNIQUE INDEX effect_tombstones_key_holder ON effect_tombstones (domain_id, sink, key_digest) WHERE holds_key;
CREATE INDEX effect_tombstones_key_done ON effect_tombstones (domain_id, sink, key_digest, holds_key) WHERE state = 'SUCCEEDED';
-- What can be archived: settled by now, and nothing about it is contested.
CREATE INDEX effects_settled ON effects (domain_id, settled_at) WHERE settled_at IS NOT NULL AND NOT disputed;

DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['archives', 'effect_tombstones']
  LOOP
    EXECUTE format('CREATE TRIGGER %I BEFORE UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION surety_append_only()',
      name || '_append_only', name);
    EXECUTE format('CREATE TRIGGER %I BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION surety_append_only()',
      name || '_no_truncate', name);
  END LOOP;
END
$$;

-- A tombstone is made of an effect that is there, settled and not contested, says of it what its row says, and is made
-- after the export.
CREATE FUNCTION surety_tombstone_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (
    SELECT FROM effects AS e WHERE e.domain_id = NEW.domain_id AND e.effect_id = NEW.effect_id
      AND e.state IN ('SUCCEEDED', 'FAILED', 'CANCELLED') AND NOT e.disputed
      AND (e.identity_digest, e.event_id, e.sink, e.actor_kind, e.actor_id, e.harness_id, e.grant_id, e.key_digest,
           e.holds_key, e.start_before, e.decision_id, e.fence, e.state, e.state_source, e.reserve_seq, e.reserve_leaf,
           e.attempt_id, e.executor_registration_id, e.reconciler_registration_id, e.evidence_digest, e.output_digest,
           e.step, e.last_seq)
        IS NOT DISTINCT FROM
          (NEW.identity_digest, NEW.event_id, NEW.sink, NEW.actor_kind, NEW.actor_id, NEW.harness_id, NEW.grant_id,
           NEW.key_digest, NEW.holds_key, NEW.start_before, NEW.decision_id, NEW.fence, NEW.state, NEW.state_source,
           NEW.reserve_seq, NEW.reserve_leaf, NEW.attempt_id, NEW.executor_registration_id,
           NEW.reconciler_registration_id, NEW.evidence_digest, NEW.output_digest, NEW.step, NEW.last_seq)
  ) THEN
    RAISE EXCEPTION 'a tombstone is of a settled effect, as it stands' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER effect_tombstones_guard BEFORE INSERT ON effect_tombstones
  FOR EACH ROW EXECUTE FUNCTION surety_tombstone_guard();

-- Looked at when the transaction ends: an effect lives or has a tombstone, of an archive that is recorded; never both.
CREATE FUNCTION surety_tombstone_whole() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM effects WHERE domain_id = NEW.domain_id AND effect_id = NEW.effect_id)
    OR NOT EXISTS (SELECT FROM archives WHERE domain_id = NEW.domain_id AND archive_number = NEW.archive_number)
  THEN
    RAISE EXCEPTION 'an effect is archived whole' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER effect_tombstones_whole AFTER INSERT ON effect_tombstones
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION surety_tombstone_whole();

-- An effect and its receipts leave only behind the tombstone of that very effect.
CREATE FUNCTION surety_archived_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (
    SELECT FROM effect_tombstones AS t WHERE t.domain_id = OLD.domain_id AND t.effect_id = OLD.effect_id
  ) THEN
    RAISE EXCEPTION 'what has no tombstone is never removed' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN OLD;
END
$$;
DROP TRIGGER effects_guard ON effects;
CREATE TRIGGER effects_guard BEFORE INSERT OR UPDATE ON effects
  FOR EACH ROW EXECUTE FUNCTION surety_effect_guard();
CREATE TRIGGER effects_archived BEFORE DELETE ON effects
  FOR EACH ROW EXECUTE FUNCTION surety_archived_guard();
DROP TRIGGER transitions_append_only ON transitions;
CREATE TRIGGER transitions_append_only BEFORE UPDATE ON transitions
  FOR EACH ROW EXECUTE FUNCTION surety_append_only();
CREATE TRIGGER transitions_archived BEFORE DELETE ON transitions
  FOR EACH ROW EXECUTE FUNCTION surety_archived_guard();

-- No index spans two tables: what an archived effect was and what key it holds is looked up where a live one comes to be, or
-- takes a key again.
CREATE FUNCTION surety_live_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (
    SELECT FROM effect_tombstones WHERE domain_id = NEW.domain_id AND identity_digest = NEW.identity_digest
  ) THEN
    RAISE EXCEPTION 'the identity is archived' USING ERRCODE = 'unique_violation';
  END IF;
  IF NEW.holds_key AND EXISTS (
    SELECT FROM effect_tombstones
    WHERE domain_id = NEW.domain_id AND sink = NEW.sink AND key_digest = NEW.key_digest AND holds_key
  ) THEN
    RAISE EXCEPTION 'an archived effect holds the key' USING ERRCODE = 'unique_violation';
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER effects_live_new BEFORE INSERT ON effects
  FOR EACH ROW EXECUTE FUNCTION surety_live_guard();
CREATE TRIGGER effects_live_key BEFORE UPDATE OF holds_key ON effects
  FOR EACH ROW WHEN (NEW.holds_key AND NOT OLD.holds_key) EXECUTE FUNCTION surety_live_guard();

-- Who serves reads them; who archives does, besides, what a batch of the archival does and nothing else.
GRANT SELECT ON archives, effect_tombstones TO surety_service, surety_archive;
GRANT SELECT ON schema_migrations TO surety_archive;
GRANT INSERT ON archives, effect_tombstones, audit_entries, lanes TO surety_archive;
GRANT UPDATE (seq, chain_hash, incarnation, fence_counter, last_time) ON domain_heads TO surety_archive;
GRANT UPDATE (last_batch, updated_at) ON lanes TO surety_archive;
GRANT DELETE ON effects, transitions TO surety_archive;
