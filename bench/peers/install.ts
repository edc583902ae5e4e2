import { execFile } from 'node:child_process';
import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Git ignores it. */
const INSTALLED = 'bench/out/peers';
const MANIFEST = 'package.json';
const LOCKFILE = 'package-lock.json';
/** Holds the lockfile of what is installed whole. */
const MARK = '.installed';
/** They are some hundred MiB. */
const TIMEOUT_MS = 900_000;
/** Scripts of packages are none of a benchmark's business; none of these needs one. */
const ARGUMENTS = ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];

/** Packages of one folder of `bench/peers`, installed. */
export interface Installed {
  readonly folder: string;
  /** The pinned versions, by package. */
  readonly versions: Readonly<Record<string, string>>;
}

/**
 * Installs what the lockfile of a folder of `bench/peers` pins, unless it is there already.
 *
 * @param onInstall told before npm is run
 * @throws Error with what npm says
 */
export async function installPackages(name: string, onInstall: () => void): Promise<Installed> {
  // Manifests stay in the checkout; the compiled code runs from elsewhere.
  const source = fileURLToPath(new URL(`../../../bench/peers/${name}`, import.meta.url));
  const folder = path.resolve(INSTALLED, name);
  const manifest = await readFile(path.join(source, MANIFEST), 'utf8');
  const lockfile = await readFile(path.join(source, LOCKFILE), 'utf8');
  const { dependencies, optionalDependencies } = JSON.parse(manifest) as Manifest;
  const mark = path.join(folder, MARK);
  const present = await readFile(mark, 'utf8').catch(() => undefined);
  if (present !== lockfile) {
    onInstall();
    await rm(mark, { force: true });
    await mkdir(folder, { recursive: true });
    for (const file of [MANIFEST, LOCKFILE]) await cp(path.join(source, file), path.join(folder, file));
    await npm(folder);
    await writeFile(mark, lockfile);
  }
  return { folder, versions: { ...dependencies, ...optionalDependencies } };
}

interface Manifest {
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

async function npm(folder: string): Promise<void> {
  // Where the benchmark itself was started by npm, that one's idea of the project is in the environment.
  const environment = Object.entries(process.env).filter(
    ([name]) => !/^npm_(?:config_.*prefix|package_|lifecycle_)/.test(name),
  );
  try {
    await run('npm', [...ARGUMENTS, '--prefix', folder], {
      cwd: folder,
      env: Object.fromEntries(environment),
      timeout: TIMEOUT_MS,
    });
  } catch (error) {
    throw new Error(`npm could not install it: ${firstLine(error)}`, { cause: error });
  }
}

function firstLine(error: unknown): string {
  const { stderr, message } = error as { stderr?: string; message?: string };
  return (stderr || message || 'failed').split('\n').find((line) => line.trim() !== '') ?? 'failed';
}
