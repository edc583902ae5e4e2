import type { Case, CaseWorld } from './case.js';

/** What became of one case. */
export interface CaseResult {
  readonly id: string;
  readonly rule: string;
  readonly title: string;
  readonly passed: boolean;
  /** Why it failed, one line; empty where it passed. */
  readonly why: string;
}

/** So many cases that disturb no other run at a time: enough to hide the way to the service, few enough for any. */
const AT_A_TIME = 8;

/**
 * Runs cases against one world: first those that disturb no other, several at a time; then each of the rest alone.
 *
 * @param done told each result as it comes
 * @returns the results in the order of the list
 */
export async function runCases<World extends CaseWorld>(
  world: World,
  cases: readonly Case<World>[],
  done: (result: CaseResult) => void = () => {},
): Promise<readonly CaseResult[]> {
  const results = new Map<string, CaseResult>();
  const run = async (each: Case<World>): Promise<void> => {
    const result = await runCase(world, each);
    results.set(each.id, result);
    done(result);
  };
  const queue = cases.filter(({ alone }) => alone !== true);
  await world.prepare();
  const takeNext = async (): Promise<void> => {
    for (let next = queue.shift(); next; next = queue.shift()) await run(next);
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, takeNext));
  for (const each of cases.filter(({ alone }) => alone === true)) {
    await world.prepare();
    await run(each);
  }
  return cases.flatMap(({ id }) => results.get(id) ?? []);
}

async function runCase<World>(world: World, { id, rule, title, run }: Case<World>): Promise<CaseResult> {
  try {
    await run(world);
    return { id, rule, title, passed: true, why: '' };
  } catch (error) {
    return { id, rule, title, passed: false, why: reasonOf(error) };
  }
}

/** One line of whatever was thrown. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { name, message } = error;
  const reason = 'reason' in error && typeof error.reason === 'string' ? `${error.reason}: ` : '';
  const text = name === 'Unmet' ? message : `${reason}${message || name}`;
  return text.replaceAll(/\s+/g, ' ').trim();
}
