// Everything that CI checks besides the tests, in one command: prints what failed, and all of it.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

const steps = [
  ['types', 'tsc', ['--noEmit', '-p', 'tsconfig.json']],
  ['format', 'biome', ['format', '.']],
  ['lint', 'oxlint', ['--type-aware', '--deny-warnings']],
  ['proto format', 'buf', ['format', '--diff', '--exit-code', 'proto', '--path', 'proto/surety']],
  ['proto lint', 'buf', ['lint']],
  ['proto breaking', 'buf', ['breaking', '--against', 'proto/landed.binpb']],
  ['generated code', generatedCode],
  ['migrations', 'squawk', ['--config', 'squawk.toml', ...migrations()]],
];

function migrations() {
  return readdirSync('src/store/migrations')
    .filter((name) => name.endsWith('.sql'))
    .map((name) => path.join('src/store/migrations', name));
}

/** Generates again into a folder of its own and compares: generated code is never edited. */
function generatedCode() {
  const folder = mkdtempSync(path.join(tmpdir(), 'surety-gen-'));
  try {
    const template = JSON.stringify({
      version: 'v2',
      plugins: [
        {
          local: 'node_modules/.bin/protoc-gen-es',
          out: folder,
          opt: ['target=ts', 'import_extension=js'],
        },
      ],
    });
    const made = run('buf', ['generate', '--template', template]);
    if (made.status !== 0) return made;
    return spawnSync('diff', ['-r', folder, 'src/gen'], { encoding: 'utf8' });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function run(command, args) {
  return spawnSync(path.join('node_modules/.bin', command), args, { encoding: 'utf8' });
}

let failed = 0;
for (const [name, command, args] of steps) {
  const result = typeof command === 'function' ? command() : run(command, args);
  const good = result.status === 0;
  if (!good) failed += 1;
  process.stdout.write(`${good ? 'ok    ' : 'FAILED'} ${name}\n`);
  if (!good)
    process.stdout.write(`${result.stdout ?? ''}${result.stderr ?? ''}${result.error?.message ?? ''}\n`);
}
const package_ = JSON.parse(readFileSync('package.json', 'utf8'));
process.stdout.write(
  failed === 0 ? `${package_.name} ${package_.version} is clean\n` : `${failed} checks failed\n`,
);
process.exitCode = failed === 0 ? 0 : 1;
