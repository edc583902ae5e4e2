-- What a domain lets through: limits, counters and circuit breakers (authority.md, Admission; effects.md, Cost of not
-- knowing). Counters are read and written with the domain's head, or by the key of an actor or a sink: nothing is scanned.

-- All domains together; each has a share of it.
ALTER TABLE service_state ADD COLUMN requests_per_minute integer NOT NULL DEFAULT 6000000,
  ADD CONSTRAINT service_state_requests CHECK (requests_per_minute > 0) NOT VALID;
ALTER TABLE service_state VALIDATE CONSTRAINT service_state_requests;

ALTER TABLE domains
  ADD COLUMN requests_per_minute integer NOT NULL DEFAULT 60000,
  ADD COLUMN actor_requests_per_minute integer NOT NULL DEFAULT 6000,
  ADD COLUMN pending_ceiling integer NOT NULL DEFAULT 1000000,
  ADD COLUMN fairness_burst integer NOT NULL DEFAULT 1000,
  ADD COLUMN max_hops integer NOT NULL DEFAULT 16,
  ADD CONSTRAINT domains_limits CHECK (requests_per_minute >= 10 AND actor_requests_per_minute >= 10
    AND pending_ceiling > 0 AND fairness_burst > 0 AND max_hops > 0) NOT VALID;
ALTER TABLE domains VALIDATE CONSTRAINT domains_limits;

ALTER TABLE domain_heads
  ADD COLUMN minute_start bigint NOT NULL DEFAULT 0,
  ADD COLUMN calls integer NOT NULL DEFAULT 0,
  ADD COLUMN safety_calls integer NOT NULL DEFAULT 0,
  ADD COLUMN pending integer NOT NULL DEFAULT 0,
  ADD COLUMN window_start bigint NOT NULL DEFAULT 0,
  -- How many actors made so many calls in the window: served_actors[i] made served_calls[i].
  ADD COLUMN served_calls integer[] NOT NULL DEFAULT '{}',
  ADD COLUMN served_actors integer[] NOT NULL DEFAULT '{}',
  ADD CONSTRAINT domain_heads_counters CHECK (calls >= 0 AND safety_calls >= 0 AND pending >= 0
    AND cardinality(served_calls) = cardinality(served_actors)) NOT VALID;
ALTER TABLE domain_heads VALIDATE CONSTRAINT domain_heads_counters;

ALTER TABLE sinks
  ADD COLUMN breaker_threshold integer NOT NULL DEFAULT 10,
  ADD COLUMN breaker_reset bigint NOT NULL DEFAULT 60000000,
  ADD COLUMN unknown_ceiling integer NOT NULL DEFAULT 1000,
  ADD COLUMN unknown_age bigint NOT NULL DEFAULT 86400000000,
  ADD CONSTRAINT sinks_admission CHECK (breaker_threshold > 0 AND breaker_reset > 0 AND unknown_ceiling > 0
    AND unknown_age > 0) NOT VALID;
ALTER TABLE sinks VALIDATE CONSTRAINT sinks_admission;

-- What one actor has done in its minute and its window.
CREATE TABLE actor_counters (
  domain_id text COLLATE "C" NOT NULL,
  actor text COLLATE "C" NOT NULL,
  minute_start bigint NOT NULL,
  calls integer NOT NULL,
  safety_calls integer NOT NULL,
  window_start bigint NOT NULL,
  window_calls integer NOT NULL,
  CONSTRAINT actor_counters_pkey PRIMARY KEY (domain_id, actor),
  CONSTRAINT actor_counters_numbers CHECK (calls >= 0 AND safety_calls >= 0 AND window_calls >= 0)
) WITH (fillfactor = 50);

-- What is known of a sink: its circuit breaker, and how many effects are UNKNOWN.
CREATE TABLE sink_counters (
  domain_id text COLLATE "C" NOT NULL,
  sink text COLLATE "C" NOT NULL,
  breaker text COLLATE "C" NOT NULL,
  failures integer NOT NULL,
  opened_at bigint,
  probe_effect_id text COLLATE "C",
  unknown integer NOT NULL,
  CONSTRAINT sink_counters_pkey PRIMARY KEY (domain_id, sink),
  CONSTRAINT sink_counters_breaker CHECK (breaker IN ('closed', 'open', 'half_open')),
  CONSTRAINT sink_counters_opened CHECK ((breaker = 'closed') = (opened_at IS NULL)),
  CONSTRAINT sink_counters_probe CHECK (probe_effect_id IS NULL OR breaker = 'half_open'),
  CONSTRAINT sink_counters_numbers CHECK (failures >= 0 AND unknown >= 0)
) WITH (fillfactor = 50);

-- The few sinks that people are to be told of.
CREATE INDEX sink_counters_watched ON sink_counters (domain_id, sink) WHERE breaker <> 'closed' OR unknown > 0;

-- Which effect is UNKNOWN for longest.
CREATE INDEX effects_unknown_age ON effects (domain_id, sink, unknown_at) WHERE state = 'UNKNOWN';

-- What is there already is counted once.
UPDATE domain_heads AS h SET pending = (SELECT count(*) FROM pending_work AS p WHERE p.domain_id = h.domain_id);
INSERT INTO sink_counters (domain_id, sink, breaker, failures, unknown)
SELECT domain_id, sink, 'closed', 0, count(*) FROM effects WHERE state = 'UNKNOWN' GROUP BY domain_id, sink;

GRANT SELECT ON actor_counters, sink_counters TO surety_service, surety_archive;
GRANT INSERT ON actor_counters, sink_counters TO surety_service;
GRANT UPDATE (minute_start, calls, safety_calls, window_start, window_calls) ON actor_counters TO surety_service;
GRANT UPDATE (breaker, failures, opened_at, probe_effect_id, unknown) ON sink_counters TO surety_service;
GRANT UPDATE (minute_start, calls, safety_calls, pending, window_start, served_calls, served_actors) ON domain_heads
  TO surety_service, surety_archive;
GRANT UPDATE (requests_per_minute, actor_requests_per_minute, pending_ceiling, fairness_burst, max_hops) ON domains
  TO surety_service;
GRANT UPDATE (breaker_threshold, breaker_reset, unknown_ceiling, unknown_age) ON sinks TO surety_service;
GRANT UPDATE (requests_per_minute) ON service_state TO surety_service;
