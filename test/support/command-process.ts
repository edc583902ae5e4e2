import { type ChildProcess, spawn } from 'node:child_process';
import path from 'node:path';

/** How a command ended, and all that it said. */
export interface CommandEnd {
  /** The exit code, or the signal's name. */
  readonly code: number | string;
  readonly out: string;
  readonly err: string;
}

/** A command of the CLI in a process of its own. */
export interface CommandProcess {
  readonly child: ChildProcess;
  readonly pid: number;
  /** What it has written to the standard output so far. */
  out(): string;
  /** What it has written to the standard error so far. */
  err(): string;
  readonly ended: Promise<CommandEnd>;
}

const MAIN = path.resolve('dist/src/cli/main.js');

/** Starts `surety <args>` as it is built in `dist/`. */
export function startCommand(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): CommandProcess {
  return startProgram(process.execPath, [MAIN, ...args], env);
}

/** Starts a program without any variable of ours but those that are given. */
export function startProgram(
  program: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): CommandProcess {
  const inherited = Object.entries(process.env).filter(
    ([name]) => !/^(SURETY_|PG|NODE_OPTIONS|VITEST|npm_)/.test(name),
  );
  const child = spawn(program, args, {
    env: { ...Object.fromEntries(inherited), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let [out, err] = ['', ''];
  child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (err += chunk.toString()));
  const ended = new Promise<CommandEnd>((resolve, reject) => {
    child.once('error', reject);
    // `close`: the streams have ended too, so nothing is missing.
    child.once('close', (code, signal) => resolve({ code: code ?? signal ?? 'unknown', out, err }));
  });
  return { child, pid: child.pid ?? 0, out: () => out, err: () => err, ended };
}

/** Runs `surety <args>` to its end. */
export function runCommand(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<CommandEnd> {
  return startCommand(args, env).ended;
}
