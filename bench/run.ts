import { mkdir, writeFile } from 'node:fs/promises';
import { constants, loadavg } from 'node:os';
import path from 'node:path';
import { type BenchOptions, BenchUsage } from './options.js';
import { FULL_PLAN, type Plan, QUICK_PLAN } from './plan.js';
import type { Ratio } from './ratios/ratio.js';
import { RatioBlocked } from './ratios/ratio-blocked.js';
import { capacityOf } from './report/capacity.js';
import { chartOf } from './report/chart.js';
import { Progress } from './report/progress.js';
import {
  type BenchResult,
  type BlockedRatio,
  nameOf,
  type RatioResult,
  ratioResult,
} from './report/result.js';
import { machineOf, postgresSettings, versionsOf } from './report/surroundings.js';
import { tableOf } from './report/table.js';
import { pgbenchVersion } from './sides/pgbench.js';
import { BATCH_LIMIT, BenchWorld } from './world/bench-world.js';
import { SERVICE_SETTINGS } from './world/service-process.js';
import { checkStoredEffects } from './world/stored-effects.js';
import { Undoing } from './world/undoing.js';

/** Git ignores it. */
const OUT = 'bench/out';
/** A machine that does so much else shows it in every number. */
const QUIET_LOAD = 0.5;
/** What a shell says of a program that a signal ended: this and the signal's number. */
const SHELL_SIGNAL_BASE = 128;

/** Runs the benchmark and prints it. @returns the exit code */
export async function runBenchmark(options: BenchOptions): Promise<number> {
  await checkPgbench(options.ratios);
  const undoing = new Undoing();
  const progress = new Progress();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, () => {
      void undoing.run().finally(() => process.exit(SHELL_SIGNAL_BASE + constants.signals[signal]));
    });
  }
  try {
    const [result, file] = await measureAll(options, undoing, progress);
    process.stdout.write(options.json ? `${JSON.stringify(result, null, 2)}\n` : `${tableOf(result)}\n`);
    process.stderr.write(`bench: written to ${file}.json and ${file}.svg\n`);
    return 0;
  } finally {
    await undoing.run();
  }
}

/** Said before anything is started. @throws BenchUsage */
async function checkPgbench(ratios: readonly Ratio[]): Promise<void> {
  const needing = ratios.filter(({ needsPgbench }) => needsPgbench).map(({ id }) => id);
  if (needing.length === 0 || (await pgbenchVersion()) !== undefined) return;
  throw new BenchUsage(
    `${needing.join(', ')} need pgbench, which is not on the PATH: it comes with PostgreSQL (postgresql-contrib in some ` +
      'distributions). --only measures those that do without.',
  );
}

/**
 * What was measured is written after each ratio: one that fails later takes nothing along.
 *
 * @returns the run, and the path of what was written, without its ending
 */
async function measureAll(
  options: BenchOptions,
  undoing: Undoing,
  progress: Progress,
): Promise<[BenchResult, file: string]> {
  const plan = options.quick ? QUICK_PLAN : FULL_PLAN;
  const loadBefore = loadavg()[0] ?? 0;
  if (loadBefore > QUIET_LOAD)
    progress.say(`the machine is busy (load ${loadBefore.toFixed(2)}): numbers will be disturbed`);
  const started = new Date().toISOString();
  progress.say('starting Postgres and the service');
  const world = await BenchWorld.open(undoing, options.profile && path.resolve(options.profile));
  const postgres = await postgresSettings(world.sql);
  const versions = await versionsOf(world.sql);
  const ratios: RatioResult[] = [];
  const blocked: BlockedRatio[] = [];
  const soFar = async (): Promise<BenchResult> => ({
    benchmark: 'surety',
    started,
    finished: new Date().toISOString(),
    quick: plan.quick,
    machine: await machineOf(loadBefore),
    versions,
    settings: {
      rounds: plan.rounds,
      seconds_per_round: plan.seconds,
      batch_limit: BATCH_LIMIT,
      ...SERVICE_SETTINGS,
      ...Object.fromEntries(Object.entries(postgres).map(([name, value]) => [`postgres_${name}`, value])),
    },
    ratios,
    blocked,
  });
  for (const [i, ratio] of options.ratios.entries()) {
    const where = `${i + 1} of ${options.ratios.length}: ${ratio.id}`;
    const result = await measureOne(ratio, where, world, plan, undoing, progress, versions);
    if ('reason' in result) blocked.push(result);
    else ratios.push(result);
    await write(await soFar());
  }
  progress.end();
  const whole = await soFar();
  return [whole, await write(whole)];
}

async function measureOne(
  ratio: Ratio,
  where: string,
  world: BenchWorld,
  plan: Plan,
  undoing: Undoing,
  progress: Progress,
  versions: Readonly<Record<string, string>>,
): Promise<RatioResult | BlockedRatio> {
  progress.say(`${where}, loading`);
  world.costs.take();
  world.growth.take();
  let run;
  try {
    run = await ratio.measure({
      world,
      plan,
      undoing,
      onStep: (step, value) => progress.step(where, plan.rounds, step, value, ratio.unit),
      say: (text) => progress.say(`${where}, ${text}`),
    });
  } catch (error) {
    if (!(error instanceof RatioBlocked)) throw error;
    progress.say(`${where} is blocked: ${error.message}`);
    return {
      name: nameOf(ratio),
      id: ratio.id,
      ...(ratio.goal && { goal: ratio.goal }),
      reason: error.message,
    };
  }
  await checkStoredEffects(world);
  const figures = { ...run.figures, ...world.costs.take(), ...world.growth.take() };
  return ratioResult(ratio, { ...run, figures }, plan, versions);
}

/** @returns the path of what was written, without its ending */
async function write(result: BenchResult): Promise<string> {
  await mkdir(OUT, { recursive: true });
  const file = path.join(OUT, result.started.replaceAll(/[:.]/g, '-'));
  await writeFile(`${file}.json`, `${JSON.stringify(result, null, 2)}\n`);
  await writeFile(`${file}.svg`, chartOf(result));
  const capacity = capacityOf(result);
  if (capacity !== undefined) await writeFile(`${file}.capacity.md`, capacity);
  return file;
}
