import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { WorkloadSession } from '../../src/cli/client/workload-session.js';
import { DEMO_AUTHORITY_SYSTEM, DEMO_SINK } from '../../src/cli/demo/set-up-domain.js';
import { EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { EffectService } from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { AdminCli, inAcme } from '../support/admin-cli.js';
import {
  ACME,
  type E2eWorld,
  openE2eWorld,
  refusedWith,
  SERVICE_DOMAIN,
  type StartedEffect,
} from '../support/e2e-world.js';

// effects.md, Cost of not knowing, as people meet it: the command line, `/metrics` and the log.

const HOUR_MS = 3_600_000;
const LABELS = `domain="${ACME}",sink="${DEMO_SINK}"`;

let world: E2eWorld;
let cli: AdminCli;
let executor: WorkloadSession;
let lost: StartedEffect;

beforeAll(async () => {
  world = await openE2eWorld();
  cli = new AdminCli(world);
  executor = await world.executor();
  const limits = '--breaker-threshold 1 --breaker-reset 1h --unknown-ceiling 5 --unknown-age 1h';
  await cli.run(inAcme(`put-sink ${DEMO_SINK} ${limits}`));
});
afterAll(() => world?.close());

async function metrics(): Promise<string> {
  return (await fetch(`${world.service.admin}/metrics`)).text();
}

interface Line {
  readonly msg: string;
  readonly level: string;
  readonly sink?: string;
  readonly state?: string;
  readonly excess?: string;
}

/** What the service has logged of the sink. */
function logged(): string[] {
  const lines = world.service
    .log()
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Line);
  return lines
    .filter(({ sink }) => sink === DEMO_SINK)
    .map(({ level, msg, state, excess }) => `${level} ${state ?? excess}: ${msg}`);
}

const OPENED = "warn open: a sink's circuit breaker has changed";
const CLOSED = "warn closed: a sink's circuit breaker has changed";
const TOO_OLD = 'warn unknown_age: too much is not known of a sink: nothing new is reserved there';
const BACK = 'warn unknown_age: what is not known of a sink is within its limits again';

describe('a lost answer', () => {
  beforeAll(async () => {
    lost = await world.effectIn(EffectState.UNKNOWN, executor);
    // A round of the sweeps looks.
    await world.advance(1000);
  });

  test('is in every metric', async () => {
    const text = await metrics();
    expect(text).toContain(`surety_sink_unknown_effects{${LABELS}} 1\n`);
    expect(text).toContain(`surety_sink_unknown_effects_ceiling{${LABELS}} 5\n`);
    expect(text).toMatch(new RegExp(`surety_sink_oldest_unknown_age_seconds\\{${LABELS}\\} [1-9]`));
    expect(text).toContain(`surety_sink_unknown_age_objective_seconds{${LABELS}} 3600\n`);
    for (const [state, value] of [
      ['closed', 0],
      ['open', 1],
      ['half_open', 0],
    ] as const) {
      expect(text).toContain(`surety_sink_breaker_state{${LABELS},state="${state}"} ${value}\n`);
    }
    expect(text).toContain(`surety_domain_pending_effects{domain="${ACME}"} 1\n`);
    expect(text).toContain(`surety_domain_pending_effects_ceiling{domain="${ACME}"} 1000000\n`);
    expect(text).toContain('surety_breaker_changes_total{state="open"} 1\n');
    expect(text).toContain('surety_admission_series_left_out{kind="sinks"} 0\n');
    expect(text).toMatch(/surety_admission_last_read_timestamp_seconds [1-9]/);
    // Published, reserved, started; each signed command, and marked unknown.
    expect(text).toContain('surety_admitted_calls_total{lane="ordinary"} 3\n');
    expect(text).toMatch(/surety_admitted_calls_total\{lane="safety"\} [1-9]/);
    // Each batch took the domain's lock once, and each command was taken from the queue once.
    const value = (name: string): number => Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)?.[1]);
    expect(value('surety_lane_lock_seconds_count')).toBe(value('surety_lane_batch_seconds_count'));
    expect(value('surety_lane_queue_seconds_count')).toBe(value('surety_lane_batch_size_sum'));
    expect(text).toMatch(/^surety_connection_wait_seconds_count\{pool="lane"\} [1-9]/m);
    expect(logged()).toEqual([OPENED]);
  });

  test('is in `surety admin status`', async () => {
    const { code, out } = await cli.run(['status', '--domain', ACME]);
    expect(code).toBe(0);
    expect(out).toMatch(/^acme\.test at \d{4}-/);
    expect(out).toMatch(/ {2}pending work +1 of 1000000\n/);
    expect(out).toMatch(
      /\nSINK +BREAKER +FAILURES +OPENED +MAY BE TRIED +PROBE +UNKNOWN +OLDEST +OBJECTIVE\n/,
    );
    expect(out).toMatch(
      new RegExp(`\n${DEMO_SINK} +OPEN +1 of 1 +\\d\\S+Z +\\d\\S+Z +- +1 of 5 +\\d+s +3600s\n`),
    );
    expect(out).toMatch(
      /\nACTOR +ORDINARY +SAFETY +LEFT +THIS WINDOW +NONCES\nharness:planner +\d+ +\d+ +\d+ +\d+ +0\n/,
    );
    expect(out).not.toContain('all domains together');
    const json = JSON.parse((await cli.run(['status', '--domain', ACME, '--json'])).out) as {
      status: { sinks: { breaker: string }[] };
    };
    expect(json.status.sinks[0]?.breaker).toBe('BREAKER_STATE_OPEN');
    expect((await cli.run(['status', '--domain', SERVICE_DOMAIN])).out).toMatch(
      / {2}all domains together +6000000 requests a minute, 120000 given out\n/,
    );
  });

  test('opened a breaker that an operator sees before it is closed', async () => {
    const dry = await cli.run(inAcme(`reset-breaker ${DEMO_SINK} --dry-run`));
    expect(dry.out).toContain('its circuit breaker, as it stands:');
    expect(dry.out).toMatch(/~ +breaker +OPEN → CLOSED\n/);
    expect(dry.out).toMatch(/~ +failures +1 → 0\n/);
    expect(dry.out).toMatch(/- +open_time +\d/);
    expect(dry.out).toMatch(/ +unknown +1\n/);
    expect(await refusedWith(world.reserve())).toMatchObject({ code: 'UNAVAILABLE', reason: 'CIRCUIT_OPEN' });
    expect(await metrics()).toContain('surety_admission_refusals_total{reason="CIRCUIT_OPEN",quota=""} 1\n');
    expect((await cli.run(inAcme(`reset-breaker ${DEMO_SINK}`))).code).toBe(0);
    expect((await cli.run(['status', '--domain', ACME])).out).toMatch(
      new RegExp(`\n${DEMO_SINK} +CLOSED +0 of 1 +- +- +- +1 of 5`),
    );
    expect(logged()).toEqual([OPENED, CLOSED]);
  });
});

describe('too long', () => {
  test('is told once, stops reservations and is counted', async () => {
    await world.advance(2 * HOUR_MS);
    await world.advance(1000);
    expect(logged()).toEqual([OPENED, CLOSED, TOO_OLD]);
    const refused = await refusedWith(world.reserve());
    expect(refused).toMatchObject({ reason: 'UNKNOWN_CEILING', metadata: { rule: 'age', sink: DEMO_SINK } });
    expect(refused.retryAfterMs).toBeGreaterThan(0);
    const text = await metrics();
    expect(text).toContain(
      'surety_admission_refusals_total{reason="UNKNOWN_CEILING",quota="unknown_age"} 1\n',
    );
    const [, age] = new RegExp(`oldest_unknown_age_seconds\\{${LABELS}\\} (\\S+)\n`).exec(text) ?? [];
    expect(Number(age)).toBeGreaterThan(7200);
  });

  test('ends with the reconciliation: the sink has nothing more to tell', async () => {
    const reconciler = await world.reconciler();
    const effect = await reconciler.look(lost.effect.effectId);
    await reconciler.channel.service(EffectService).reconcile(
      await reconciler.reconcile(effect, EffectState.SUCCEEDED, {
        ...{ attemptId: lost.attemptId, authoritySystemId: DEMO_AUTHORITY_SYSTEM },
        ...{ queryId: 'query-17', response: 'done' },
      }),
    );
    await world.advance(1000);
    expect(logged()).toEqual([OPENED, CLOSED, TOO_OLD, BACK]);
    const text = await metrics();
    expect(text).not.toContain(`{${LABELS}`);
    expect(text).not.toContain(`surety_domain_pending_effects{domain="${ACME}"}`);
    expect(await world.reserve()).toMatchObject({ duplicate: false });
  });
});

describe('limits are shown before they are changed', () => {
  test.each([
    ['set-limits --max-hops 4 --pending-ceiling 9', [/~ +limits\.max_hops +16 → 4\n/, /1000000 → 9\n/]],
    ['set-share --requests-per-minute 90000', [/~ +limits\.requests_per_minute +60000 → 90000\n/]],
  ] as const)('%s', async (line, shown) => {
    const dry = await cli.run([...inAcme(line), '--dry-run']);
    for (const pattern of shown) expect(dry.out).toMatch(pattern);
    expect((await cli.run(inAcme(line))).code).toBe(0);
  });

  test('of the service and of a new domain', async () => {
    const home = ['--domain', SERVICE_DOMAIN, '--reason', 'a test'];
    const limit = [...'set-service-limit --requests-per-minute 7000000'.split(' '), ...home];
    expect((await cli.run([...limit, '--dry-run'])).out).toMatch(
      /~ +service_requests_per_minute +6000000 → 7000000\n/,
    );
    expect((await cli.run(limit)).code).toBe(0);
    const made = async (line: string) => (await cli.run([...line.split(' '), ...home, '--dry-run'])).out;
    expect(await made('create-domain initech.test')).toMatch(/\+ +limits\.requests_per_minute +60000\n/);
    const given = await made('create-domain initech.test --requests-per-minute 600');
    expect(given).toMatch(/\+ +limits\.requests_per_minute +600\n/);
    expect(given).toMatch(/\+ +limits\.max_hops +16\n/);
  });
});
