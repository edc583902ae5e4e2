-- The same guards for less: what can be said of a row alone is a condition of the trigger, so that a function is called only to
-- refuse; what is looked up for each row of a batch is looked up once for all of them. What is refused, and how, stays.

CREATE FUNCTION surety_effect_begins() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'an effect begins as PREPARED' USING ERRCODE = 'restrict_violation';
END
$$;
DROP TRIGGER effects_guard ON effects;
CREATE TRIGGER effects_guard BEFORE UPDATE ON effects
  FOR EACH ROW EXECUTE FUNCTION surety_effect_guard();
CREATE TRIGGER effects_guard_new BEFORE INSERT ON effects
  FOR EACH ROW WHEN (NEW.state <> 'PREPARED' OR NEW.step <> 1 OR NEW.disputed OR NEW.late_evidence_count <> 0)
  EXECUTE FUNCTION surety_effect_begins();

-- Looked up in order, the last column as a range of one value: planned while there was no tombstone, it still takes the exact
-- index when there are millions (src/store/sql/gather.sql).
CREATE FUNCTION surety_live_new_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (
    SELECT FROM fresh AS f CROSS JOIN LATERAL (
      SELECT FROM effect_tombstones AS t
      WHERE t.domain_id = f.domain_id AND t.identity_digest >= f.identity_digest AND t.identity_digest <= f.identity_digest
      ORDER BY t.identity_digest LIMIT 1
    ) AS archived
  ) THEN
    RAISE EXCEPTION 'the identity is archived' USING ERRCODE = 'unique_violation';
  END IF;
  IF EXISTS (
    SELECT FROM fresh AS f CROSS JOIN LATERAL (
      SELECT FROM effect_tombstones AS t
      WHERE t.domain_id = f.domain_id AND t.sink = f.sink AND t.key_digest >= f.key_digest AND t.key_digest <= f.key_digest
        AND t.holds_key
      ORDER BY t.key_digest LIMIT 1
    ) AS archived
    WHERE f.holds_key
  ) THEN
    RAISE EXCEPTION 'an archived effect holds the key' USING ERRCODE = 'unique_violation';
  END IF;
  RETURN NULL;
END
$$;
DROP TRIGGER effects_live_new ON effects;
CREATE TRIGGER effects_live_new AFTER INSERT ON effects
  REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION surety_live_new_guard();

-- The conditions are those of the functions.
DROP TRIGGER grants_guard ON grants;
CREATE TRIGGER grants_guard BEFORE UPDATE ON grants
  FOR EACH ROW WHEN (
    NEW.uses < OLD.uses OR (OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS DISTINCT FROM OLD.revoked_at)
    OR (NEW.domain_id, NEW.grant_id, NEW.actor_kind, NEW.actor_id, NEW.harness_id, NEW.actions, NEW.resources,
        NEW.input_sources, NEW.output_sinks, NEW.data_classes, NEW.max_uses, NEW.repeatable, NEW.expires_at,
        NEW.policy_revision, NEW.credential_epoch)
      IS DISTINCT FROM
       (OLD.domain_id, OLD.grant_id, OLD.actor_kind, OLD.actor_id, OLD.harness_id, OLD.actions, OLD.resources,
        OLD.input_sources, OLD.output_sinks, OLD.data_classes, OLD.max_uses, OLD.repeatable, OLD.expires_at,
        OLD.policy_revision, OLD.credential_epoch)
  )
  EXECUTE FUNCTION surety_grant_guard();
CREATE TRIGGER grants_kept BEFORE DELETE ON grants
  FOR EACH ROW EXECUTE FUNCTION surety_grant_guard();

DROP TRIGGER domain_heads_guard ON domain_heads;
CREATE TRIGGER domain_heads_guard BEFORE UPDATE ON domain_heads
  FOR EACH ROW WHEN (
    NEW.domain_id <> OLD.domain_id OR NEW.seq < OLD.seq OR NEW.fence_counter < OLD.fence_counter
    OR NEW.incarnation < OLD.incarnation OR NEW.last_time < OLD.last_time
  )
  EXECUTE FUNCTION surety_head_guard();
CREATE TRIGGER domain_heads_kept BEFORE DELETE ON domain_heads
  FOR EACH ROW EXECUTE FUNCTION surety_head_guard();
