import { STATUS_COMMAND } from './admin/admission-status.js';
import { adminHelp } from './admin/help.js';
import { READ_COMMANDS } from './admin/read-records.js';
import { sendMutation } from './admin/send-mutation.js';
import { MUTATION_COMMANDS } from './admin/subcommands.js';
import { PROCESS_TERMINAL, type Terminal } from './admin/terminal.js';
import { refusalLines } from './client/refusal-lines.js';
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
    terminal.err(`surety admin: ${refusalLines(error).join('\n')}\n`);
    return EXIT_FAILED;
  }
  const what = name === undefined ? 'say which command' : `there is no ${JSON.stringify(name)}`;
  throw new UsageError(`${what}; surety admin --help lists what there is`);
}
