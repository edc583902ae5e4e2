import { join, resolve } from 'node:path';
import { performance } from 'node:perf_hooks';
import { pathToFileURL } from 'node:url';
import { fromJsonString } from '@bufbuild/protobuf';
import { certificateLayout } from '../../../certs/layout.js';
import { readConfiguration } from '../../config/configuration.js';
import { type RegistrationSpec, RegistrationSpecSchema } from '../../gen/surety/identity/v1/workload_pb.js';
import { WorkloadService } from '../../gen/surety/identity/v1/workload_service_pb.js';
import { importSigningKey, type SigningKey } from '../../identity/sign.js';
import { addressOf, trustDomainOf } from '../admin/connection.js';
import { readFile, readFileBytes } from '../admin/field-value.js';
import { checkClientIdentity } from '../client/client-identity.js';
import { Channel } from '../client/service-client.js';
import { WorkerSession } from '../client/worker-session.js';
import { WorkloadSession } from '../client/workload-session.js';
import { UsageError } from '../failure.js';
import { ActionEffects } from './action-effects.js';
import { HttpProvider } from './http-provider.js';
import type { ExecutorFiles, WorkerOptions } from './read-options.js';
import { type StepHook, Steps, type WorkerEntry } from './steps.js';
import { noValidator, type Validator } from './validator.js';
import { Worker } from './worker.js';

/** The development worker (identity.md, Development SPIFFE IDs). */
const DEVELOPMENT_WORKER = 'spiffe://acme.test/worker/mailer';

/** A worker with its connections. */
export interface OpenWorker {
  readonly worker: Worker;
  readonly close: () => void;
}

/**
 * Reads every file and opens the connections.
 *
 * @throws {UsageError | ClientIdentityInvalid} where a file is missing or is not what it should be
 * @throws {SuretyError} where the service does not say what it is called, which an executor has to know
 */
export async function openWorker(
  options: WorkerOptions,
  tell: (entry: WorkerEntry) => void,
  hook?: StepHook,
): Promise<OpenWorker> {
  const { listen, stateDir } = readConfiguration(process.env, 'worker');
  const layout = certificateLayout(join(stateDir, 'certs'));
  const target = options.target ?? addressOf(listen);
  const roots = readFileBytes('--roots', options.roots ?? layout.serviceBundle);
  const own = options.own ?? layout.callers[DEVELOPMENT_WORKER];
  const certificate = readFileBytes('--cert', own?.cert ?? '');
  const key = readFileBytes('--key', own?.key ?? '');
  checkClientIdentity({ certificate, key, roots });
  const validator = options.validator === undefined ? noValidator : await loadValidator(options.validator);
  const channel = new Channel(target, { certificate, key, roots });
  const channels = [channel];
  const steps = new Steps(tell, hook);
  const clock = (): number => performance.now();
  const { registrationId, policy, scope } = options;
  const session = new WorkerSession(channel, {
    registrationId,
    domainId: trustDomainOf(certificate),
    spiffeId: '',
  });
  const close = (): void => channels.forEach((each) => each.close());
  try {
    const executor = options.executor && (await openExecutor(options.executor, target, roots, channels));
    const worker = new Worker({
      ...{ session, policy, validator, steps, clock },
      provider: new HttpProvider(options.provider, clock),
      ...(scope && { scope }),
      ...(executor && { effects: new ActionEffects(executor, steps, clock) }),
    });
    return { worker, close };
  } catch (error) {
    close();
    throw error;
  }
}

/** An executor's session: its own connection, its own registration, its own key. */
async function openExecutor(
  files: ExecutorFiles,
  target: string,
  roots: Buffer,
  channels: Channel[],
): Promise<WorkloadSession> {
  const certificate = readFileBytes('--executor-cert', files.cert);
  const key = readFileBytes('--executor-key', files.key);
  const channel = new Channel(target, { certificate, key, roots });
  channels.push(channel);
  const registration = readRegistration(readFile('--executor-registration', files.registration));
  const signingKey = readKey(readFile('--executor-signing-key', files.signingKey));
  const { audience, incarnation } = await channel.service(WorkloadService).whoAmI({});
  return new WorkloadSession(channel, registration, signingKey, { audience, incarnation });
}

function readRegistration(text: string): RegistrationSpec {
  try {
    return fromJsonString(RegistrationSpecSchema, text);
  } catch {
    throw new UsageError('--executor-registration: must be a RegistrationSpec as JSON');
  }
}

function readKey(text: string): SigningKey {
  try {
    return importSigningKey(text);
  } catch {
    throw new UsageError('--executor-signing-key: must be a private key of P-256 in PEM');
  }
}

/** A module whose default export is a validator. */
async function loadValidator(file: string): Promise<Validator> {
  const found: unknown = await import(pathToFileURL(resolve(file)).href).then(
    (module: { readonly default?: unknown }) => module.default,
    () => undefined,
  );
  if (typeof found !== 'function') {
    throw new UsageError('--validator: must be a module whose default export is a function');
  }
  return found as Validator;
}
