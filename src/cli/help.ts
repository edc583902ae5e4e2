import { readFileSync } from 'node:fs';
import { variablesText } from '../config/document.js';
import { COMMANDS, isCommand } from './commands.js';
import { EXIT_USAGE } from './failure.js';

const USAGE = `surety <command> [options]

Makes sure that an agent's effect was allowed, is attempted at most once, is settled by evidence, and is provable.
`;

const AFTER = `
surety <command> --help          says more of one
surety help configuration        lists the variables that start, serve and migrate read
surety --version

Exit codes: 0 done, 1 failed, 2 called or configured wrongly, 141 nobody read its output to the end.
`;

/** `surety help [command | configuration]`. @returns the exit code */
export async function help([topic]: readonly string[]): Promise<number> {
  if (topic === undefined) return write(`${USAGE}\n${commandList()}\n${AFTER}`);
  if (topic === '--version') return write(`${version()}\n`);
  if (topic === 'configuration') return write(`${variablesText()}\n`);
  if (isCommand(topic)) return write(`${(await COMMANDS[topic].load()).help}\n`);
  process.stderr.write(
    `surety help: there is no ${JSON.stringify(topic)}; surety help lists what there is\n`,
  );
  return EXIT_USAGE;
}

function write(text: string): number {
  process.stdout.write(text);
  return 0;
}

function commandList(): string {
  const names = Object.keys(COMMANDS);
  const width = Math.max(...names.map((name) => name.length)) + 2;
  return Object.entries(COMMANDS)
    .map(([name, { summary }]) => `  ${name.padEnd(width)}${summary}`)
    .join('\n');
}

/** From package.json, which is two folders above the compiled file. */
function version(): string {
  const file = new URL('../../../package.json', import.meta.url);
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}
