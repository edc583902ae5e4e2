/** Of Node's `parseArgs`, by the codes of its errors; what it says is its own, and runs over several lines. */
const UNKNOWN_OPTION = 'ERR_PARSE_ARGS_UNKNOWN_OPTION';
const UNEXPECTED_ARGUMENT = 'ERR_PARSE_ARGS_UNEXPECTED_POSITIONAL';
const INVALID_VALUE = 'ERR_PARSE_ARGS_INVALID_OPTION_VALUE';

/**
 * One sentence for arguments that cannot be understood: the option, and its rule.
 *
 * @returns undefined where the error is not of `parseArgs`
 */
export function parseMistake(command: string, error: Error): string | undefined {
  const code = 'code' in error ? String(error.code) : '';
  if (!code.startsWith('ERR_PARSE_ARGS')) return undefined;
  const help = `surety ${command} --help lists what there is`;
  const named = /'([^']*)'/.exec(error.message)?.[1] ?? '';
  if (code === UNEXPECTED_ARGUMENT) return `does not take ${JSON.stringify(named)}; ${help}`;
  if (code === UNKNOWN_OPTION) return `there is no option ${shown(named)}; ${help}`;
  if (code !== INVALID_VALUE) return `cannot be called like this; ${help}`;
  const option = shown(/(--?[^\s,]+)(?: <value>)?$/.exec(named)?.[1] ?? named);
  if (error.message.includes('does not take')) return `${option}: takes no value`;
  return `${option}: must have a value; one that begins with a dash is given as ${option}=<value>`;
}

/** What somebody typed, as a terminal may show it. */
function shown(option: string): string {
  return /^--?[\w-]+$/.test(option) ? option : JSON.stringify(option);
}
