// Copies what is not TypeScript from src to dist/src, where the compiled code looks for it beside itself: SQL,
// the console's files, the watchdog. Part of `npm run build`, after tsc.
//
// Also removes what src no longer has: a migration that was renamed would otherwise be applied under both names.
// Says nothing unless it fails; with --verbose, what it copies.
import { copyFile, mkdir, readdir, readFile, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const from = path.join(root, 'src');
const to = path.join(root, 'dist', 'src');
const verbose = process.argv.includes('--verbose');

/** What tsc reads, and what it writes beside the copies. */
const isSource = (name) => /\.[cm]?tsx?$/.test(name);
const isCompiled = (name) => /\.(js|js\.map|d\.ts|tsbuildinfo)$/.test(name);

const assets = new Set((await filesIn(from)).filter((file) => !isSource(file) && !isHidden(file)));
for (const file of assets) await copyIfChanged(file);
for (const file of await filesIn(to)) {
  if (!isCompiled(file) && !assets.has(file)) await rm(path.join(to, file), { force: true });
}

/** Relative paths of all files below a folder, none if it does not exist. */
async function filesIn(folder) {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(folder, path.join(entry.parentPath, entry.name)));
}

function isHidden(file) {
  return file.split(path.sep).some((part) => part.startsWith('.'));
}

async function copyIfChanged(file) {
  const source = path.join(from, file);
  const target = path.join(to, file);
  const [wanted, found] = await Promise.all([readFile(source), readFile(target).catch(() => undefined)]);
  if (found?.equals(wanted)) return;
  await mkdir(path.dirname(target), { recursive: true });
  // Renamed into place, so that a service that starts at this moment reads the old or the new file whole.
  const unfinished = path.join(path.dirname(target), `.${path.basename(target)}.${process.pid}`);
  await copyFile(source, unfinished);
  await rename(unfinished, target);
  if (verbose) console.log(`copied ${path.join('src', file)}`);
}
