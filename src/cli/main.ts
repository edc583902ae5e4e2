#!/usr/bin/env node
import { forgetPostgresVariables } from '../config/environment.js';
import { COMMANDS, type CommandName, isCommand } from './commands.js';
import { EXIT_USAGE, reportFailure } from './failure.js';
import { help } from './help.js';
import { endWithoutOutput } from './output-gone.js';

/** Finds the command, loads it and nothing else, and ends with its exit code. */
async function main([name, ...args]: readonly string[]): Promise<number> {
  forgetPostgresVariables(process.env);
  endWithoutOutput('surety');
  if (name === undefined || name === '--help' || name === '-h') return help([]);
  if (name === '--version') return help(['--version']);
  if (name === 'help') return help(args);
  if (!isCommand(name)) {
    process.stderr.write(`surety: there is no command ${JSON.stringify(name)}; surety help lists them\n`);
    return EXIT_USAGE;
  }
  if (args.includes('--help') || args.includes('-h')) return help([name]);
  return run(name, args);
}

async function run(name: CommandName, args: readonly string[]): Promise<number> {
  try {
    const command = await COMMANDS[name].load();
    return await command.run(args);
  } catch (error) {
    return reportFailure(name, error);
  }
}

// Not `process.exit`: what was written to a pipe may still be on its way.
process.exitCode = await main(process.argv.slice(2));
