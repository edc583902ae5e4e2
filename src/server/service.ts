import type { AddressInfo } from 'node:net';
import type { Logger } from 'pino';
import type { Configuration } from '../config/configuration.js';
import { checkMethodTable } from '../identity/method-table.js';
import { CallGate } from '../rpc/call-gate.js';
import { CallerRegistry } from '../rpc/caller-registry.js';
import { CONTRACT_SERVICES } from '../rpc/contract.js';
import { GrpcAdapter } from '../rpc/grpc-adapter.js';
import { RequestLog } from '../rpc/request-log.js';
import { StoreClock } from '../rpc/store-clock.js';
import { type PreparedDatabase, prepareDatabase } from '../store/prepare-database.js';
import { type AdminPort, openAdminPort } from './admin-port.js';
import { allBindings } from './bindings.js';
import { type Core, composeCore } from './core.js';
import { type DrainParts, drain } from './drain.js';
import { grpcServer } from './grpc-server.js';
import { connectionLimits, MAX_REPLY_BYTES } from './limits.js';
import { grpcProtocol, Listener } from './listener.js';
import { Metrics } from './metrics.js';
import { ReadinessProbe } from './readiness.js';
import { assertNotExpired, readTlsMaterial, Reloader, type TlsMaterial } from './reload.js';

/** A configuration in which nothing is left to be made. */
export type ServiceConfiguration = Configuration &
  Readonly<Record<'tls', NonNullable<Configuration['tls']>> & Record<'databaseUrl', string>>;

/** A service that serves. */
export interface Service {
  readonly grpc: AddressInfo;
  readonly admin: AddressInfo;
  /** Ends it without cutting anything off; may be called again. */
  drain(): Promise<void>;
}

/** Why a service cannot be started, in a sentence for the person who starts it. */
export class StartRefused extends Error {
  override readonly name = 'StartRefused';
}

/**
 * Starts a service: checks everything first, then opens the ports.
 *
 * @throws {StartRefused | MigrationError | TlsFilesInvalid | MethodTableError} and whatever `listen` fails with; nothing
 *   is left running then
 */
export async function startService(configuration: ServiceConfiguration, log: Logger): Promise<Service> {
  checkMethodTable(CONTRACT_SERVICES);
  // Before the database: whoever gave bad files hears of all of them, wherever the database is.
  const tls = await readTlsMaterial(configuration.tls);
  const database = await prepareDatabase({
    databaseUrl: configuration.databaseUrl,
    migrationUrl: configuration.migrationUrl,
    log: (message) => log.info(message),
  });
  const clock = new StoreClock(database.now);
  // Only the store's clock says what has expired.
  assertNotExpired(tls, configuration.tls, clock.now());
  const { serviceDomainId } = checkDatabase(database, configuration, tls);
  if (database.testDatabase) sayTestDatabase(configuration, log);
  const metrics = new Metrics();
  const core = composeCore(configuration, database.settings, clock, metrics, log);
  try {
    return await openPorts({ configuration, database, serviceDomainId, clock, tls, metrics, core, log });
  } catch (error) {
    await core.close();
    throw error;
  }
}

/** The audience and the own domain are those of the first start; a certificate of another name would orphan every proof. */
function checkDatabase(
  { audience, serviceDomainId, testDatabase }: PreparedDatabase,
  { testClock, fault }: ServiceConfiguration,
  { own }: TlsMaterial,
): { readonly serviceDomainId: string } {
  if (audience === undefined || serviceDomainId === undefined) {
    throw new StartRefused('The database has no operator yet: run surety bootstrap.');
  }
  if (audience !== own.spiffeId) {
    throw new StartRefused(
      `The certificate names ${own.spiffeId}, and the database was bootstrapped for ${audience}.`,
    );
  }
  for (const [name, isSet] of [
    ['SURETY_TEST_CLOCK', testClock],
    ['SURETY_FAULT', fault !== undefined],
  ] as const) {
    if (isSet && !testDatabase) {
      throw new StartRefused(`${name} is only for a database that surety migrate --test has marked.`);
    }
  }
  return { serviceDomainId };
}

function sayTestDatabase({ testClock, fault }: ServiceConfiguration, log: Logger): void {
  log.warn(
    { testClock, fault },
    'THIS IS A TEST DATABASE: its clock can be moved, and nothing in it proves anything',
  );
}

interface Parts {
  readonly configuration: ServiceConfiguration;
  readonly database: PreparedDatabase;
  readonly serviceDomainId: string;
  readonly clock: StoreClock;
  readonly tls: TlsMaterial;
  readonly metrics: Metrics;
  readonly core: Core;
  readonly log: Logger;
}

async function openPorts(parts: Parts): Promise<Service> {
  const { configuration, core, clock, log, metrics, tls } = parts;
  const { gate, adapter, health, listener } = composeListener(parts);
  const probe = new ReadinessProbe({
    reader: core.reader,
    health,
    schemaVersion: parts.database.version,
    onStoreTime: (now) => clock.observe(now),
    onChange: (state) => (state.ready ? log.info('ready') : log.warn({ why: state.why }, 'not ready')),
  });
  watchGauges(metrics, core, listener);
  const admin = await openAdmin(configuration, metrics, probe);
  const grpc = await listener.listen().catch(async (error: unknown) => {
    await admin.close();
    throw error;
  });
  const now = (): bigint => clock.now();
  const reloader = new Reloader({ files: configuration.tls, initial: tls, listeners: [listener], log, now });
  await probe.start();
  reloader.start();
  core.sweeps.start(configuration.sweepIntervalMs);
  log.info({ grpc, admin: admin.address, spiffeId: tls.own.spiffeId }, 'serving');
  const drainParts: DrainParts = {
    health,
    gate,
    adapter,
    stopBackground: async () => {
      core.positions.close();
      await Promise.all([probe.stop(), reloader.stop(), core.sweeps.stop()]);
    },
    closeListener: (graceMs) => listener.drain(graceMs),
    drainLanes: () => core.lanes.drain(),
    closeStore: async () => {
      await core.close();
      await admin.close();
    },
  };
  let drained: Promise<void> | undefined;
  return {
    grpc,
    admin: admin.address,
    drain: () => (drained ??= drain(drainParts, configuration.drainGraceMs)),
  };
}

interface Composed extends Pick<DrainParts, 'health' | 'gate' | 'adapter'> {
  readonly listener: Listener;
}

function composeListener({
  configuration,
  serviceDomainId,
  clock,
  tls,
  metrics,
  core,
  log,
}: Parts): Composed {
  const now = (): bigint => clock.now();
  const onStoreTime = (reading: bigint): void => clock.observe(reading);
  const registry = new CallerRegistry({ reader: core.reader, serviceDomainId, onStoreTime });
  const gate = new CallGate({ registry, storeNow: now, serviceSpiffeId: tls.own.spiffeId });
  const adapter = new GrpcAdapter({ gate, log, maxReplyBytes: MAX_REPLY_BYTES });
  const { bindings, health } = allBindings(core.tools, core.positions, core.testClock, configuration);
  const server = grpcServer({
    services: bindings.map((binding) => adapter.serve(binding)),
    observers: [new RequestLog(log), metrics],
    connectionMaxAgeMs: configuration.connectionMaxAgeMs,
  });
  const { certificate, bundles } = tls;
  const protocol = grpcProtocol(server);
  const limits = connectionLimits();
  const listener = new Listener({
    ...configuration.listen,
    certificate,
    bundles,
    protocol,
    log,
    now,
    limits,
  });
  return { gate, adapter, health, listener };
}

function openAdmin(
  { adminListen }: ServiceConfiguration,
  { registry }: Metrics,
  probe: ReadinessProbe,
): Promise<AdminPort> {
  return openAdminPort({ ...adminListen, registry, readiness: () => probe.state });
}

function watchGauges(metrics: Metrics, core: Core, listener: Listener): void {
  metrics.watch({
    openConnections: () => listener.openConnections,
    openHandshakes: () => listener.openHandshakes,
    queuedCommands: () => core.lanes.queued,
    lanePool: () => core.lanePool.load,
    readPool: () => core.reader.load,
    refusedConnections: () => listener.refusals,
  });
}
