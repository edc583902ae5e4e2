import { parseArgs } from 'node:util';
import { readDuration } from '../admin/field-value.js';
import { UsageError } from '../failure.js';
import { readTarget, TARGET_OPTIONS } from '../target.js';
import { DEFAULT_POLICY, type WorkerContext, type WorkerPolicy } from './worker-context.js';

/** What `surety worker` was told. */
export interface WorkerOptions {
  readonly target: string | undefined;
  /** Files; undefined: those of the development worker. */
  readonly own: { readonly cert: string; readonly key: string } | undefined;
  readonly roots: string | undefined;
  /** Empty: the worker has one registration. */
  readonly registrationId: string;
  readonly provider: URL;
  readonly scope: WorkerContext['scope'];
  readonly policy: WorkerPolicy;
  /** A module; undefined: no validator of the worker's own. */
  readonly validator: string | undefined;
  /** The executor whose identity the process holds beside its own. */
  readonly executor: ExecutorFiles | undefined;
  readonly once: boolean;
  readonly json: boolean;
}

/** Files of an executor. */
export interface ExecutorFiles {
  readonly cert: string;
  readonly key: string;
  /** Its RegistrationSpec, as protobuf JSON. */
  readonly registration: string;
  /** The key that signs its transitions. */
  readonly signingKey: string;
}

const MAX_LEASE_MS = 3_600_000;
const MAX_DELAY_MS = 86_400_000;
const MAX_OBSERVATIONS = 100;

const text = { type: 'string' } as const;
const flag = { type: 'boolean', default: false } as const;

/** @throws {UsageError} */
export function readWorkerOptions(args: readonly string[]): WorkerOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      ...{ ...TARGET_OPTIONS, cert: text, key: text, roots: text, registration: text },
      ...{ provider: text, scope: text, type: { type: 'string', multiple: true }, validator: text },
      ...{ lease: text, window: text, observations: text, timeout: text, delay: text, poll: text },
      ...{ 'executor-cert': text, 'executor-key': text, 'executor-registration': text },
      ...{ 'executor-signing-key': text, once: flag, json: flag },
    },
  });
  const { cert, key } = values;
  if ((cert === undefined) !== (key === undefined))
    throw new UsageError('--cert and --key are given together');
  return {
    target: readTarget(values),
    own: cert === undefined || key === undefined ? undefined : { cert, key },
    roots: values.roots,
    registrationId: values.registration ?? '',
    provider: readProvider(values.provider),
    scope: readScope(values.scope, values.type ?? []),
    policy: readPolicy(values),
    validator: values.validator,
    executor: readExecutor(values),
    once: values.once,
    json: values.json,
  };
}

function readProvider(provider: string | undefined): URL {
  if (provider === undefined) throw new UsageError('--provider must be given');
  const url = URL.canParse(provider) ? new URL(provider) : undefined;
  const plain = url && url.username === '' && url.password === '' && url.search === '' && url.hash === '';
  if (!plain || !/^https?:$/.test(url.protocol)) {
    throw new UsageError('--provider: must be a URL of http or https without user, query and fragment');
  }
  return url;
}

/** A source, or with `*` at its end all that begin so. */
function readScope(scope: string | undefined, types: readonly string[]): WorkerContext['scope'] {
  if (scope === undefined && types.length === 0) return undefined;
  if (scope === '' || scope === '*')
    throw new UsageError('--scope: must name a source, or a prefix before *');
  const prefix = scope?.endsWith('*') === true;
  const value = prefix ? scope.slice(0, -1) : scope;
  return {
    types: [...types],
    ...(value === undefined
      ? {}
      : { sourceScope: prefix ? { case: 'sourcePrefix', value } : { case: 'source', value } }),
  };
}

type Values = Readonly<Record<string, string | boolean | string[] | undefined>>;

function readPolicy(values: Values): WorkerPolicy {
  const duration = (name: string, otherwise: number, min: number, max: number): number => {
    const given = values[name];
    if (typeof given !== 'string') return otherwise;
    const ms = readDuration(`--${name}`, given);
    if (ms < min || ms > max) throw new UsageError(`--${name}: must be ${min} ms to ${max} ms`);
    return ms;
  };
  const { leaseMs, observationWindowMs, providerTimeoutMs, observeDelayMs, pollMs } = DEFAULT_POLICY;
  const window = duration('window', observationWindowMs, 1_000, MAX_LEASE_MS);
  const delay = duration('delay', observeDelayMs, 1, MAX_DELAY_MS);
  return {
    leaseMs: duration('lease', leaseMs, 1_000, MAX_LEASE_MS),
    observationWindowMs: window,
    // Doubt about the witness lasts as long as doubt about the dispatch may.
    verifyWindowMs: window,
    maxObservations: readCount(values['observations']),
    providerTimeoutMs: duration('timeout', providerTimeoutMs, 1, MAX_LEASE_MS),
    observeDelayMs: delay,
    retryDelayMs: delay,
    pollMs: duration('poll', pollMs, 1, MAX_DELAY_MS),
  };
}

function readCount(given: Values[string]): number {
  if (typeof given !== 'string') return DEFAULT_POLICY.maxObservations;
  const count = /^\d{1,3}$/.test(given) ? Number(given) : 0;
  if (count < 1 || count > MAX_OBSERVATIONS) {
    throw new UsageError(`--observations: must be 1 to ${MAX_OBSERVATIONS}`);
  }
  return count;
}

function readExecutor(values: Values): ExecutorFiles | undefined {
  const names = ['cert', 'key', 'registration', 'signing-key'].map((name) => `executor-${name}`);
  const given = names.map((name) => values[name]).filter((value) => typeof value === 'string');
  if (given.length === 0) return undefined;
  const [cert, key, registration, signingKey] = given;
  if (cert === undefined || key === undefined || registration === undefined || signingKey === undefined) {
    throw new UsageError(`${names.map((name) => `--${name}`).join(', ')} are given together`);
  }
  return { cert, key, registration, signingKey };
}
