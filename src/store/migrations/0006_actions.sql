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
