import { execFile } from 'node:child_process';
import type { UnixUser } from './unix-user.js';

/** How a program ended: its exit code, or the name of the system error that kept it from running. */
export interface ProgramEnd {
  readonly code: number | string;
  /** Both streams together. */
  readonly output: string;
}

/** More than initdb ever prints. */
const maxOutputBytes = 1 << 20;

/**
 * The environment of everything we start: nothing is inherited but the search path, so that neither `PG*` nor
 * a locale nor a library path of the caller changes what Postgres does. The C locale also keeps its messages
 * in the one language in which we read them.
 */
export function postgresEnvironment(): NodeJS.ProcessEnv {
  return { PATH: process.env['PATH'] ?? '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' };
}

/**
 * What `spawn` needs to start a program under an account. It starts in `/`: the account may be unable to
 * enter our own working folder.
 */
export function spawnOptions(user: UnixUser | undefined): {
  cwd: string;
  env: NodeJS.ProcessEnv;
  uid?: number;
  gid?: number;
} {
  const options = { cwd: '/', env: postgresEnvironment() };
  // `spawn` wants signed 32-bit ids; macOS' nobody is -2.
  return user === undefined ? options : { ...options, uid: user.uid | 0, gid: user.gid | 0 };
}

/**
 * Runs a program to its end under an account, and kills it when its time is up (the code is then `TIMEOUT`).
 * Never throws.
 */
export function runProgram(
  file: string,
  args: readonly string[],
  user: UnixUser | undefined,
  timeoutMs: number,
): Promise<ProgramEnd> {
  const options = {
    ...spawnOptions(user),
    timeout: timeoutMs,
    killSignal: 'SIGKILL' as const,
    maxBuffer: maxOutputBytes,
  };
  return new Promise((resolve) => {
    try {
      execFile(file, args, options, (error, stdout, stderr) => {
        const code = error === null ? 0 : error.killed === true ? 'TIMEOUT' : (error.code ?? 'KILLED');
        resolve({ code, output: `${stdout}${stderr}`.trim() });
      });
    } catch (error) {
      // Some failures to start are thrown, others reported to the callback; which ones differs by platform.
      resolve({ code: (error as NodeJS.ErrnoException).code ?? 'UNKNOWN', output: '' });
    }
  });
}
