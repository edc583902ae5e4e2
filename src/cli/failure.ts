import { ConfigurationInvalid } from '../config/configuration.js';
import { databasePlace } from '../config/database-place.js';
import { listenVariables } from '../config/listen-variables.js';
import { Refused } from '../ledger/run-decision.js';
import { refusalLines } from './client/refusal-lines.js';
import type { SuretyError } from './client/surety-error.js';
import { parseMistake } from './parse-mistake.js';

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
  'RestoreRefused',
  'MigrationError',
  'EmbeddedPostgresError',
  'ArchiveError',
  'DrainFailed',
]);

/** Errors that say what is wrong with what the command was told. */
const ABOUT_INPUT: ReadonlySet<string> = new Set([
  'TlsFilesInvalid',
  'BootstrapInvalid',
  'ClientIdentityInvalid',
]);

/**
 * Says what went wrong on the standard error, in sentences of ours: what Node, OpenSSL, gRPC or the driver say never
 * leaves. What has no sentence is a bug, and its stack trace is for whoever asks for it.
 *
 * @returns the exit code
 */
export function reportFailure(command: string, error: unknown): number {
  const { lines, code } = describe(command, error);
  for (const line of lines) process.stderr.write(`surety ${command}: ${line}\n`);
  return code;
}

function describe(
  command: string,
  error: unknown,
): { readonly lines: readonly string[]; readonly code: number } {
  if (error instanceof ConfigurationInvalid) return { lines: error.mistakes, code: EXIT_USAGE };
  if (!(error instanceof Error)) return { lines: internal(undefined), code: EXIT_FAILED };
  const mistake = error instanceof UsageError ? error.message : parseMistake(command, error);
  if (mistake !== undefined) return { lines: [mistake], code: EXIT_USAGE };
  if (ABOUT_INPUT.has(error.name)) return { lines: linesOf(error), code: EXIT_USAGE };
  if (isSuretyError(error)) return { lines: [refusalLines(error).join('\n')], code: EXIT_FAILED };
  if (error instanceof Refused) return { lines: [refusalText(error)], code: EXIT_FAILED };
  const ofDatabase = databaseRefused(command, error);
  if (ofDatabase !== undefined) return { lines: [ofDatabase], code: EXIT_FAILED };
  if (FOR_PEOPLE.has(error.name)) return { lines: [error.message], code: EXIT_FAILED };
  const ofTheMachine = portRefused(error) ?? fileRefused(error);
  if (ofTheMachine !== undefined) return { lines: [ofTheMachine], code: EXIT_FAILED };
  return { lines: internal(error), code: EXIT_FAILED };
}

/** The several things that one of these errors names. */
function linesOf(error: Error): readonly string[] {
  const all = 'problems' in error ? error.problems : 'mistakes' in error ? error.mistakes : undefined;
  return Array.isArray(all) ? all.map(String) : [error.message];
}

/** By its name: whoever speaks to no service does not load what speaks gRPC. */
function isSuretyError(error: Error): error is SuretyError {
  return error.name === 'SuretyError';
}

const DEBUG_LEVELS: ReadonlySet<unknown> = new Set(['debug', 'trace']);

function internal(error: Error | undefined): readonly string[] {
  if (DEBUG_LEVELS.has(process.env['SURETY_LOG_LEVEL']))
    return ['internal error', error?.stack ?? 'no stack'];
  return ['internal error; SURETY_LOG_LEVEL=debug shows where'];
}

/** Of a decision: its reason, for programs, and its sentence. */
function refusalText({ refusal: { reason, message } }: Refused): string {
  return `${reason}: ${message}`;
}

/** What the store says of a database that it does not get into, by its reason. */
const DATABASE_REFUSALS: Readonly<Record<string, (place: string) => string>> = {
  DATABASE_UNREACHABLE: (place) => `The database did not answer at ${place}.`,
  LOGIN_REFUSED: (place) =>
    `The database at ${place} does not let the login in: the URL must have the user and password of one.`,
  DATABASE_MISSING: (place) =>
    `There is no such database at ${place}: the URL must end with the name of one that is there.`,
};

/** Of the store, which knows no variables. */
function databaseRefused(command: string, error: Error): string | undefined {
  if (error.name !== 'MigrationError' || !('reason' in error)) return undefined;
  const place = databasePlace(process.env, command);
  if (place === undefined) return undefined;
  return DATABASE_REFUSALS[String(error.reason)]?.(place);
}

/** What a system says of an address to listen on, by its code. */
const PORT_REFUSALS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'is in use',
  EACCES: 'may not be opened by this user',
  EADDRNOTAVAIL: 'is not an address of this machine',
  EAFNOSUPPORT: 'is of a kind that this machine does not have',
};

function portRefused(error: Error): string | undefined {
  if (!('code' in error)) return undefined;
  if ('syscall' in error && error.syscall === 'getaddrinfo' && 'hostname' in error) {
    const host = String(error.hostname);
    return `${variablesOf({ host })}the name ${host} is not known`;
  }
  if (!('port' in error) || !('address' in error)) return undefined;
  const refusal = PORT_REFUSALS[String(error.code)];
  const port = Number(error.port);
  return refusal && `${variablesOf({ port })}${String(error.address)}:${port} ${refusal}`;
}

/** Which variables say so, to be put in front. */
function variablesOf(at: Parameters<typeof listenVariables>[1]): string {
  const names = listenVariables(process.env, at);
  return names.length === 0 ? '' : `${names.join(', ')}: `;
}

/** What a file system says to somebody who may not, or cannot, write there. A file that is missing may be a bug of ours. */
const FILE_REFUSALS: Readonly<Record<string, string>> = {
  EACCES: 'may not be used by this user',
  EPERM: 'may not be used by this user',
  ENOTDIR: 'is not in a folder',
  EISDIR: 'is a folder',
  EROFS: 'is on a file system that cannot be written to',
  ENOSPC: 'has no space left',
  ENAMETOOLONG: 'has too long a name',
};

function fileRefused(error: Error): string | undefined {
  if (!('code' in error) || !('path' in error)) return undefined;
  const refusal = FILE_REFUSALS[String(error.code)];
  return refusal && `${String(error.path)} ${refusal} (${String(error.code)})`;
}

/**
 * What is wrong with a file that somebody named.
 *
 * @param error what using it failed with
 * @returns for example `/x is not there`
 */
export function fileSentence(file: string, error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return `${file} ${code === 'ENOENT' ? 'is not there' : (FILE_REFUSALS[code] ?? 'cannot be used')}`;
}
