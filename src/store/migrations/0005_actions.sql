-- Governed actions (actions.md).

-- What the evidence of a gate may hold besides what every approval has; no two shapes of a domain have the same fields.
CREATE TABLE gate_shapes (
  domain_id text COLLATE "C" NOT NULL,
  gate_shape_id text COLLATE "C" NOT NULL,
  field_names text[] COLLATE "C" NOT NULL,
  field_kinds text[] COLLATE "C" NOT NULL,
  field_values text[] COLLATE "C" NOT NULL,
  fields_digest bytea NOT NULL,
  status text COLLATE "C" NOT NULL,
  revision bigint NOT NULL,
  CONSTRAINT gate_shapes_pkey PRIMARY KEY (domain_id, gate_shape_id),
  CONSTRAINT gate_shapes_status CHECK (status IN ('active', 'suspended')),
  CONSTRAINT gate_shapes_fields CHECK (cardinality(field_names) BETWEEN 1 AND 32
    AND cardinality(field_kinds) = cardinality(field_names) AND cardinality(field_values) = cardinality(field_names)),
  CONSTRAINT gate_shapes_digest CHECK (octet_length(fields_digest) = 32),
  CONSTRAINT gate_shapes_revision CHECK (revision > 0)
);
CREATE UNIQUE INDEX gate_shapes_fields_once ON gate_shapes (domain_id, fields_digest);

-- What must hold for every dispatch of a type besides its gate: CEL.
CREATE TABLE action_conditions (
  domain_id text COLLATE "C" NOT NULL,
  action_type text COLLATE "C" NOT NULL,
  expression text COLLATE "C" NOT NULL,
  status text COLLATE "C" NOT NULL,
  revision bigint NOT NULL,
  CONSTRAINT action_conditions_pkey PRIMARY KEY (domain_id, action_type),
  CONSTRAINT action_conditions_status CHECK (status IN ('active', 'suspended')),
  CONSTRAINT action_conditions_expression CHECK (octet_length(expression) BETWEEN 1 AND 2048),
  CONSTRAINT action_conditions_revision CHECK (revision > 0)
);

-- The tools that a bounded grant may cover, and those that none may.
CREATE TABLE tools (
  domain_id text COLLATE "C" NOT NULL,
  tool_name text COLLATE "C" NOT NULL,
  non_grantable boolean NOT NULL,
  status text COLLATE "C" NOT NULL,
  revision bigint NOT NULL,
  CONSTRAINT tools_pkey PRIMARY KEY (domain_id, tool_name),
  CONSTRAINT tools_status CHECK (status IN ('active', 'suspended')),
  CONSTRAINT tools_revision CHECK (revision > 0)
);

GRANT SELECT ON gate_shapes, action_conditions, tools TO surety_service, surety_archive;
GRANT INSERT ON gate_shapes, action_conditions, tools TO surety_service;
GRANT UPDATE (status, revision) ON gate_shapes TO surety_service;
GRANT UPDATE (expression, status, revision) ON action_conditions TO surety_service;
GRANT UPDATE (non_grantable, status, revision) ON tools TO surety_service;

-- One action each; the payload is kept as the bytes that came.
CREATE TABLE actions (
  domain_id text COLLATE "C" NOT NULL,
  action_id text COLLATE "C" NOT NULL,
  idempotency_key text COLLATE "C" NOT NULL,
  source text COLLATE "C" NOT NULL,
  source_ref text COLLATE "C" NOT NULL,
  type text COLLATE "C" NOT NULL,
  tool_name text COLLATE "C" NOT NULL,
  payload bytea NOT NULL,
  payload_digest bytea NOT NULL,
  action_digest bytea NOT NULL,
  max_attempts integer NOT NULL,
  created_at bigint NOT NULL,
  proposed_seq bigint NOT NULL,
  proposer_spiffe_id text COLLATE "C" NOT NULL,
  proposer_keys text[] COLLATE "C" NOT NULL,
  proposal_ttl bigint,
  proposal_expires_at bigint,
  state text COLLATE "C" NOT NULL,
  state_incarnation bigint NOT NULL,
  attempt_count integer NOT NULL,
  updated_at bigint NOT NULL,
  next_attempt_at bigint NOT NULL,
  lease_token bigint,
  lease_holder text COLLATE "C",
  lease_registration_id text COLLATE "C",
  lease_keys text[] COLLATE "C" NOT NULL,
  leased_at bigint,
  lease_expires_at bigint,
  dispatched_at bigint,
  dispatch_event bigint,
  execution_digest bytea,
  observation_deadline bigint,
  max_observations integer,
  observation_count integer NOT NULL,
  effect_id text COLLATE "C",
  acceptance_receipt_key text COLLATE "C",
  result_digest bytea,
  failure_reason text COLLATE "C",
  retryable boolean NOT NULL,
  ended_at bigint,
  receipt_count integer NOT NULL,
  event_count bigint NOT NULL,
  last_seq bigint NOT NULL,
  CONSTRAINT actions_pkey PRIMARY KEY (domain_id, action_id),
  CONSTRAINT actions_state CHECK (state IN ('PROPOSED', 'GATED', 'DISPATCHED', 'ACCEPTED', 'VERIFIED', 'COMPLETED', 'FAILED')),
  -- I6: there is one attempt, whatever anybody asks for.
  CONSTRAINT actions_max_attempts CHECK (max_attempts = 1),
  CONSTRAINT actions_attempts CHECK (attempt_count BETWEEN 0 AND max_attempts),
  CONSTRAINT actions_attempted CHECK (attempt_count = 1 OR state IN ('PROPOSED', 'GATED', 'FAILED')),
  CONSTRAINT actions_unattempted CHECK (attempt_count = 0 OR state NOT IN ('PROPOSED', 'GATED')),
  CONSTRAINT actions_dispatch CHECK ((attempt_count = 1) = (dispatched_at IS NOT NULL) AND (attempt_count = 1) = (dispatch_event IS NOT NULL)
    AND (attempt_count = 1) = (execution_digest IS NOT NULL) AND (attempt_count = 1) = (observation_deadline IS NOT NULL)
    AND (attempt_count = 1) = (max_observations IS NOT NULL)),
  CONSTRAINT actions_observations CHECK (observation_count BETWEEN 0 AND coalesce(max_observations, 0)
    AND coalesce(max_observations, 1) BETWEEN 1 AND 100),
  CONSTRAINT actions_digests CHECK (octet_length(payload_digest) = 32 AND octet_length(action_digest) = 32
    AND octet_length(execution_digest) = 32 AND octet_length(result_digest) = 32),
  CONSTRAINT actions_payload CHECK (octet_length(payload) BETWEEN 1 AND 65536),
  CONSTRAINT actions_lease CHECK ((lease_token IS NULL) = (lease_holder IS NULL) AND (lease_token IS NULL) = (lease_registration_id IS NULL)
    AND (lease_token IS NULL) = (leased_at IS NULL) AND (lease_token IS NULL) = (lease_expires_at IS NULL)
    AND (lease_token IS NULL) = (cardinality(lease_keys) = 0)),
  CONSTRAINT actions_lease_states CHECK (lease_token IS NULL OR state IN ('GATED', 'DISPATCHED', 'ACCEPTED', 'VERIFIED')),
  CONSTRAINT actions_failed CHECK ((state = 'FAILED') = (failure_reason IS NOT NULL)),
  CONSTRAINT actions_failure CHECK (failure_reason IN ('worker', 'rejected', 'proposal_expired', 'observations_exhausted',
    'observation_deadline', 'contract_invalid', 'journal_invalid', 'restored')),
  CONSTRAINT actions_ended CHECK ((state IN ('COMPLETED', 'FAILED')) = (ended_at IS NOT NULL)),
  CONSTRAINT actions_completed CHECK (state <> 'COMPLETED' OR result_digest IS NOT NULL),
  CONSTRAINT actions_counts CHECK (receipt_count >= 0 AND event_count > 0)
);
CREATE UNIQUE INDEX actions_idempotency_key ON actions (domain_id, idempotency_key);
CREATE UNIQUE INDEX actions_effect ON actions (domain_id, effect_id) WHERE effect_id IS NOT NULL;
-- Lists, in the order of the proposals.
CREATE UNIQUE INDEX actions_by_proposal ON actions (domain_id, proposed_seq);
CREATE INDEX actions_of_proposer ON actions (domain_id, proposer_spiffe_id, proposed_seq);
-- What workers take next. The pairs of source and type are walked from one to the next; within each, the order is that in which
-- actions are handed out, so that what is not ready, held, ended or out of scope is never read, however much there is of it.
CREATE INDEX actions_unleased ON actions (domain_id, state, source, type, next_attempt_at, created_at, action_id)
  WHERE lease_token IS NULL AND state IN ('GATED', 'DISPATCHED', 'ACCEPTED', 'VERIFIED');
-- The same for whoever takes any action, in the order of turns alone.
CREATE INDEX actions_turn ON actions (domain_id, state, next_attempt_at, created_at, action_id)
  WHERE lease_token IS NULL AND state IN ('GATED', 'DISPATCHED', 'ACCEPTED', 'VERIFIED');
-- What the sweeps look for.
CREATE INDEX actions_leased ON actions (domain_id, lease_expires_at, action_id) WHERE lease_token IS NOT NULL;
CREATE INDEX actions_proposed ON actions (domain_id, proposal_expires_at) WHERE state = 'PROPOSED' AND proposal_expires_at IS NOT NULL;
CREATE INDEX actions_observable ON actions (domain_id, observation_deadline) WHERE state = 'DISPATCHED' AND lease_token IS NULL;

CREATE TABLE action_receipts (
  domain_id text COLLATE "C" NOT NULL,
  action_id text COLLATE "C" NOT NULL,
  receipt_class text COLLATE "C" NOT NULL,
  receipt_key text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  status text COLLATE "C" NOT NULL,
  external_id text COLLATE "C" NOT NULL,
  evidence bytea NOT NULL,
  evidence_digest bytea NOT NULL,
  actor_spiffe_id text COLLATE "C" NOT NULL,
  created_at bigint NOT NULL,
  event_number bigint NOT NULL,
  decision_id text COLLATE "C",
  approver_spiffe_id text COLLATE "C",
  approver_keys text[] COLLATE "C" NOT NULL,
  signing_key_thumbprint text COLLATE "C",
  signature bytea,
  bounded_grant_id text COLLATE "C",
  request_id text COLLATE "C",
  CONSTRAINT action_receipts_pkey PRIMARY KEY (domain_id, action_id, receipt_class, receipt_key),
  CONSTRAINT action_receipts_class CHECK (receipt_class IN ('gate', 'recovery', 'observation', 'general')),
  -- Reserved kinds stand in their own class, and nothing else does.
  CONSTRAINT action_receipts_kind CHECK ((receipt_class = 'gate') = (kind = 'gate')
    AND (receipt_class = 'recovery') = (kind = 'dispatch_recovery')
    AND (receipt_class = 'observation') = (kind = 'dispatch_observation')),
  CONSTRAINT action_receipts_digest CHECK (octet_length(evidence_digest) = 32),
  CONSTRAINT action_receipts_evidence CHECK (octet_length(evidence) BETWEEN 1 AND 16384),
  CONSTRAINT action_receipts_gate CHECK ((receipt_class = 'gate') = (decision_id IS NOT NULL)
    AND (receipt_class = 'gate') = (approver_spiffe_id IS NOT NULL)
    AND (receipt_class = 'gate') = (signing_key_thumbprint IS NOT NULL)
    AND (receipt_class = 'gate') = (cardinality(approver_keys) > 0)
    AND (receipt_class = 'gate') = (coalesce(signature, ''::bytea) <> ''::bytea OR bounded_grant_id IS NOT NULL)),
  CONSTRAINT action_receipts_request CHECK ((receipt_class = 'observation') = (request_id IS NOT NULL)),
  CONSTRAINT action_receipts_event CHECK (event_number > 0)
);
-- I5: one contract, and each approval and each decision is one gate's.
CREATE UNIQUE INDEX action_receipts_one_contract ON action_receipts (domain_id, action_id) WHERE receipt_class = 'recovery';
CREATE UNIQUE INDEX action_receipts_approval ON action_receipts (domain_id, external_id)
  WHERE receipt_class = 'gate' AND status = 'passed';
CREATE UNIQUE INDEX action_receipts_decision ON action_receipts (domain_id, decision_id) WHERE decision_id IS NOT NULL;
CREATE UNIQUE INDEX action_receipts_event_once ON action_receipts (domain_id, action_id, event_number);

CREATE TABLE action_events (
  domain_id text COLLATE "C" NOT NULL,
  action_id text COLLATE "C" NOT NULL,
  event_number bigint NOT NULL,
  kind text COLLATE "C" NOT NULL,
  from_state text COLLATE "C",
  to_state text COLLATE "C" NOT NULL,
  actor_spiffe_id text COLLATE "C",
  lease_token bigint,
  receipt_class text COLLATE "C",
  receipt_key text COLLATE "C",
  observation_number integer,
  failure_reason text COLLATE "C",
  request_digest bytea,
  occurred_at bigint NOT NULL,
  audit_seq bigint NOT NULL,
  CONSTRAINT action_events_pkey PRIMARY KEY (domain_id, action_id, event_number),
  CONSTRAINT action_events_number CHECK (event_number > 0 AND (event_number = 1) = (from_state IS NULL)),
  CONSTRAINT action_events_receipt CHECK ((receipt_class IS NULL) = (receipt_key IS NULL)),
  CONSTRAINT action_events_failure CHECK ((failure_reason IS NOT NULL) = (to_state = 'FAILED' AND from_state <> 'FAILED')),
  CONSTRAINT action_events_request CHECK (octet_length(request_digest) = 32)
);
CREATE UNIQUE INDEX action_events_position ON action_events (domain_id, audit_seq);
CREATE UNIQUE INDEX action_events_request_once ON action_events (domain_id, action_id, request_digest)
  WHERE request_digest IS NOT NULL;

-- Every lease that ever was: who is a party for that, and what a repeated request is answered with.
CREATE TABLE action_leases (
  domain_id text COLLATE "C" NOT NULL,
  lease_token bigint NOT NULL,
  action_id text COLLATE "C" NOT NULL,
  holder_spiffe_id text COLLATE "C" NOT NULL,
  registration_id text COLLATE "C" NOT NULL,
  request_id text COLLATE "C" NOT NULL,
  request_digest bytea NOT NULL,
  leased_at bigint NOT NULL,
  expires_at bigint NOT NULL,
  CONSTRAINT action_leases_pkey PRIMARY KEY (domain_id, lease_token),
  CONSTRAINT action_leases_token CHECK (lease_token > 0),
  CONSTRAINT action_leases_digest CHECK (octet_length(request_digest) = 32),
  CONSTRAINT action_leases_duration CHECK (expires_at - leased_at BETWEEN 1000000 AND 3600000000)
);
CREATE UNIQUE INDEX action_leases_request ON action_leases (domain_id, holder_spiffe_id, request_id);
CREATE INDEX action_leases_holder ON action_leases (domain_id, action_id, holder_spiffe_id, lease_token);

CREATE TABLE dead_letters (
  domain_id text COLLATE "C" NOT NULL,
  action_id text COLLATE "C" NOT NULL,
  failure_reason text COLLATE "C" NOT NULL,
  detail text COLLATE "C" NOT NULL,
  retryable boolean NOT NULL,
  from_state text COLLATE "C" NOT NULL,
  failed_at bigint NOT NULL,
  snapshot bytea NOT NULL,
  snapshot_digest bytea NOT NULL,
  audit_seq bigint NOT NULL,
  CONSTRAINT dead_letters_pkey PRIMARY KEY (domain_id, action_id),
  CONSTRAINT dead_letters_digest CHECK (octet_length(snapshot_digest) = 32)
);
CREATE UNIQUE INDEX dead_letters_position ON dead_letters (domain_id, audit_seq);

-- What an owner approved in advance. It is not a task grant.
CREATE TABLE bounded_grants (
  domain_id text COLLATE "C" NOT NULL,
  bounded_grant_id text COLLATE "C" NOT NULL,
  owner_spiffe_id text COLLATE "C" NOT NULL,
  owner_keys text[] COLLATE "C" NOT NULL,
  signing_key_thumbprint text COLLATE "C" NOT NULL,
  sources text[] COLLATE "C" NOT NULL,
  types text[] COLLATE "C" NOT NULL,
  tools text[] COLLATE "C" NOT NULL,
  max_uses bigint NOT NULL,
  uses bigint NOT NULL,
  expires_at bigint,
  revoked_at bigint,
  issued_at bigint NOT NULL,
  created_at bigint NOT NULL,
  incarnation bigint NOT NULL,
  statement_digest bytea NOT NULL,
  jws bytea NOT NULL,
  audit_seq bigint NOT NULL,
  CONSTRAINT bounded_grants_pkey PRIMARY KEY (domain_id, bounded_grant_id),
  CONSTRAINT bounded_grants_uses CHECK (uses BETWEEN 0 AND max_uses AND max_uses > 0),
  CONSTRAINT bounded_grants_sets CHECK (cardinality(sources) > 0 AND cardinality(types) > 0 AND cardinality(tools) > 0
    AND NOT '*' = ANY (sources || types || tools)),
  CONSTRAINT bounded_grants_digest CHECK (octet_length(statement_digest) = 32)
);

CREATE TABLE bounded_grant_uses (
  domain_id text COLLATE "C" NOT NULL,
  bounded_grant_id text COLLATE "C" NOT NULL,
  action_id text COLLATE "C" NOT NULL,
  used_at bigint NOT NULL,
  CONSTRAINT bounded_grant_uses_pkey PRIMARY KEY (domain_id, bounded_grant_id, action_id)
);

DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['action_receipts', 'action_events', 'action_leases', 'dead_letters', 'bounded_grant_uses']
  LOOP
    EXECUTE format('CREATE TRIGGER %I BEFORE UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION surety_append_only()',
      name || '_append_only', name);
    EXECUTE format('CREATE TRIGGER %I BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION surety_append_only()',
      name || '_no_truncate', name);
  END LOOP;
END
$$;

-- actions.md, Invariants: identity never changes (I1), what is dispatched stays dispatched (I5, I6), no edge leads back (I8), an
-- end is final (I10).
CREATE FUNCTION surety_action_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF NEW.state <> 'PROPOSED' OR NEW.attempt_count <> 0 OR NEW.receipt_count <> 0 OR NEW.observation_count <> 0
      OR NEW.event_count <> 1 OR NEW.payload_digest <> sha256(NEW.payload)
    THEN
      RAISE EXCEPTION 'an action begins as PROPOSED' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
  END IF;
  IF TG_OP = 'DELETE' THEN
    RAISE EXCEPTION 'actions are never removed' USING ERRCODE = 'restrict_violation';
  END IF;
  IF (NEW.domain_id, NEW.action_id, NEW.idempotency_key, NEW.source, NEW.source_ref, NEW.type, NEW.tool_name, NEW.payload,
      NEW.payload_digest, NEW.action_digest, NEW.max_attempts, NEW.created_at, NEW.proposed_seq, NEW.proposer_spiffe_id,
      NEW.proposer_keys, NEW.proposal_ttl, NEW.proposal_expires_at)
    IS DISTINCT FROM
     (OLD.domain_id, OLD.action_id, OLD.idempotency_key, OLD.source, OLD.source_ref, OLD.type, OLD.tool_name, OLD.payload,
      OLD.payload_digest, OLD.action_digest, OLD.max_attempts, OLD.created_at, OLD.proposed_seq, OLD.proposer_spiffe_id,
      OLD.proposer_keys, OLD.proposal_ttl, OLD.proposal_expires_at)
  THEN
    RAISE EXCEPTION 'what an action was proposed as never changes' USING ERRCODE = 'restrict_violation';
  END IF;
  IF NEW.event_count <= OLD.event_count OR NEW.last_seq <= OLD.last_seq OR NEW.receipt_count < OLD.receipt_count
    OR NEW.observation_count < OLD.observation_count OR NEW.attempt_count < OLD.attempt_count
    OR NEW.updated_at < OLD.updated_at OR NEW.lease_token < OLD.lease_token
  THEN
    RAISE EXCEPTION 'an action goes on, event by event' USING ERRCODE = 'restrict_violation';
  END IF;
  IF OLD.attempt_count = 1
    AND (NEW.dispatched_at, NEW.dispatch_event, NEW.execution_digest, NEW.observation_deadline, NEW.max_observations, NEW.effect_id)
      IS DISTINCT FROM
        (OLD.dispatched_at, OLD.dispatch_event, OLD.execution_digest, OLD.observation_deadline, OLD.max_observations, OLD.effect_id)
  THEN
    RAISE EXCEPTION 'a dispatch never changes' USING ERRCODE = 'restrict_violation';
  END IF;
  IF OLD.acceptance_receipt_key IS NOT NULL AND NEW.acceptance_receipt_key IS DISTINCT FROM OLD.acceptance_receipt_key THEN
    RAISE EXCEPTION 'an acceptance never changes' USING ERRCODE = 'restrict_violation';
  END IF;
  IF NEW.state = OLD.state THEN
    IF OLD.state IN ('COMPLETED', 'FAILED')
      AND (NEW.result_digest, NEW.failure_reason, NEW.retryable, NEW.ended_at, NEW.attempt_count, NEW.observation_count)
        IS DISTINCT FROM
          (OLD.result_digest, OLD.failure_reason, OLD.retryable, OLD.ended_at, OLD.attempt_count, OLD.observation_count)
    THEN
      RAISE EXCEPTION 'action state % is kept', OLD.state USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
  END IF;
  IF NOT (
    (OLD.state = 'PROPOSED' AND NEW.state IN ('GATED', 'FAILED'))
    OR (OLD.state = 'GATED' AND NEW.state IN ('DISPATCHED', 'FAILED'))
    OR (OLD.state = 'DISPATCHED' AND NEW.state IN ('ACCEPTED', 'FAILED'))
    OR (OLD.state = 'ACCEPTED' AND NEW.state IN ('VERIFIED', 'FAILED'))
    OR (OLD.state = 'VERIFIED' AND NEW.state IN ('COMPLETED', 'FAILED'))
  ) THEN
    RAISE EXCEPTION 'no edge from % to %', OLD.state, NEW.state USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER actions_guard BEFORE INSERT OR UPDATE OR DELETE ON actions
  FOR EACH ROW EXECUTE FUNCTION surety_action_guard();
CREATE TRIGGER actions_no_truncate BEFORE TRUNCATE ON actions
  FOR EACH STATEMENT EXECUTE FUNCTION surety_append_only();

-- I5 and I10, looked at when the transaction ends: what is dispatched has its contract, what failed its dead letter.
CREATE FUNCTION surety_action_evident() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.attempt_count = 1 AND OLD.attempt_count = 0 AND NOT EXISTS (
    SELECT FROM action_receipts
    WHERE domain_id = NEW.domain_id AND action_id = NEW.action_id AND receipt_class = 'recovery'
  ) THEN
    RAISE EXCEPTION 'a dispatch has its recovery contract' USING ERRCODE = 'restrict_violation';
  END IF;
  IF NEW.state = 'FAILED' AND NOT EXISTS (
    SELECT FROM dead_letters WHERE domain_id = NEW.domain_id AND action_id = NEW.action_id
  ) THEN
    RAISE EXCEPTION 'a failure has its dead letter' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER actions_evident AFTER UPDATE ON actions
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.state <> OLD.state OR NEW.attempt_count <> OLD.attempt_count)
  EXECUTE FUNCTION surety_action_evident();

-- A use is never given back, a revocation never taken back, a signed grant never changed.
CREATE FUNCTION surety_bounded_grant_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF NEW.uses <> 0 OR NEW.revoked_at IS NOT NULL THEN
      RAISE EXCEPTION 'a bounded grant begins unused' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
  END IF;
  IF TG_OP = 'DELETE' OR NEW.uses < OLD.uses
    OR (OLD.revoked_at IS NOT NULL AND (NEW.revoked_at, NEW.uses) IS DISTINCT FROM (OLD.revoked_at, OLD.uses))
    OR (NEW.domain_id, NEW.bounded_grant_id, NEW.owner_spiffe_id, NEW.owner_keys, NEW.signing_key_thumbprint, NEW.sources,
        NEW.types, NEW.tools, NEW.max_uses, NEW.expires_at, NEW.issued_at, NEW.created_at, NEW.incarnation,
        NEW.statement_digest, NEW.jws)
      IS DISTINCT FROM
       (OLD.domain_id, OLD.bounded_grant_id, OLD.owner_spiffe_id, OLD.owner_keys, OLD.signing_key_thumbprint, OLD.sources,
        OLD.types, OLD.tools, OLD.max_uses, OLD.expires_at, OLD.issued_at, OLD.created_at, OLD.incarnation,
        OLD.statement_digest, OLD.jws)
  THEN
    RAISE EXCEPTION 'a bounded grant only shrinks' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER bounded_grants_guard BEFORE INSERT OR UPDATE OR DELETE ON bounded_grants
  FOR EACH ROW EXECUTE FUNCTION surety_bounded_grant_guard();
CREATE TRIGGER bounded_grants_no_truncate BEFORE TRUNCATE ON bounded_grants
  FOR EACH STATEMENT EXECUTE FUNCTION surety_append_only();

GRANT SELECT ON actions, action_receipts, action_events, action_leases, dead_letters, bounded_grants, bounded_grant_uses
  TO surety_service, surety_archive;
GRANT INSERT ON actions, action_receipts, action_events, action_leases, dead_letters, bounded_grants, bounded_grant_uses
  TO surety_service;
GRANT UPDATE (state, state_incarnation, attempt_count, updated_at, next_attempt_at, lease_token, lease_holder, lease_registration_id, lease_keys,
  leased_at, lease_expires_at, dispatched_at, dispatch_event, execution_digest, observation_deadline, max_observations,
  observation_count, effect_id, acceptance_receipt_key, result_digest, failure_reason, retryable, ended_at, receipt_count,
  event_count, last_seq) ON actions TO surety_service;
GRANT UPDATE (uses, revoked_at, audit_seq) ON bounded_grants TO surety_service;
