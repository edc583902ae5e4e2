import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { certificateLayout, filesOf } from '../certs/layout.js';
import { EXIT_FAILED, EXIT_USAGE, reportFailure, UsageError } from '../src/cli/failure.js';
import { ActionWorld } from './action-world.js';
import { ACTION_CASES } from './actions/index.js';
import type { Case } from './case.js';
import { runCases } from './runner.js';
import { resultDocument, resultTable } from './table.js';

/** The second development domain: what the kit does there disturbs nobody's work in the first. */
const DEFAULT_DOMAIN = 'globex.test';

const HELP = `Conformance: judges any running service with a test clock by the rules of governed actions, over its API alone.

  npm run conformance -- --target <host:port> --certs <folder> [--domain <name>] [--only <part of an id>]... [--json]
  npm run conformance -- --list

  --target   where the service listens
  --certs    a folder that npm run certs made; the service must trust its bundles, and its operator be the first one
  --domain   the domain to work in, ${DEFAULT_DOMAIN} unless given; it is set up where it is not there
  --only     only cases whose id holds this
  --json     one JSON document instead of the table
  --list     the cases, without running any

Exits 0 where every case passed, 1 where one failed, 2 where it could not be tried. It moves the service's clock by about
half an hour. See docs/conformance.md.
`;

async function run(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      target: { type: 'string' },
      certs: { type: 'string' },
      domain: { type: 'string', default: DEFAULT_DOMAIN },
      only: { type: 'string', multiple: true, default: [] },
      json: { type: 'boolean', default: false },
      list: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) {
    process.stdout.write(HELP);
    return 0;
  }
  const cases = chosen(values.only);
  if (values.list) {
    for (const { id, rule, title } of cases) process.stdout.write(`${id}  (${rule})  ${title}\n`);
    return 0;
  }
  const { target, certs } = values;
  if (target === undefined) throw new UsageError('--target is missing');
  if (certs === undefined) throw new UsageError('--certs is missing');
  const world = await ActionWorld.open(target, layoutOf(certs), values.domain);
  try {
    const results = await runCases(world, cases);
    const document = resultDocument(target, results);
    process.stdout.write(values.json ? `${JSON.stringify(document)}\n` : `${resultTable(results)}\n`);
    process.stderr.write(`${document.passed} passed, ${document.failed} failed\n`);
    return document.failed === 0 ? 0 : EXIT_FAILED;
  } finally {
    world.close();
  }
}

/** @throws {UsageError} where nothing is left */
function chosen(only: readonly string[]): readonly Case<ActionWorld>[] {
  const cases = ACTION_CASES.filter(({ id }) => only.length === 0 || only.some((part) => id.includes(part)));
  if (cases.length === 0) throw new UsageError('--only: no case has such an id; --list shows them');
  return cases;
}

/** @throws {UsageError} where the folder is none of development certificates */
function layoutOf(directory: string) {
  const layout = certificateLayout(resolve(directory));
  const missing = filesOf(layout).find((file) => !existsSync(file));
  if (missing !== undefined) throw new UsageError(`--certs: ${missing} is not there; npm run certs makes it`);
  return layout;
}

run(process.argv.slice(2)).then(
  (code) => {
    process.exitCode = code;
  },
  (error: unknown) => {
    reportFailure('conformance', error);
    process.exitCode = EXIT_USAGE;
  },
);
