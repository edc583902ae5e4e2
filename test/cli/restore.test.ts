import { fromBinary } from '@bufbuild/protobuf';
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type AuditEntry, AuditEntrySchema, AuditKind } from '../../src/gen/surety/audit/v1/entry_pb.js';
import { EffectState, StateSource } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { Sweeps } from '../../src/lane/sweeps.js';
import type { EffectRow } from '../../src/ledger/effect/records.js';
import {
  type Call,
  done,
  type EffectOutcome,
  reconcileCall,
  reserveCall,
  reserved,
  seedWorkers,
  startCall,
  started,
  submit,
  unknownCall,
  type Workers,
} from '../fault/effect-life.js';
import { expectSound, expectWholeChain, fingerprint } from '../fault/store-invariants.js';
import { type CommandEnd, runCommand } from '../support/command-process.js';
import {
  DOMAIN,
  type EffectWorld,
  EXECUTOR_A,
  freshId,
  openWorld,
  RECONCILER,
  type Replica,
  SERVICE_DOMAIN,
  seedRegistration,
} from '../support/effect-world.js';
import { createTestDatabase } from '../support/postgres.js';

// effects.md, Restore, by the command that does it, on a database in which an effect of each kind is in flight.

let world: EffectWorld;
let replica: Replica;
let workers: Workers & { grantId: string };

beforeEach(async () => {
  world = await openWorld();
  replica = world.replica();
  workers = await seedWorkers(world);
});
afterEach(() => world.close());

function restore(
  args: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
): Promise<CommandEnd> {
  return runCommand(['restore', ...args], { SURETY_MIGRATION_URL: world.database.url, ...env });
}

/** The lines of `--json`. */
async function restoreJson(...args: readonly string[]): Promise<Record<string, unknown>[]> {
  const { code, out, err } = await restore(['--json', ...args]);
  expect({ code, err }).toEqual({ code: 0, err: '' });
  return out
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
}

/** One PREPARED, one EXECUTING, one UNKNOWN and one SUCCEEDED effect. */
async function oneOfEach(): Promise<Record<'prepared' | 'executing' | 'unknown' | 'settled', EffectRow>> {
  const lost = await started(replica, workers);
  const unknown = await done(submit(replica, unknownCall(workers.executor, lost)));
  const settling = await done(
    submit(replica, unknownCall(workers.executor, await started(replica, workers))),
  );
  return {
    prepared: await reserved(replica, workers),
    executing: await started(replica, workers),
    unknown,
    settled: await done(submit(replica, reconcileCall(workers.reconciler, settling))),
  };
}

async function rowOf({ effectId }: Pick<EffectRow, 'effectId'>): Promise<EffectRow> {
  const set = await replica.reader.gather(DOMAIN, { effects: [effectId] });
  return set?.get('effects', effectId) as EffectRow;
}

async function entries(): Promise<AuditEntry[]> {
  const { rows } = await world.admin.query(
    'SELECT entry FROM audit_entries WHERE domain_id = $1 ORDER BY seq',
    [DOMAIN],
  );
  return rows.map(({ entry }) => fromBinary(AuditEntrySchema, entry));
}

async function headHash(domainId = DOMAIN): Promise<Buffer> {
  const { rows } = await world.admin.query('SELECT chain_hash FROM domain_heads WHERE domain_id = $1', [
    domainId,
  ]);
  return rows[0].chain_hash;
}

async function incarnation(): Promise<bigint> {
  const { rows } = await world.admin.query('SELECT incarnation FROM service_state');
  return BigInt(rows[0].incarnation);
}

function sweeps(): Sweeps {
  return new Sweeps({
    commands: replica.lanes,
    reader: replica.reader,
    newId: freshId,
    housekeeping: {},
    onError: (error) => {
      throw error;
    },
  });
}

/** The same call with a proof that is made now, and of the incarnation that the store is in. */
async function proofOfNow(call: Call): Promise<Call> {
  const command = call.command as Call['command'] & { proof: { statement: object } };
  const { rows } = await world.admin.query('SELECT surety_now() AS now');
  const issued = { incarnation: await incarnation(), issuedAt: BigInt(rows[0].now) };
  const proof = { ...command.proof, statement: { ...command.proof.statement, ...issued } };
  return { decision: call.decision, command: { ...command, proof } as Call['command'] };
}

/** A reconciler with a registration of the domain's present epoch settles an effect. */
async function settle(effect: EffectRow): Promise<EffectOutcome> {
  const { rows } = await world.admin.query('SELECT revocation_epoch FROM domains WHERE domain_id = $1', [
    DOMAIN,
  ]);
  const registration = await seedRegistration(world, RECONCILER, {
    revocationEpoch: BigInt(rows[0].revocation_epoch),
  });
  return submit(replica, await proofOfNow(reconcileCall(registration, effect)));
}

describe('surety restore', () => {
  test('tells with --dry-run what it would do, and does nothing', async () => {
    const effects = await oneOfEach();
    const before = await fingerprint(world.admin);
    const lines = await restoreJson('--dry-run');
    expect(await fingerprint(world.admin)).toEqual(before);
    const { prepared, executing, unknown } = effects;
    const found = (effect: EffectRow) => ({
      type: 'effect',
      domainId: DOMAIN,
      effectId: effect.effectId,
      state: effect.state,
      stateSource: effect.stateSource,
      sink: effect.sink,
      fence: effect.fence.toString(),
      requestDigest: effect.requestDigest.toString('hex'),
      eventId: effect.eventId,
      grantId: effect.grantId,
      attemptId: effect.attemptId,
      outcome: 'left',
    });
    const asBefore = {
      ...{ policyRevision: '1', revocationEpoch: '1' },
      ...{ status: 'active', frozen: false, freezeReason: null },
    };
    const inOrder = [prepared, executing, unknown].sort((a, b) => (a.effectId < b.effectId ? -1 : 1));
    expect(lines).toEqual([
      { type: 'restore', incarnation: expect.stringMatching(/^\d+$/), dryRun: true },
      { type: 'domain', domainId: DOMAIN, ...asBefore },
      ...inOrder.map(found),
      { type: 'domain', domainId: SERVICE_DOMAIN, ...asBefore },
      {
        type: 'done',
        incarnation: lines[0]?.['incarnation'],
        dryRun: true,
        domains: 2,
        moved: 1,
        executing: 1,
        unknown: 1,
        ended: 0,
        refused: 0,
        changed: 0,
      },
    ]);
    const forPeople = await restore(['--dry-run']);
    expect(forPeople).toMatchObject({ code: 0, err: '' });
    expect(forPeople.out).toMatch(/^Nothing is changed\. A restore would begin incarnation \d+\./);
    for (const { effectId, state } of inOrder) {
      expect(forPeople.out).toMatch(new RegExp(`^  ${state} +${effectId} `, 'm'));
    }
    expect(await fingerprint(world.admin)).toEqual(before);
  });

  test('freezes, raises and bumps once, moves what was PREPARED to UNKNOWN, and lists all that is in flight', async () => {
    const { prepared, executing, unknown, settled } = await oneOfEach();
    const heads = { [DOMAIN]: await headHash(), [SERVICE_DOMAIN]: await headHash(SERVICE_DOMAIN) };
    const entriesBefore = await entries();
    const { code, out, err } = await restore();
    expect({ code, err }).toEqual({ code: 0, err: '' });
    const begun = await incarnation();
    expect(begun).toBeGreaterThan(1n);
    expect(out).toContain(`Incarnation ${begun} has begun.`);
    expect(out).toMatch(new RegExp(`^  PREPARED, now UNKNOWN +${prepared.effectId} `, 'm'));
    expect(out).toMatch(new RegExp(`^  EXECUTING +${executing.effectId} `, 'm'));
    expect(out).toMatch(new RegExp(`^  UNKNOWN +${unknown.effectId} `, 'm'));
    expect(out).not.toContain(settled.effectId);
    expect(out).toContain('1 moved from PREPARED to UNKNOWN, 1 EXECUTING, 1 UNKNOWN, in 2 domains.');
    expect(out).toContain('surety admin unfreeze');

    const { rows } = await world.admin.query(
      'SELECT domain_id, frozen, freeze_reason, policy_revision, revocation_epoch, revision FROM domains ORDER BY 1',
    );
    const after = {
      frozen: true,
      freeze_reason: 'restore',
      policy_revision: '2',
      revocation_epoch: '2',
      revision: '2',
    };
    expect(rows).toEqual([DOMAIN, SERVICE_DOMAIN].map((domain_id) => ({ domain_id, ...after })));

    const [first, start, lost, ...more] = (await entries()).slice(entriesBefore.length);
    expect(more).toEqual([]);
    expect(first).toMatchObject({
      kind: AuditKind.RESTORE,
      incarnation: begun,
      actorSpiffeId: '',
      record: { type: 'domain', id: DOMAIN, revision: 2n, operation: 'restore' },
    });
    expect(Buffer.from(first?.previousHead ?? [])).toEqual(heads[DOMAIN]);
    const attemptId = `restore:${begun}:${prepared.effectId}`;
    const step = {
      effectId: prepared.effectId,
      source: StateSource.RESTORE,
      attemptId,
      fence: prepared.fence,
    };
    expect(start).toMatchObject({
      kind: AuditKind.EFFECT_STEP,
      incarnation: begun,
      effect: {
        ...step,
        step: 2n,
        fromState: EffectState.PREPARED,
        toState: EffectState.EXECUTING,
        grantCurrent: false,
      },
    });
    expect(lost).toMatchObject({
      kind: AuditKind.EFFECT_STEP,
      effect: { ...step, step: 3n, fromState: EffectState.EXECUTING, toState: EffectState.UNKNOWN },
    });
    expect(start?.previousHead).toHaveLength(0);

    const moved = await rowOf(prepared);
    expect(moved).toMatchObject({
      state: 'UNKNOWN',
      stateSource: 'restore',
      attemptId,
      executorRegistrationId: null,
      sendWindow: 60_000_000n,
      holdsKey: true,
      fence: prepared.fence,
    });
    expect(moved.startedAt).not.toBeNull();
    for (const effect of [executing, unknown, settled]) expect(await rowOf(effect)).toEqual(effect);
    await expectSound(world.admin);
    await expectWholeChain(world.admin, SERVICE_DOMAIN);
  });

  test('leaves an executor to be lost by the sweep, and everything to be settled by a reconciler of the new epoch', async () => {
    const { prepared, executing, unknown } = await oneOfEach();
    await restoreJson();
    // What was registered before is stale, its proofs are of another incarnation.
    expect(await submit(replica, reconcileCall(workers.reconciler, unknown))).toMatchObject({
      refusal: { reason: 'WORKLOAD_NOT_CURRENT', metadata: { rule: 'revocation_epoch' } },
    });
    const current = await seedRegistration(world, RECONCILER, { revocationEpoch: 2n });
    expect(await submit(replica, reconcileCall(current, unknown))).toMatchObject({
      refusal: { reason: 'PROOF_BINDING_MISMATCH', metadata: { field: 'incarnation' } },
    });

    await world.admin.query('UPDATE service_state SET clock_offset = clock_offset + 901000000');
    await sweeps().sweepOnce();
    expect(await rowOf(executing)).toMatchObject({ state: 'UNKNOWN', stateSource: 'executor_lost' });
    for (const effect of [prepared, executing, unknown]) {
      expect(await settle(await rowOf(effect))).toMatchObject({
        ok: true,
        reply: { effect: { state: 'SUCCEEDED' } },
      });
    }
    await expectSound(world.admin);
  });

  test('run again is another restore, with another incarnation', async () => {
    const effect = await reserved(replica, workers);
    await restoreJson();
    const first = await incarnation();
    const moved = await rowOf(effect);
    const lines = await restoreJson();
    expect(lines.at(-1)).toMatchObject({ moved: 0, unknown: 1 });
    expect(await rowOf(effect)).toEqual(moved);
    expect(await incarnation()).toBeGreaterThan(first);
    const { rows } = await world.admin.query('SELECT policy_revision FROM domains WHERE domain_id = $1', [
      DOMAIN,
    ]);
    expect(rows).toEqual([{ policy_revision: '3' }]);
    await expectSound(world.admin);
  });

  test('names what it cannot move, moves the rest, and fails', async () => {
    const [changed, sound] = [await reserved(replica, workers), await reserved(replica, workers)];
    await world.admin.query('SET session_replication_role = replica');
    await world.admin.query('UPDATE effects SET fence = fence + 7 WHERE effect_id = $1', [changed.effectId]);
    await world.admin.query('SET session_replication_role = DEFAULT');
    const { code, out } = await restore();
    expect(code).toBe(1);
    expect(out).toMatch(new RegExp(`^  DATA_CORRUPT +${changed.effectId} `, 'm'));
    expect(out).toContain('1 could not be moved');
    expect(await rowOf(sound)).toMatchObject({ state: 'UNKNOWN', stateSource: 'restore' });
    await expectWholeChain(world.admin);
  });
});

describe('a restore that dies in the middle', () => {
  async function interrupted(many: number, fault: string): Promise<EffectRow[]> {
    const calls = await Promise.all(
      Array.from({ length: many }, () => reserveCall(replica, workers.grantId)),
    );
    const effects = await Promise.all(calls.map((call) => done(submit(replica, call))));
    expect(await restore([], { SURETY_FAULT: fault })).toMatchObject({ code: 'SIGKILL' });
    return effects;
  }

  async function states(): Promise<Record<string, number>> {
    const { rows } = await world.admin.query(
      'SELECT state, count(*)::int AS count FROM effects GROUP BY state',
    );
    return Object.fromEntries(rows.map(({ state, count }) => [state, count]));
  }

  test('leaves everything frozen, and what it did not come to can neither start nor expire', async () => {
    const [effect] = (await interrupted(3, 'before-commit:crash@effect.restore')) as [EffectRow];
    expect(await states()).toEqual({ PREPARED: 3 });
    const { rows } = await world.admin.query('SELECT bool_and(frozen) AS frozen FROM domains');
    expect(rows).toEqual([{ frozen: true }]);

    // Even where an operator thaws the domain too early, with a workload of the new epoch at hand.
    await world.admin.query('UPDATE domains SET frozen = false, freeze_reason = NULL');
    const executor = await seedRegistration(world, EXECUTOR_A, { revocationEpoch: 2n });
    const start = await proofOfNow(startCall(executor, effect));
    expect(await submit(replica, start)).toMatchObject({ refusal: { reason: 'GRANT_NOT_CURRENT' } });
    expect(await rowOf(effect)).toEqual(effect);

    // It is no case for the sweep that cancels: that one goes the restore's way to its end.
    await sweeps().sweepOnce();
    expect(await states()).toEqual({ UNKNOWN: 3 });
    const { rows: sources } = await world.admin.query('SELECT DISTINCT state_source FROM effects');
    expect(sources).toEqual([{ state_source: 'restore' }]);
    await expectSound(world.admin);
  });

  test('goes on with --resume', async () => {
    await interrupted(3, 'after-commit:crash@effect.restore');
    expect(await states()).toEqual({ EXECUTING: 3 });
    const begun = await incarnation();
    const lines = await restoreJson('--resume');
    const effects = lines.filter(({ type }) => type === 'effect');
    expect(effects).toHaveLength(3);
    for (const effect of effects) expect(effect).toMatchObject({ state: 'PREPARED', outcome: 'moved' });
    expect(lines[0]).toEqual({ type: 'restore', incarnation: begun.toString(), dryRun: false });
    expect(lines.at(-1)).toMatchObject({
      incarnation: begun.toString(),
      moved: 3,
      executing: 0,
      unknown: 0,
      refused: 0,
    });
    expect(await states()).toEqual({ UNKNOWN: 3 });
    expect(await incarnation()).toBe(begun);
    const { rows } = await world.admin.query('SELECT DISTINCT step FROM effects');
    expect(rows).toEqual([{ step: '3' }]);
    const domain = lines.find(({ domainId }) => domainId === DOMAIN);
    expect(domain).toMatchObject({ type: 'domain', status: 'active', frozen: true, freezeReason: 'restore' });
    expect(lines.at(-1)).toMatchObject({ changed: 3 });

    // Once more it tells the same, what an operator has changed since besides, and does nothing.
    await world.admin.query('UPDATE domains SET frozen = false, freeze_reason = NULL WHERE domain_id = $1', [
      DOMAIN,
    ]);
    const before = await fingerprint(world.admin);
    const again = lines.map((line) => ({
      ...line,
      ...(line === domain ? { frozen: false, freezeReason: null } : {}),
      ...(line['type'] === 'done' ? { changed: 0 } : {}),
    }));
    expect(await restoreJson('--resume')).toEqual(again);
    const { out } = await restore(['--resume']);
    expect(out).toContain(`The restore to incarnation ${begun} goes on.`);
    expect(out).toMatch(new RegExp(`^${DOMAIN}: not frozen any more, `, 'm'));
    expect(out).toMatch(new RegExp(`^${SERVICE_DOMAIN}: frozen, `, 'm'));
    expect(out).toContain('\nThere was nothing left to go on with.\n');
    expect(await fingerprint(world.admin)).toEqual(before);
    await expectSound(world.admin);
  });
});

describe('surety restore, where it is not its time', () => {
  test('refuses while a service is connected, unless it is told that this is known', async () => {
    const service = new pg.Client({
      connectionString: world.database.serviceUrl,
      application_name: 'surety',
    });
    await service.connect();
    const before = await fingerprint(world.admin);
    const refused = await restore();
    expect(refused).toMatchObject({ code: 1, out: '' });
    expect(refused.err).toContain('Services hold 1 connections');
    expect(await fingerprint(world.admin)).toEqual(before);
    expect((await restoreJson('--while-serving')).at(-1)).toMatchObject({ type: 'done', domains: 2 });
    await service.end();
  });

  test('refuses a schema that is older or newer than its own', async () => {
    await world.admin.query("INSERT INTO schema_migrations VALUES (9999, 'later', 'sum')");
    expect(await restore()).toMatchObject({ code: 1, err: expect.stringContaining('newer') });
    await world.admin.query(
      'DELETE FROM schema_migrations WHERE version = 9999 OR version = (SELECT max(version) FROM schema_migrations WHERE version < 9999)',
    );
    expect(await restore()).toMatchObject({ code: 1, err: expect.stringContaining('run surety migrate') });
    expect(await incarnation()).toBe(1n);
  });

  test('says what is missing, and what does not go together', async () => {
    expect(await runCommand(['restore'])).toMatchObject({
      code: 2,
      err: expect.stringContaining('SURETY_MIGRATION_URL'),
    });
    expect(await restore(['--resume', '--dry-run'])).toMatchObject({ code: 2 });
    expect(await restore(['--resume'])).toMatchObject({
      code: 1,
      err: expect.stringContaining('no restore to go on with'),
    });
    await world.admin.query('UPDATE service_state SET test_database = false');
    const fault = await restore([], { SURETY_FAULT: 'after-commit:crash' });
    expect(fault).toMatchObject({ code: 2, err: expect.stringContaining('SURETY_FAULT') });
    expect(await incarnation()).toBe(1n);
  });

  test('refuses a clock that stands behind the log, and changes nothing', async () => {
    await reserved(replica, workers);
    await world.admin.query('UPDATE service_state SET clock_offset = -3600000000');
    const before = await fingerprint(world.admin);
    expect(await restore()).toMatchObject({ code: 1, err: expect.stringContaining('clock') });
    expect(await fingerprint(world.admin)).toEqual(before);
  });

  test('works on a database in which there is nothing', async () => {
    const empty = await createTestDatabase();
    const env = { SURETY_DATABASE_URL: empty.url };
    const { code, out } = await runCommand(['restore', '--json'], env);
    expect(code).toBe(0);
    expect(JSON.parse(out.trimEnd().split('\n').at(-1) ?? '')).toMatchObject({
      type: 'done',
      domains: 0,
    });
    await empty.drop();
  });
});
