import { adminHelp } from './admin/help.js';
import { STATUS_COMMAND } from './admin/admission-status.js';
import { READ_COMMANDS } from './admin/read-records.js';
import { sendMutation } from './admin/send-mutation.js';
import { MUTATION_COMMANDS } from './admin/subcommands.js';
import { PROCESS_TERMINAL, type Terminal, printable } from './admin/terminal.js';
import { SuretyError } from './client/surety-error.js';
import { EXIT_FAILED, UsageError } from './failure.js';

export const ADMIN_HELP: string = adminHelp();

/**
 * `surety admin`: an operator's client for every signed command and every record (authority.md, Signed commands).
 *
 * @returns the exit code
 * @throws {UsageError} where it is called wrongly
 */
export async function admin(
  [name, ...args]: readonly string[],
  terminal: Terminal = PROCESS_TERMINAL,
): Promise<number> {
  try {
    const reading = [...READ_COMMANDS, STATUS_COMMAND].find((command) => command.name === name);
    if (reading) return await reading.run(args, terminal);
    const changing = MUTATION_COMMANDS.find((command) => command.name === name);
    if (changing) return await sendMutation(changing, args, terminal);
  } catch (error) {
    if (!(error instanceof SuretyError)) throw error;
    terminal.err(refusalText(error));
    return EXIT_FAILED;
  }
  const what = name === undefined ? 'say which command' : `there is no ${JSON.stringify(name)}`;
  throw new UsageError(`${what}; surety admin --help lists what there is`);
}

/** A refusal for people: code, reason and sentence; then each field that breaks a rule. */
function refusalText({ code, reason, message, violations, metadata }: SuretyError): string {
  const facts = Object.entries(metadata).map(([name, value]) => `${name} ${value}`);
  const lines = [
    `surety admin: ${[code, reason].join(' ').trim()}: ${message}${facts.length > 0 ? ` (${facts.join(', ')})` : ''}`,
    ...violations.map(({ field, description }) => `  ${field}: ${description}`),
  ];
  return `${lines.map(printable).join('\n')}\n`;
}
