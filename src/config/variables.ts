import type { z } from 'zod';
import {
  databaseUrl,
  fault,
  flag,
  integer,
  listenAddress,
  logLevel,
  loopbackAddress,
  path,
} from './value-types.js';

/** One variable of the environment. */
export interface Variable {
  /** What it is for, as sentences without a line break; goes into docs/configuration.md. */
  readonly about: string;
  /** Takes the text, says what is wrong with it without repeating it. */
  readonly type: z.ZodType<unknown, string>;
  /** What stands where it is not set, as text. */
  readonly fallback?: string;
  /** Its value is never shown, and `<NAME>_FILE` may name a file that holds it. */
  readonly secret?: true;
}

/**
 * Everything that a process needs to know before it may trust the database (architecture.md, Configuration and data).
 * Whatever decides if something is allowed is a row, changed by a signed command, and is not here.
 */
export const VARIABLES = {
  SURETY_LISTEN: {
    about: 'Where gRPC listens. Always TLS 1.3 with client certificates.',
    type: listenAddress,
    fallback: '127.0.0.1:7480',
  },
  SURETY_ADMIN_LISTEN: {
    about:
      'Where `/livez`, `/readyz` and `/metrics` listen: plain HTTP without authentication, so loopback only.',
    type: loopbackAddress,
    fallback: '127.0.0.1:7482',
  },
  SURETY_TLS_CERT_FILE: {
    about:
      "The service's certificate chain, PEM; its SPIFFE ID is the audience of everything that is signed for the service. Read again when it changes. `surety start` makes development certificates where none of the three is set.",
    type: path,
  },
  SURETY_TLS_KEY_FILE: { about: 'The key of that certificate, PEM. Read again when it changes.', type: path },
  SURETY_BUNDLES_DIR: {
    about:
      'The folder with `<trust-domain>.pem` for each trust domain whose callers are let in, and optionally `<trust-domain>.crl.pem`. Read again when it changes.',
    type: path,
  },
  SURETY_DATABASE_URL: {
    about:
      'The Postgres that is served from. Where `SURETY_MIGRATION_URL` is not set the schema is brought up to date with it as well, and its login takes the role `surety_service` on every connection. `PG*` variables are ignored. `surety start` brings its own Postgres where it is not set.',
    type: databaseUrl,
    secret: true,
  },
  SURETY_MIGRATION_URL: {
    about:
      'The same database for a login that may change its schema: used once at the start, and by `surety migrate`, `surety bootstrap` and `surety restore`.',
    type: databaseUrl,
    secret: true,
  },
  SURETY_ARCHIVE_URL: {
    about:
      'The same database for a login with the rights of the role `surety_archive`: used by `surety archive`. Where it is not set, the login of `SURETY_MIGRATION_URL` or `SURETY_DATABASE_URL` takes that role.',
    type: databaseUrl,
    secret: true,
  },
  SURETY_LANE_CONNECTIONS: {
    about: 'Connections that the lanes share: as many domains can commit at once.',
    type: integer(1, 200),
    fallback: '8',
  },
  SURETY_POOL_SIZE: { about: 'Connections for reads.', type: integer(1, 200), fallback: '8' },
  SURETY_QUEUE_LIMIT: {
    about: "Commands that may wait for one domain's lane; beyond it callers get BACKPRESSURE.",
    type: integer(1, 100_000),
    fallback: '2000',
  },
  SURETY_BATCH_LIMIT: {
    about: 'Commands of one transaction at most.',
    type: integer(1, 1_000),
    fallback: '128',
  },
  SURETY_SWEEP_INTERVAL_MS: {
    about: 'Milliseconds between two rounds of the sweeps, which move what time alone moves.',
    type: integer(50, 3_600_000),
    fallback: '1000',
  },
  SURETY_CONNECTION_MAX_AGE_MS: {
    about: 'Milliseconds after which a connection is asked to go (GOAWAY), give or take a tenth.',
    type: integer(1_000, 86_400_000),
    fallback: '3600000',
  },
  SURETY_DRAIN_GRACE_MS: {
    about: 'Milliseconds that calls have to end after SIGTERM, before their connections are cut.',
    type: integer(0, 600_000),
    fallback: '20000',
  },
  SURETY_REFLECTION: {
    about: '`1` serves gRPC reflection, to operators.',
    type: flag,
    fallback: '0',
  },
  SURETY_LOG_LEVEL: {
    about:
      'Least level of the lines that are logged, as JSON on the standard output (of `surety start`: on the standard error).',
    type: logLevel,
    fallback: 'info',
  },
  SURETY_STATE_DIR: {
    about: 'Where `surety start` keeps its Postgres and its development certificates.',
    type: path,
    fallback: '.surety',
  },
  SURETY_TEST_CLOCK: {
    about:
      '`1` serves `surety.testing.v1.ClockService`, which moves the clock. Only on a database that `surety migrate --test` has marked.',
    type: flag,
    fallback: '0',
  },
  SURETY_FAULT: {
    about:
      'Makes the store fail once at a seam, for tests: `<seam>:<crash|error|delay|hold>`. Only on a database that `surety migrate --test` has marked.',
    type: fault,
  },
} as const satisfies Record<string, Variable>;

export type VariableName = keyof typeof VARIABLES;

/** The values of all variables, by their names. */
export type Values = { readonly [N in VariableName]: z.output<(typeof VARIABLES)[N]['type']> | undefined };
