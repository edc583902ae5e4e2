import { ConfigurationInvalid } from '../config/configuration.js';

/** Called or configured wrongly: nothing was started. */
export const EXIT_USAGE = 2;
/** Tried and failed. */
export const EXIT_FAILED = 1;

/** A call of a command that cannot be understood. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** Errors whose message is written for the person who called the command, by their names. */
const FOR_PEOPLE: ReadonlySet<string> = new Set([
  'StartRefused',
  'MigrationError',
  'EmbeddedPostgresError',
  'Refused',
  'SuretyError',
]);

/** Errors that say what is wrong with what the command was told. */
const ABOUT_INPUT: ReadonlySet<string> = new Set(['TlsFilesInvalid', 'BootstrapInvalid']);

/**
 * Says what went wrong on the standard error: a sentence where there is one, else a stack trace, because it is a bug.
 *
 * @returns the exit code
 */
export function reportFailure(command: string, error: unknown): number {
  const { lines, code } = describe(error);
  for (const line of lines) process.stderr.write(`surety ${command}: ${line}\n`);
  return code;
}

function describe(error: unknown): { readonly lines: readonly string[]; readonly code: number } {
  if (error instanceof ConfigurationInvalid) return { lines: error.mistakes, code: EXIT_USAGE };
  if (!(error instanceof Error)) return { lines: [String(error)], code: EXIT_FAILED };
  if (error instanceof UsageError || isParseError(error)) return { lines: [error.message], code: EXIT_USAGE };
  if (ABOUT_INPUT.has(error.name)) return { lines: linesOf(error), code: EXIT_USAGE };
  if (FOR_PEOPLE.has(error.name)) return { lines: [error.message], code: EXIT_FAILED };
  const ofTheMachine = portTaken(error) ?? fileRefused(error);
  if (ofTheMachine !== undefined) return { lines: [ofTheMachine], code: EXIT_FAILED };
  return { lines: [error.stack ?? error.message], code: EXIT_FAILED };
}

/** The several things that one of these errors names. */
function linesOf(error: Error): readonly string[] {
  const all = 'problems' in error ? error.problems : 'mistakes' in error ? error.mistakes : undefined;
  return Array.isArray(all) ? all.map(String) : [error.message];
}

/** Of `parseArgs`: an option that there is not, or one without its value. */
function isParseError(error: Error): boolean {
  return 'code' in error && typeof error.code === 'string' && error.code.startsWith('ERR_PARSE_ARGS');
}

function portTaken(error: Error): string | undefined {
  if (!('code' in error) || !('port' in error) || !('address' in error)) return undefined;
  if (error.code === 'EADDRINUSE') return `${String(error.address)}:${String(error.port)} is in use`;
  if (error.code === 'EACCES')
    return `${String(error.address)}:${String(error.port)} may not be opened by this user`;
  return undefined;
}

/** What a file system says to somebody who may not, or cannot, write there. A file that is missing may be a bug of ours. */
const FILE_REFUSALS: ReadonlySet<unknown> = new Set([
  'EACCES',
  'EPERM',
  'ENOTDIR',
  'EROFS',
  'ENOSPC',
  'ENAMETOOLONG',
]);

function fileRefused(error: Error): string | undefined {
  if (!('code' in error) || !('path' in error) || !FILE_REFUSALS.has(error.code)) return undefined;
  return error.message;
}
