-- Surety's store. Every key begins with domain_id, ids are made by the service, times are microseconds since the epoch.
-- Triggers and privileges are the second line: what they refuse, the service never tries.
-- The roles surety_service (serves) and surety_archive (archives) are made by the migration runner before this runs.

-- What the store says of itself: one row.
CREATE TABLE service_state (
  singleton boolean NOT NULL DEFAULT true,
  incarnation bigint NOT NULL DEFAULT 1,
  audience text COLLATE "C",
  service_domain_id text COLLATE "C",
  test_database boolean NOT NULL DEFAULT false,
  clock_offset bigint NOT NULL DEFAULT 0,
  CONSTRAINT service_state_pkey PRIMARY KEY (singleton),
  CONSTRAINT service_state_single CHECK (singleton),
  CONSTRAINT service_state_incarnation CHECK (incarnation BETWEEN 1 AND 8388607),
  CONSTRAINT service_state_test_clock CHECK (clock_offset = 0 OR test_database)
);
INSERT INTO service_state DEFAULT VALUES;

-- The store's clock, with the offset of a test database.
CREATE FUNCTION surety_now() RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + clock_offset FROM service_state
$$;

CREATE TABLE domains (
  domain_id text COLLATE "C" NOT NULL,
  status text COLLATE "C" NOT NULL,
  policy_revision bigint NOT NULL,
  revocation_epoch bigint NOT NULL,
  frozen boolean NOT NULL,
  freeze_reason text COLLATE "C",
  allow_standing boolean NOT NULL,
  revision bigint NOT NULL,
  created_at bigint NOT NULL,
  CONSTRAINT domains_pkey PRIMARY KEY (domain_id),
  CONSTRAINT domains_status CHECK (status IN ('active', 'suspended', 'revoked')),
  CONSTRAINT domains_numbers CHECK (policy_revision > 0 AND revocation_epoch > 0 AND revision > 0)
);

-- The row that a batch locks: the head of the domain's log, its fence counter and its last time.
CREATE TABLE domain_heads (
  domain_id text COLLATE "C" NOT NULL,
  seq bigint NOT NULL,
  chain_hash bytea NOT NULL,
  incarnation bigint NOT NULL,
  fence_counter bigint NOT NULL,
  last_time bigint NOT NULL,
  CONSTRAINT domain_heads_pkey PRIMARY KEY (domain_id),
  CONSTRAINT domain_heads_hash CHECK (octet_length(chain_hash) = 32),
  CONSTRAINT domain_heads_fence CHECK (fence_counter BETWEEN 0 AND 1099511627775)
) WITH (fillfactor = 20);

-- The last batch that each lane of each process committed: what a lost answer to COMMIT is settled by.
CREATE TABLE lanes (
  domain_id text COLLATE "C" NOT NULL,
  lane_id text COLLATE "C" NOT NULL,
  last_batch bigint NOT NULL,
  updated_at bigint NOT NULL,
  CONSTRAINT lanes_pkey PRIMARY KEY (domain_id, lane_id)
) WITH (fillfactor = 20);

CREATE TABLE sinks (
  domain_id text COLLATE "C" NOT NULL,
  sink text COLLATE "C" NOT NULL,
  authority_systems text[] COLLATE "C" NOT NULL,
  send_window bigint NOT NULL,
  settle_time bigint NOT NULL,
  frozen boolean NOT NULL,
  freeze_reason text COLLATE "C",
  revision bigint NOT NULL,
  CONSTRAINT sinks_pkey PRIMARY KEY (domain_id, sink),
  CONSTRAINT sinks_windows CHECK (send_window > 0 AND settle_time >= 0)
);

CREATE TABLE callers (
  domain_id text COLLATE "C" NOT NULL,
  spiffe_id text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  ref_id text COLLATE "C" NOT NULL,
  CONSTRAINT callers_pkey PRIMARY KEY (domain_id, spiffe_id),
  CONSTRAINT callers_kind CHECK (kind IN ('harness', 'executor', 'reconciler', 'worker', 'owner', 'operator', 'auditor'))
);

CREATE TABLE principals (
  domain_id text COLLATE "C" NOT NULL,
  principal_id text COLLATE "C" NOT NULL,
  status text COLLATE "C" NOT NULL,
  revision bigint NOT NULL,
  CONSTRAINT principals_pkey PRIMARY KEY (domain_id, principal_id),
  CONSTRAINT principals_status CHECK (status IN ('active', 'suspended', 'revoked'))
);

CREATE TABLE guests (
  domain_id text COLLATE "C" NOT NULL,
  guest_id text COLLATE "C" NOT NULL,
  expires_at bigint NOT NULL,
  status text COLLATE "C" NOT NULL,
  revision bigint NOT NULL,
  CONSTRAINT guests_pkey PRIMARY KEY (domain_id, guest_id),
  CONSTRAINT guests_status CHECK (status IN ('active', 'suspended', 'revoked'))
);

CREATE TABLE harnesses (
  domain_id text COLLATE "C" NOT NULL,
  harness_id text COLLATE "C" NOT NULL,
  owner_kind text COLLATE "C" NOT NULL,
  owner_id text COLLATE "C" NOT NULL,
  assurance text COLLATE "C" NOT NULL,
  credential_epoch bigint NOT NULL,
  status text COLLATE "C" NOT NULL,
  revision bigint NOT NULL,
  CONSTRAINT harnesses_pkey PRIMARY KEY (domain_id, harness_id),
  CONSTRAINT harnesses_status CHECK (status IN ('active', 'suspended', 'revoked')),
  CONSTRAINT harnesses_owner CHECK (owner_kind IN ('principal', 'guest')),
  CONSTRAINT harnesses_epoch CHECK (credential_epoch > 0)
);

CREATE TABLE credentials (
  domain_id text COLLATE "C" NOT NULL,
  credential_id text COLLATE "C" NOT NULL,
  harness_id text COLLATE "C" NOT NULL,
  credential_epoch bigint NOT NULL,
  spiffe_id text COLLATE "C" NOT NULL,
  binding text COLLATE "C" NOT NULL,
  certificate_digest bytea,
  not_before bigint NOT NULL,
  expires_at bigint NOT NULL,
  status text COLLATE "C" NOT NULL,
  revision bigint NOT NULL,
  CONSTRAINT credentials_pkey PRIMARY KEY (domain_id, credential_id),
  CONSTRAINT credentials_status CHECK (status IN ('active', 'suspended', 'revoked')),
  CONSTRAINT credentials_binding CHECK ((binding = 'certificate') = (certificate_digest IS NOT NULL))
);

CREATE TABLE entitlements (
  domain_id text COLLATE "C" NOT NULL,
  entitlement_id text COLLATE "C" NOT NULL,
  principal_id text COLLATE "C" NOT NULL,
  action text COLLATE "C" NOT NULL,
  resource text COLLATE "C" NOT NULL,
  policy_revision bigint NOT NULL,
  expires_at bigint NOT NULL,
  revoked_at bigint,
  revision bigint NOT NULL,
  CONSTRAINT entitlements_pkey PRIMARY KEY (domain_id, entitlement_id)
);

CREATE TABLE grants (
  domain_id text COLLATE "C" NOT NULL,
  grant_id text COLLATE "C" NOT NULL,
  actor_kind text COLLATE "C" NOT NULL,
  actor_id text COLLATE "C" NOT NULL,
  harness_id text COLLATE "C" NOT NULL,
  actions text[] COLLATE "C" NOT NULL,
  resources text[] COLLATE "C" NOT NULL,
  input_sources text[] COLLATE "C" NOT NULL,
  output_sinks text[] COLLATE "C" NOT NULL,
  data_classes integer[] NOT NULL,
  max_uses bigint NOT NULL,
  uses bigint NOT NULL,
  repeatable boolean NOT NULL,
  expires_at bigint NOT NULL,
  revoked_at bigint,
  policy_revision bigint NOT NULL,
  credential_epoch bigint NOT NULL,
  revision bigint NOT NULL,
  CONSTRAINT grants_pkey PRIMARY KEY (domain_id, grant_id),
  CONSTRAINT grants_actor CHECK (actor_kind IN ('principal', 'guest')),
  CONSTRAINT grants_uses CHECK (uses BETWEEN 0 AND max_uses AND max_uses > 0),
  CONSTRAINT grants_sets CHECK (cardinality(actions) > 0 AND cardinality(resources) > 0 AND cardinality(input_sources) > 0
    AND cardinality(output_sinks) > 0 AND cardinality(data_classes) > 0),
  CONSTRAINT grants_no_wildcard CHECK (NOT '*' = ANY (actions || resources || input_sources || output_sinks))
);

CREATE TABLE decisions (
  domain_id text COLLATE "C" NOT NULL,
  decision_id text COLLATE "C" NOT NULL,
  harness_id text COLLATE "C" NOT NULL,
  actor_kind text COLLATE "C" NOT NULL,
  actor_id text COLLATE "C" NOT NULL,
  action text COLLATE "C" NOT NULL,
  resource text COLLATE "C" NOT NULL,
  request_digest bytea NOT NULL,
  context_digest bytea NOT NULL,
  allowed boolean NOT NULL,
  reason text COLLATE "C",
  entitlement_id text COLLATE "C",
  grant_id text COLLATE "C",
  policy_revision bigint NOT NULL,
  decided_at bigint NOT NULL,
  denial_key bytea,
  audit_seq bigint NOT NULL,
  CONSTRAINT decisions_pkey PRIMARY KEY (domain_id, decision_id),
  CONSTRAINT decisions_reason CHECK (allowed = (reason IS NULL)),
  CONSTRAINT decisions_digests CHECK (octet_length(request_digest) = 32 AND octet_length(context_digest) = 32)
);

CREATE TABLE decision_uses (
  domain_id text COLLATE "C" NOT NULL,
  decision_id text COLLATE "C" NOT NULL,
  used_by text COLLATE "C" NOT NULL,
  used_at bigint NOT NULL,
  CONSTRAINT decision_uses_pkey PRIMARY KEY (domain_id, decision_id)
);

CREATE TABLE operators (
  domain_id text COLLATE "C" NOT NULL,
  spiffe_id text COLLATE "C" NOT NULL,
  signing_key_jwk text COLLATE "C",
  signing_key_thumbprint text COLLATE "C",
  roles text[] COLLATE "C" NOT NULL,
  scope_domain_id text COLLATE "C",
  status text COLLATE "C" NOT NULL,
  revision bigint NOT NULL,
  CONSTRAINT operators_pkey PRIMARY KEY (domain_id, spiffe_id),
  CONSTRAINT operators_status CHECK (status IN ('active', 'suspended', 'revoked'))
);

CREATE TABLE owners (
  domain_id text COLLATE "C" NOT NULL,
  spiffe_id text COLLATE "C" NOT NULL,
  signing_key_jwk text COLLATE "C" NOT NULL,
  signing_key_thumbprint text COLLATE "C" NOT NULL,
  source_scopes text[] COLLATE "C" NOT NULL,
  type_scopes text[] COLLATE "C" NOT NULL,
  status text COLLATE "C" NOT NULL,
  revision bigint NOT NULL,
  CONSTRAINT owners_pkey PRIMARY KEY (domain_id, spiffe_id),
  CONSTRAINT owners_status CHECK (status IN ('active', 'suspended', 'revoked'))
);

CREATE TABLE admin_commands (
  domain_id text COLLATE "C" NOT NULL,
  admin_command_id text COLLATE "C" NOT NULL,
  payload_digest bytea NOT NULL,
  signer_spiffe_id text COLLATE "C" NOT NULL,
  executed_at bigint NOT NULL,
  audit_seq bigint NOT NULL,
  entity_revision bigint NOT NULL,
  policy_revision bigint NOT NULL,
  revocation_epoch bigint NOT NULL,
  jws bytea NOT NULL,
  CONSTRAINT admin_commands_pkey PRIMARY KEY (domain_id, admin_command_id)
);

CREATE TABLE registrations (
  domain_id text COLLATE "C" NOT NULL,
  registration_id text COLLATE "C" NOT NULL,
  workload_id text COLLATE "C" NOT NULL,
  role text COLLATE "C" NOT NULL,
  recipient_scope text COLLATE "C" NOT NULL,
  process_id text COLLATE "C" NOT NULL,
  process_start_time bigint NOT NULL,
  session_id text COLLATE "C" NOT NULL,
  spiffe_id text COLLATE "C" NOT NULL,
  certificate_binding text COLLATE "C" NOT NULL,
  certificate_digest bytea,
  proof_key_thumbprint text COLLATE "C" NOT NULL,
  credential_epoch bigint NOT NULL,
  revocation_epoch bigint NOT NULL,
  parent_event_id text COLLATE "C",
  grant_id text COLLATE "C",
  sinks text[] COLLATE "C" NOT NULL,
  status text COLLATE "C" NOT NULL,
  issued_at bigint NOT NULL,
  expires_at bigint NOT NULL,
  renewable_until bigint,
  first_issued_at bigint NOT NULL,
  possession_digest bytea NOT NULL,
  updated_at bigint NOT NULL,
  CONSTRAINT registrations_pkey PRIMARY KEY (domain_id, registration_id),
  CONSTRAINT registrations_status CHECK (status IN ('active', 'suspended', 'revoked')),
  CONSTRAINT registrations_role CHECK (role IN ('effect_executor', 'effect_reconciler', 'action_worker')),
  CONSTRAINT registrations_bound CHECK ((parent_event_id IS NULL) = (grant_id IS NULL)),
  CONSTRAINT registrations_epochs CHECK (credential_epoch > 0 AND revocation_epoch > 0)
);

CREATE TABLE registration_versions (
  domain_id text COLLATE "C" NOT NULL,
  registration_id text COLLATE "C" NOT NULL,
  credential_epoch bigint NOT NULL,
  role text COLLATE "C" NOT NULL,
  spiffe_id text COLLATE "C" NOT NULL,
  certificate_digest bytea,
  proof_key_thumbprint text COLLATE "C" NOT NULL,
  status text COLLATE "C" NOT NULL,
  possession_jws bytea,
  stored_at bigint NOT NULL,
  CONSTRAINT registration_versions_pkey PRIMARY KEY (domain_id, registration_id, credential_epoch),
  CONSTRAINT registration_versions_status CHECK (status IN ('active', 'suspended', 'revoked'))
);

CREATE TABLE proof_keys (
  domain_id text COLLATE "C" NOT NULL,
  thumbprint text COLLATE "C" NOT NULL,
  public_jwk text COLLATE "C" NOT NULL,
  first_seen_at bigint NOT NULL,
  CONSTRAINT proof_keys_pkey PRIMARY KEY (domain_id, thumbprint)
);

CREATE TABLE events (
  domain_id text COLLATE "C" NOT NULL,
  event_id text COLLATE "C" NOT NULL,
  type text COLLATE "C" NOT NULL,
  origin_harness_id text COLLATE "C" NOT NULL,
  recipient_harness_ids text[] COLLATE "C" NOT NULL,
  classification integer NOT NULL,
  payload_digest bytea NOT NULL,
  effect_deadline bigint,
  policy_revision bigint NOT NULL,
  parent_event_id text COLLATE "C",
  hops integer NOT NULL,
  published_at bigint NOT NULL,
  object_type text COLLATE "C" NOT NULL,
  provenance_digest bytea NOT NULL,
  CONSTRAINT events_pkey PRIMARY KEY (domain_id, event_id),
  CONSTRAINT events_class CHECK (classification BETWEEN 1 AND 4),
  CONSTRAINT events_digests CHECK (octet_length(payload_digest) = 32 AND octet_length(provenance_digest) = 32)
);

CREATE TABLE effects (
  domain_id text COLLATE "C" NOT NULL,
  effect_id text COLLATE "C" NOT NULL,
  identity_digest bytea NOT NULL,
  event_id text COLLATE "C" NOT NULL,
  sink text COLLATE "C" NOT NULL,
  request_digest bytea NOT NULL,
  actor_kind text COLLATE "C" NOT NULL,
  actor_id text COLLATE "C" NOT NULL,
  harness_id text COLLATE "C" NOT NULL,
  assurance text COLLATE "C" NOT NULL,
  credential_epoch bigint NOT NULL,
  grant_id text COLLATE "C" NOT NULL,
  action text COLLATE "C" NOT NULL,
  resource text COLLATE "C" NOT NULL,
  input_source text COLLATE "C" NOT NULL,
  data_class integer NOT NULL,
  effect_key text COLLATE "C" NOT NULL,
  key_digest bytea NOT NULL,
  holds_key boolean NOT NULL,
  repeatable boolean NOT NULL,
  reservation_ttl bigint,
  execution_deadline bigint,
  start_before bigint NOT NULL,
  policy_revision bigint NOT NULL,
  decision_id text COLLATE "C" NOT NULL,
  fence bigint NOT NULL,
  state text COLLATE "C" NOT NULL,
  state_source text COLLATE "C" NOT NULL,
  reserved_at bigint NOT NULL,
  reserve_seq bigint NOT NULL,
  reserve_leaf bytea NOT NULL,
  attempt_id text COLLATE "C",
  executor_registration_id text COLLATE "C",
  executor_session_id text COLLATE "C",
  executor_process_id text COLLATE "C",
  executor_process_start bigint,
  started_at bigint,
  lost_at bigint,
  send_window bigint,
  unknown_at bigint,
  settled_at bigint,
  reconciler_registration_id text COLLATE "C",
  evidence_digest bytea,
  state_at bigint NOT NULL,
  output_digest bytea,
  disputed boolean NOT NULL,
  late_evidence_count integer NOT NULL,
  step bigint NOT NULL,
  last_seq bigint NOT NULL,
  state_step bigint NOT NULL,
  state_seq bigint NOT NULL,
  state_leaf bytea NOT NULL,
  CONSTRAINT effects_pkey PRIMARY KEY (domain_id, effect_id),
  CONSTRAINT effects_state CHECK (state IN ('PREPARED', 'EXECUTING', 'SUCCEEDED', 'FAILED', 'CANCELLED', 'UNKNOWN')),
  CONSTRAINT effects_fence CHECK (fence > 0),
  CONSTRAINT effects_digests CHECK (octet_length(identity_digest) = 32 AND octet_length(request_digest) = 32
    AND octet_length(key_digest) = 32),
  CONSTRAINT effects_key_live CHECK (holds_key OR state NOT IN ('PREPARED', 'EXECUTING', 'UNKNOWN')),
  CONSTRAINT effects_key_free CHECK (NOT holds_key OR disputed OR state NOT IN ('FAILED', 'CANCELLED')),
  CONSTRAINT effects_key_done CHECK (holds_key OR repeatable OR state <> 'SUCCEEDED'),
  CONSTRAINT effects_started CHECK (state NOT IN ('EXECUTING', 'UNKNOWN') OR (attempt_id IS NOT NULL AND started_at IS NOT NULL
    AND send_window IS NOT NULL)),
  CONSTRAINT effects_late CHECK (late_evidence_count BETWEEN 0 AND 8)
);

CREATE TABLE pending_work (
  domain_id text COLLATE "C" NOT NULL,
  effect_id text COLLATE "C" NOT NULL,
  opened_at bigint NOT NULL,
  CONSTRAINT pending_work_pkey PRIMARY KEY (domain_id, effect_id)
);

CREATE TABLE transitions (
  domain_id text COLLATE "C" NOT NULL,
  effect_id text COLLATE "C" NOT NULL,
  step bigint NOT NULL,
  from_state text COLLATE "C" NOT NULL,
  to_state text COLLATE "C" NOT NULL,
  late boolean NOT NULL,
  registration_id text COLLATE "C" NOT NULL,
  role text COLLATE "C" NOT NULL,
  workload_id text COLLATE "C" NOT NULL,
  spiffe_id text COLLATE "C" NOT NULL,
  leaf_digest bytea NOT NULL,
  key_thumbprint text COLLATE "C" NOT NULL,
  credential_epoch bigint NOT NULL,
  attempt_id text COLLATE "C" NOT NULL,
  evidence bytea NOT NULL,
  evidence_digest bytea NOT NULL,
  proof bytea NOT NULL,
  proof_encoding text COLLATE "C" NOT NULL,
  statement_digest bytea NOT NULL,
  skew bigint NOT NULL,
  received_at bigint NOT NULL,
  CONSTRAINT transitions_pkey PRIMARY KEY (domain_id, effect_id, step),
  CONSTRAINT transitions_digests CHECK (octet_length(evidence_digest) = 32 AND octet_length(statement_digest) = 32
    AND octet_length(leaf_digest) = 32)
);

CREATE TABLE transition_nonces (
  domain_id text COLLATE "C" NOT NULL,
  registration_id text COLLATE "C" NOT NULL,
  nonce_digest bytea NOT NULL,
  statement_digest bytea NOT NULL,
  expires_at bigint NOT NULL,
  CONSTRAINT transition_nonces_pkey PRIMARY KEY (domain_id, registration_id, nonce_digest),
  CONSTRAINT transition_nonces_digest CHECK (octet_length(nonce_digest) = 32)
);

CREATE TABLE replay_nonces (
  domain_id text COLLATE "C" NOT NULL,
  nonce_key bytea NOT NULL,
  consumption_id text COLLATE "C" NOT NULL,
  consumed_at bigint NOT NULL,
  expires_at bigint NOT NULL,
  CONSTRAINT replay_nonces_pkey PRIMARY KEY (domain_id, nonce_key),
  CONSTRAINT replay_nonces_key CHECK (octet_length(nonce_key) = 32)
);

-- How many nonces of a caller are live, by the time at which they leave.
CREATE TABLE replay_callers (
  domain_id text COLLATE "C" NOT NULL,
  spiffe_id text COLLATE "C" NOT NULL,
  first_bucket bigint NOT NULL,
  counts integer[] NOT NULL,
  CONSTRAINT replay_callers_pkey PRIMARY KEY (domain_id, spiffe_id)
) WITH (fillfactor = 20);

CREATE TABLE provenance_records (
  domain_id text COLLATE "C" NOT NULL,
  object_type text COLLATE "C" NOT NULL,
  object_id text COLLATE "C" NOT NULL,
  version bigint NOT NULL,
  provenance_digest bytea NOT NULL,
  content_digest bytea NOT NULL,
  classification integer NOT NULL,
  policy_revision bigint NOT NULL,
  allowed_sinks text[] COLLATE "C" NOT NULL,
  tainted boolean NOT NULL,
  reviewed boolean NOT NULL,
  scan_pending boolean NOT NULL,
  predecessor_digest bytea,
  origin_kind text COLLATE "C",
  source_id text COLLATE "C",
  source_digest bytea,
  observed_at bigint,
  principal_id text COLLATE "C",
  harness_id text COLLATE "C",
  parent_digests bytea[] NOT NULL,
  recorded_at bigint NOT NULL,
  CONSTRAINT provenance_records_pkey PRIMARY KEY (domain_id, object_type, object_id, version),
  CONSTRAINT provenance_records_digests CHECK (octet_length(provenance_digest) = 32 AND octet_length(content_digest) = 32),
  CONSTRAINT provenance_records_version CHECK (version > 0),
  CONSTRAINT provenance_records_kind CHECK ((origin_kind IS NULL) = (cardinality(parent_digests) > 0))
);

CREATE TABLE provenance_parents (
  domain_id text COLLATE "C" NOT NULL,
  provenance_digest bytea NOT NULL,
  parent_digest bytea NOT NULL,
  CONSTRAINT provenance_parents_pkey PRIMARY KEY (domain_id, provenance_digest, parent_digest)
);

CREATE TABLE provenance_steps (
  domain_id text COLLATE "C" NOT NULL,
  provenance_digest bytea NOT NULL,
  ordinal integer NOT NULL,
  kind text COLLATE "C" NOT NULL,
  operation text COLLATE "C" NOT NULL,
  implementation text COLLATE "C" NOT NULL,
  implementation_version text COLLATE "C" NOT NULL,
  executor text COLLATE "C" NOT NULL,
  input_digests bytea[] NOT NULL,
  output_digest bytea NOT NULL,
  started_at bigint NOT NULL,
  completed_at bigint NOT NULL,
  CONSTRAINT provenance_steps_pkey PRIMARY KEY (domain_id, provenance_digest, ordinal)
);

CREATE TABLE audit_entries (
  domain_id text COLLATE "C" NOT NULL,
  seq bigint NOT NULL,
  entry bytea NOT NULL,
  leaf_hash bytea NOT NULL,
  chain_hash bytea NOT NULL,
  effect_id text COLLATE "C",
  effect_step bigint,
  CONSTRAINT audit_entries_pkey PRIMARY KEY (domain_id, seq),
  CONSTRAINT audit_entries_seq CHECK (seq > 0),
  CONSTRAINT audit_entries_hashes CHECK (octet_length(leaf_hash) = 32 AND octet_length(chain_hash) = 32)
);

CREATE INDEX credentials_spiffe_id ON credentials (domain_id, spiffe_id);
CREATE UNIQUE INDEX entitlements_scope ON entitlements (domain_id, principal_id, action, resource);
CREATE INDEX decisions_denial ON decisions (domain_id, denial_key, decided_at) WHERE denial_key IS NOT NULL;
CREATE INDEX registrations_spiffe_id ON registrations (domain_id, spiffe_id);
CREATE INDEX registration_versions_key ON registration_versions (domain_id, proof_key_thumbprint);

-- The identity of an effect, and who holds an effect key (effects.md, Reserve 1 and 5).
CREATE UNIQUE INDEX effects_identity ON effects (domain_id, identity_digest);
CREATE UNIQUE INDEX effects_key_holder ON effects (domain_id, sink, key_digest) WHERE holds_key;
CREATE INDEX effects_key_succeeded ON effects (domain_id, sink, key_digest) WHERE state = 'SUCCEEDED';
CREATE UNIQUE INDEX effects_by_fence ON effects (domain_id, fence);
CREATE INDEX effects_by_event ON effects (domain_id, event_id, fence);
-- What the sweeps look for.
CREATE INDEX effects_prepared ON effects (domain_id, start_before) WHERE state = 'PREPARED';
CREATE INDEX effects_prepared_grant ON effects (domain_id, grant_id) WHERE state = 'PREPARED';
CREATE INDEX effects_executing ON effects (domain_id, lost_at) WHERE state = 'EXECUTING';
CREATE INDEX effects_unknown ON effects (domain_id, fence) WHERE state = 'UNKNOWN';

CREATE INDEX transition_nonces_expiry ON transition_nonces (domain_id, expires_at);
CREATE INDEX replay_nonces_expiry ON replay_nonces (domain_id, expires_at);
CREATE UNIQUE INDEX provenance_records_digest ON provenance_records (domain_id, provenance_digest);
CREATE INDEX provenance_parents_parent ON provenance_parents (domain_id, parent_digest);
CREATE UNIQUE INDEX audit_entries_effect ON audit_entries (domain_id, effect_id, effect_step) WHERE effect_id IS NOT NULL;

-- Append-only: receipts, decisions, events, the log and provenance are never changed and never removed.
CREATE FUNCTION surety_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'table % is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END
$$;

DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['transitions', 'decisions', 'decision_uses', 'admin_commands', 'registration_versions',
    'proof_keys', 'events', 'provenance_records', 'provenance_parents', 'provenance_steps', 'audit_entries']
  LOOP
    EXECUTE format('CREATE TRIGGER %I BEFORE UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION surety_append_only()',
      name || '_append_only', name);
    EXECUTE format('CREATE TRIGGER %I BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION surety_append_only()',
      name || '_no_truncate', name);
  END LOOP;
END
$$;

-- effects.md, States: no other edge exists, a terminal state is frozen, identity and fence never change.
CREATE FUNCTION surety_effect_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF NEW.state <> 'PREPARED' OR NEW.step <> 1 OR NEW.disputed OR NEW.late_evidence_count <> 0 THEN
      RAISE EXCEPTION 'an effect begins as PREPARED' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
  END IF;
  IF TG_OP = 'DELETE' THEN
    RAISE EXCEPTION 'effects are never removed' USING ERRCODE = 'restrict_violation';
  END IF;
  IF (NEW.domain_id, NEW.effect_id, NEW.identity_digest, NEW.event_id, NEW.sink, NEW.request_digest, NEW.actor_kind,
      NEW.actor_id, NEW.harness_id, NEW.assurance, NEW.credential_epoch, NEW.grant_id, NEW.action, NEW.resource,
      NEW.input_source, NEW.data_class, NEW.effect_key, NEW.key_digest, NEW.repeatable, NEW.reservation_ttl,
      NEW.execution_deadline, NEW.start_before, NEW.policy_revision, NEW.decision_id, NEW.fence, NEW.reserved_at,
      NEW.reserve_seq, NEW.reserve_leaf)
    IS DISTINCT FROM
     (OLD.domain_id, OLD.effect_id, OLD.identity_digest, OLD.event_id, OLD.sink, OLD.request_digest, OLD.actor_kind,
      OLD.actor_id, OLD.harness_id, OLD.assurance, OLD.credential_epoch, OLD.grant_id, OLD.action, OLD.resource,
      OLD.input_source, OLD.data_class, OLD.effect_key, OLD.key_digest, OLD.repeatable, OLD.reservation_ttl,
      OLD.execution_deadline, OLD.start_before, OLD.policy_revision, OLD.decision_id, OLD.fence, OLD.reserved_at,
      OLD.reserve_seq, OLD.reserve_leaf)
  THEN
    RAISE EXCEPTION 'what an effect was reserved as never changes' USING ERRCODE = 'restrict_violation';
  END IF;
  IF NEW.step <> OLD.step + 1 OR (OLD.disputed AND NOT NEW.disputed)
    OR NEW.late_evidence_count NOT BETWEEN OLD.late_evidence_count AND OLD.late_evidence_count + 1
  THEN
    RAISE EXCEPTION 'an effect goes one step at a time' USING ERRCODE = 'restrict_violation';
  END IF;
  IF NEW.state = OLD.state THEN
    -- Late evidence: the state and all that led to it stay.
    IF NEW.late_evidence_count <> OLD.late_evidence_count + 1
      OR (NEW.state_source, NEW.attempt_id, NEW.executor_registration_id, NEW.executor_session_id, NEW.executor_process_id,
          NEW.executor_process_start, NEW.started_at, NEW.lost_at, NEW.send_window, NEW.unknown_at, NEW.settled_at,
          NEW.reconciler_registration_id, NEW.evidence_digest, NEW.state_at, NEW.output_digest, NEW.state_step,
          NEW.state_seq, NEW.state_leaf)
        IS DISTINCT FROM
         (OLD.state_source, OLD.attempt_id, OLD.executor_registration_id, OLD.executor_session_id, OLD.executor_process_id,
          OLD.executor_process_start, OLD.started_at, OLD.lost_at, OLD.send_window, OLD.unknown_at, OLD.settled_at,
          OLD.reconciler_registration_id, OLD.evidence_digest, OLD.state_at, OLD.output_digest, OLD.state_step,
          OLD.state_seq, OLD.state_leaf)
    THEN
      RAISE EXCEPTION 'effect state % is kept', OLD.state USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
  END IF;
  IF NOT (
    (OLD.state = 'PREPARED' AND NEW.state IN ('EXECUTING', 'CANCELLED'))
    OR (OLD.state = 'EXECUTING' AND NEW.state IN ('SUCCEEDED', 'FAILED', 'CANCELLED', 'UNKNOWN'))
    OR (OLD.state = 'UNKNOWN' AND NEW.state IN ('SUCCEEDED', 'FAILED', 'CANCELLED'))
  ) THEN
    RAISE EXCEPTION 'no edge from % to %', OLD.state, NEW.state USING ERRCODE = 'restrict_violation';
  END IF;
  IF OLD.attempt_id IS NOT NULL AND (NEW.attempt_id, NEW.executor_registration_id, NEW.started_at)
    IS DISTINCT FROM (OLD.attempt_id, OLD.executor_registration_id, OLD.started_at)
  THEN
    RAISE EXCEPTION 'an attempt never changes' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER effects_guard BEFORE INSERT OR UPDATE OR DELETE ON effects
  FOR EACH ROW EXECUTE FUNCTION surety_effect_guard();
CREATE TRIGGER effects_no_truncate BEFORE TRUNCATE ON effects
  FOR EACH STATEMENT EXECUTE FUNCTION surety_append_only();

-- A head never goes back: not its position, not its fences, not its time.
CREATE FUNCTION surety_head_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' OR NEW.domain_id <> OLD.domain_id OR NEW.seq < OLD.seq OR NEW.fence_counter < OLD.fence_counter
    OR NEW.incarnation < OLD.incarnation OR NEW.last_time < OLD.last_time
  THEN
    RAISE EXCEPTION 'the head of a domain never goes back' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER domain_heads_guard BEFORE UPDATE OR DELETE ON domain_heads
  FOR EACH ROW EXECUTE FUNCTION surety_head_guard();

-- A use is never given back, a revocation never taken back, an issued grant never widened.
CREATE FUNCTION surety_grant_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' OR NEW.uses < OLD.uses OR (OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS DISTINCT FROM OLD.revoked_at)
    OR (NEW.domain_id, NEW.grant_id, NEW.actor_kind, NEW.actor_id, NEW.harness_id, NEW.actions, NEW.resources,
        NEW.input_sources, NEW.output_sinks, NEW.data_classes, NEW.max_uses, NEW.repeatable, NEW.expires_at,
        NEW.policy_revision, NEW.credential_epoch)
      IS DISTINCT FROM
       (OLD.domain_id, OLD.grant_id, OLD.actor_kind, OLD.actor_id, OLD.harness_id, OLD.actions, OLD.resources,
        OLD.input_sources, OLD.output_sinks, OLD.data_classes, OLD.max_uses, OLD.repeatable, OLD.expires_at,
        OLD.policy_revision, OLD.credential_epoch)
  THEN
    RAISE EXCEPTION 'a grant only shrinks' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER grants_guard BEFORE UPDATE OR DELETE ON grants
  FOR EACH ROW EXECUTE FUNCTION surety_grant_guard();

-- A nonce is spent for ever, or until nothing that carries it can verify any more.
CREATE FUNCTION surety_nonce_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE' OR OLD.expires_at >= surety_now() THEN
    RAISE EXCEPTION 'a spent nonce stays spent' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN OLD;
END
$$;
CREATE TRIGGER transition_nonces_guard BEFORE UPDATE OR DELETE ON transition_nonces
  FOR EACH ROW EXECUTE FUNCTION surety_nonce_guard();
CREATE TRIGGER replay_nonces_guard BEFORE UPDATE OR DELETE ON replay_nonces
  FOR EACH ROW EXECUTE FUNCTION surety_nonce_guard();

-- What serves may read everything, add, and change only what moves.
REVOKE ALL ON ALL TABLES IN SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO surety_service, surety_archive;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO surety_service, surety_archive;
GRANT INSERT ON domains, domain_heads, lanes, sinks, callers, principals, guests, harnesses, credentials, entitlements,
  grants, decisions, decision_uses, operators, owners, admin_commands, registrations, registration_versions, proof_keys,
  events, effects, pending_work, transitions, transition_nonces, replay_nonces, replay_callers, provenance_records, provenance_parents,
  provenance_steps, audit_entries TO surety_service;
GRANT UPDATE (status, policy_revision, revocation_epoch, frozen, freeze_reason, allow_standing, revision) ON domains
  TO surety_service;
GRANT UPDATE (seq, chain_hash, incarnation, fence_counter, last_time) ON domain_heads TO surety_service;
GRANT UPDATE (last_batch, updated_at) ON lanes TO surety_service;
GRANT DELETE ON lanes, pending_work, transition_nonces, replay_nonces TO surety_service;
GRANT UPDATE (clock_offset) ON service_state TO surety_service;
GRANT UPDATE (authority_systems, send_window, settle_time, frozen, freeze_reason, revision) ON sinks TO surety_service;
GRANT UPDATE (kind) ON callers TO surety_service;
GRANT UPDATE (first_bucket, counts) ON replay_callers TO surety_service;
GRANT UPDATE (status, revision) ON principals TO surety_service;
GRANT UPDATE (status, expires_at, revision) ON guests TO surety_service;
GRANT UPDATE (assurance, credential_epoch, status, revision) ON harnesses TO surety_service;
GRANT UPDATE (status, revision) ON credentials TO surety_service;
GRANT UPDATE (policy_revision, expires_at, revoked_at, revision) ON entitlements TO surety_service;
GRANT UPDATE (uses, revoked_at, revision) ON grants TO surety_service;
GRANT UPDATE (signing_key_jwk, signing_key_thumbprint, roles, scope_domain_id, status, revision) ON operators TO surety_service;
GRANT UPDATE (signing_key_jwk, signing_key_thumbprint, source_scopes, type_scopes, status, revision) ON owners TO surety_service;
GRANT UPDATE (recipient_scope, workload_id, process_id, process_start_time, session_id, certificate_binding,
  certificate_digest, proof_key_thumbprint, credential_epoch, status, issued_at, expires_at, renewable_until,
  possession_digest, updated_at) ON registrations TO surety_service;
GRANT UPDATE (holds_key, state, state_source, attempt_id, executor_registration_id, executor_session_id,
  executor_process_id, executor_process_start, started_at, lost_at, send_window, unknown_at, settled_at,
  reconciler_registration_id, evidence_digest, state_at, output_digest, disputed, late_evidence_count, step,
  last_seq, state_step, state_seq, state_leaf) ON effects TO surety_service;
