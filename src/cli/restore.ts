import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { readConfiguration } from '../config/configuration.js';
import { auditCodec } from '../lane/audit-codec.js';
import { type FaultOrder, Faults } from '../lane/faults.js';
import { SILENT_OBSERVER } from '../lane/lane-observer.js';
import { Lanes } from '../lane/lanes.js';
import { restoreActions } from '../lane/restore-actions.js';
import { listInFlight, type RestoredEffect, restoreEffects } from '../lane/restore-effects.js';
import { Refused } from '../ledger/run-decision.js';
import { newId } from '../rpc/new-id.js';
import { ConnectionPool } from '../store/connection-pool.js';
import { PgReader } from '../store/pg-reader.js';
import { beginIncarnation, RestoreRefused, type RestoreState, readRestoreState } from '../store/restore.js';
import { EXIT_FAILED, UsageError } from './failure.js';
import {
  type ChoiceTools,
  chooseIncarnation,
  incarnationOf,
  timeText,
} from './restore/choose-incarnation.js';
import {
  jsonReport,
  type RestoreCounts,
  type RestoredDomain,
  type RestoreReport,
  textReport,
} from './restore/report.js';

export const RESTORE_HELP = `surety restore [--dry-run] [--json] [--while-serving]
surety restore --resume [--json]

To be run once after the database was brought back from a backup, or a failover lost what had been committed, before
anybody is served from it again. Such a database would hand out old fences and accept spent nonces, and what it shows as
PREPARED may have been done since. So, with SURETY_MIGRATION_URL (or SURETY_DATABASE_URL):

  - a new incarnation begins, which makes every proof and command from before void
  - every domain is frozen, its policy revision and revocation epoch are bumped: grants, entitlements, events and
    registrations from before are stale
  - every PREPARED effect becomes UNKNOWN, for an independent reconciler to settle
  - every governed action that is GATED or DISPATCHED ends as ambiguous; approvals and bounded grants from before are void
  - everything that is in flight is listed

Stop all services first: it refuses while it sees one connected. The schema must be this program's; surety migrate
brings an older one up to date. Leaving the freeze is an operator's decision, domain by domain; docs/restore.md says how.

Before it changes anything it waits, for three minutes at most, and says for how long: until nothing that is brought back
from the same backup later can begin the same incarnation. Never let two of them run at once on two copies of a backup.

It is safe to run it again, at any time: that is another restore, with another incarnation. If it was interrupted, nothing
can start, cancel or expire what it has not come to yet, and --resume goes on where it was.

  --dry-run        changes nothing, and lists what is in flight
  --json           one JSON object a line: restore, domain, effect, action, done
  --resume         goes on with a restore that was interrupted, in the incarnation that it has begun. Only on the very
                   database on which it was interrupted: one that was brought back once more needs a restore of its own
  --while-serving  goes on although services are connected; they notice by themselves`;

/** Connections: the lane of one domain at a time, and the walk. */
const CONNECTIONS = 2;
/** More than a page of effects, so that none is turned away. */
const QUEUE_LIMIT = 1_000;
const DOMAINS_PER_PAGE = 500n;

/** Restores once. @returns the exit code */
export async function restoreCommand(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      'dry-run': { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      resume: { type: 'boolean', default: false },
      'while-serving': { type: 'boolean', default: false },
    },
  });
  const { 'dry-run': dryRun, 'while-serving': whileServing, json, resume } = values;
  if (dryRun && resume) throw new UsageError('--dry-run and --resume do not go together');
  const { migrationUrl, databaseUrl, fault } = readConfiguration(process.env, 'restore');
  const url = migrationUrl ?? databaseUrl;
  if (url === undefined) throw new UsageError('SURETY_MIGRATION_URL or SURETY_DATABASE_URL: must be set');
  const state = await readRestoreState(url);
  if (fault !== undefined && !state.testDatabase) {
    throw new UsageError('SURETY_FAULT is only for a database that surety migrate --test has marked.');
  }
  if (resume && state.incarnation === 1n) throw new RestoreRefused('There is no restore to go on with.');
  if (!dryRun && !resume && !whileServing) refuseWhileServing(state);
  const report = (json ? jsonReport : textReport)(writeLine, { dryRun, resume });
  const incarnation = dryRun
    ? incarnationOf(state)
    : resume
      ? state.incarnation
      : await begin(url, state, whileServing);
  await report.begun(incarnation);
  const counts = await walk({ url, incarnation, fault, dryRun, report }).catch((error: unknown) => {
    if (!dryRun) process.stderr.write(interrupted(incarnation));
    throw error;
  });
  await report.done(incarnation, counts);
  return counts.refused === 0 ? 0 : EXIT_FAILED;
}

function refuseWhileServing({ services }: RestoreState): void {
  if (services === 0n) return;
  throw new RestoreRefused(
    `Services hold ${services} connections to this database: stop them first, or say --while-serving. Nothing was changed.`,
  );
}

const onWait: ChoiceTools['onWait'] = ({ incarnation, until, ms }) => {
  process.stderr.write(
    `surety restore: waits ${Math.ceil(ms / 1000)} s, until ${timeText(until)} by the database's clock: from then on no ` +
      `other restore from the same backup can begin incarnation ${incarnation} too. Nothing is changed before; start no ` +
      'service.\n',
  );
};

/** The clock of a test database can be set to any time, so that waiting for it would make nothing sure. */
function choose(url: string, state: RestoreState): bigint | Promise<bigint> {
  if (state.testDatabase) return incarnationOf(state);
  return chooseIncarnation({ readState: () => readRestoreState(url), sleep, onWait });
}

async function begin(url: string, state: RestoreState, whileServing: boolean): Promise<bigint> {
  const incarnation = await choose(url, state);
  // Somebody may have started a service while it waited.
  if (!whileServing) refuseWhileServing(await readRestoreState(url));
  try {
    await beginIncarnation({ url, codec: auditCodec, commandId: newId('restore'), incarnation });
    return incarnation;
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    throw new RestoreRefused(
      "The database's clock stands more than a minute behind what the log says: set it right first. Nothing was changed.",
    );
  }
}

function interrupted(incarnation: bigint): string {
  return (
    `surety restore: interrupted in incarnation ${incarnation}. Every domain is frozen, and nothing that was not ` +
    'moved yet can be started, cancelled or expire. surety restore --resume goes on.\n'
  );
}

interface Walk {
  readonly url: string;
  readonly incarnation: bigint;
  readonly fault: FaultOrder | undefined;
  readonly dryRun: boolean;
  readonly report: RestoreReport;
}

/**
 * All domains, one after the other, and what is in flight in each: effects, and governed actions that are GATED or DISPATCHED
 * (effects.md, Restore).
 */
async function walk({ url, incarnation, fault, dryRun, report }: Walk): Promise<RestoreCounts> {
  const settings = { url, applicationName: 'surety-restore' };
  const pool = new ConnectionPool(settings, CONNECTIONS);
  const reader = new PgReader(settings, CONNECTIONS, auditCodec);
  const commands = new Lanes({
    pool,
    codec: auditCodec,
    faults: new Faults(fault),
    observer: SILENT_OBSERVER,
    laneId: newId('lane'),
    queueLimit: QUEUE_LIMIT,
    batchLimit: QUEUE_LIMIT,
  });
  const counts: RestoreCounts = {
    domains: 0,
    moved: 0,
    executing: 0,
    unknown: 0,
    ended: 0,
    refused: 0,
    changed: 0,
  };
  const parts = { commands, reader, newId, incarnation };
  try {
    for await (const domain of domainsOf(reader)) {
      counts.domains += 1;
      await report.domain(domain);
      const effects = dryRun ? listInFlight(reader, domain.domainId) : restoreEffects(parts, domain.domainId);
      for await (const effect of effects) {
        counts[kindOf(effect, dryRun)] += 1;
        if (effect.changed) counts.changed += 1;
        await report.effect(domain.domainId, effect);
      }
      for await (const action of restoreActions(parts, domain.domainId, dryRun)) {
        counts[typeof action.outcome === 'string' ? 'ended' : 'refused'] += 1;
        if (action.outcome === 'ended') counts.changed += 1;
        await report.action(domain.domainId, action);
      }
    }
    return counts;
  } finally {
    await commands.drain();
    await Promise.all([pool.close(), reader.close()]);
  }
}

async function* domainsOf(reader: PgReader): AsyncGenerator<RestoredDomain> {
  let after = '';
  for (;;) {
    const page = await reader.query<RestoredDomain>('domains_after', [after, DOMAINS_PER_PAGE]);
    yield* page;
    const last = page.at(-1);
    if (last === undefined || BigInt(page.length) < DOMAINS_PER_PAGE) return;
    after = last.domainId;
  }
}

function kindOf(
  { state, outcome }: RestoredEffect,
  dryRun: boolean,
): Exclude<keyof RestoreCounts, 'domains' | 'changed'> {
  if (typeof outcome !== 'string' || state === null) return 'refused';
  if (outcome === 'moved' || (dryRun && state === 'PREPARED')) return 'moved';
  return state === 'EXECUTING' ? 'executing' : 'unknown';
}

async function writeLine(line: string): Promise<void> {
  if (!process.stdout.write(`${line}\n`)) await once(process.stdout, 'drain');
}
