import { VARIABLES, type Variable } from './variables.js';

const PREFIX = 'SURETY_';

/** Names that mean something to us: each variable, and `<NAME>_FILE` of a secret. */
export function knownNames(): string[] {
  return (Object.entries(VARIABLES) as [string, Variable][]).flatMap(([name, { secret }]) =>
    secret === true ? [name, `${name}_FILE`] : [name],
  );
}

/** A `SURETY_` variable that we do not know is a misspelt one, and would silently leave the default in force. */
export function environmentMistakes(environment: Readonly<Record<string, string | undefined>>): string[] {
  const known = knownNames();
  return Object.keys(environment)
    .filter((name) => name.startsWith(PREFIX) && environment[name] !== undefined && !known.includes(name))
    .map((name) => {
      const nearest = known.reduce((best, one) => (distance(name, one) < distance(name, best) ? one : best));
      return `${name}: there is no such variable; ${nearest} is the nearest`;
    });
}

/**
 * Takes `PG*` out of this process's environment: the driver would fill in from it what a URL leaves open, and nobody who
 * reads our configuration would see it (architecture.md: `PG*` is ignored).
 */
export function forgetPostgresVariables(environment: NodeJS.ProcessEnv): void {
  for (const name of Object.keys(environment)) if (/^PG[A-Z]/.test(name)) delete environment[name];
}

/** Edits between two words (Levenshtein). */
function distance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (let i = 1; i <= one.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= other.length; j += 1) {
      const replace = (row[j - 1] as number) + (one[i - 1] === other[j - 1] ? 0 : 1);
      next.push(Math.min(replace, (row[j] as number) + 1, (next[j - 1] as number) + 1));
    }
    row = next;
  }
  return row[other.length] as number;
}
