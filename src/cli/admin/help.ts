import { STATUS_COMMAND } from './admission-status.js';
import type { FieldFlag } from './field-flags.js';
import { valueHint } from './field-value.js';
import { READ_COMMANDS } from './read-records.js';
import { MUTATION_COMMANDS } from './subcommands.js';
import { columns } from './terminal.js';

/** Characters of a line. */
const WIDTH = 110;

const HEAD = `surety admin <command> [<id>] --reason <text> [--dry-run] [--domain <domain>] [options]
surety admin get-<record> <id> | list-<records> | status [--json] [--domain <domain>] [options]

For operators. Each command that changes something is built on the record as it stands, signed with the
operator's key and sent over mutual TLS; a field that is not given stays as it is. If the record, or the domain's
policy revision, has changed in the meantime the service refuses it: REVISION_STALE. If the answer is lost the
very same command is sent again: it is done once.

  --domain        the domain to act in; the trust domain of the certificate unless given
  --reason        why; it is signed and kept with the command; every change has one
  --dry-run       shows the command and the record before and after; sends nothing
  --force         where the record has changed in the meantime, builds the command on what it is by then
  --json          the whole mutation as protobuf JSON: the text, a file, or - for the standard input;
                  with get, list and status: prints JSON

  --target        where the service listens; that of SURETY_LISTEN unless given
  --cert, --key   the operator's certificate and its key, PEM; those of the development operator unless given
  --roots         the bundle that the service is trusted by
  --signing-key   the key that signs commands, in PEM or as a private JWK

Times are RFC 3339, or from now: 24h. Durations are 90s, 1h30m, 7d. Names are ACTIVE, C2_RESTRICTED and the like.
Keys and proofs are files, keys as public JWKs. Options with ... are repeated, once for each value; an empty value
is an empty list. The first option of a command is its record: it may stand without its name.
`;

const PAGES = `  --page-size, --page-token, --all   one page of 100 unless told otherwise`;

/** The help of `surety admin`, every subcommand with its options, from the contract. */
export function adminHelp(): string {
  const changes = MUTATION_COMMANDS.flatMap(({ name, summary, flags }) => [
    `  ${name}: ${summary}`,
    ...wrap(flags.map(usageOf), '      '),
  ]);
  const reads = [...READ_COMMANDS, STATUS_COMMAND].map(({ name, summary, flags, argument }) => [
    name,
    [summary, ...flags.map(usageOf)].join('  ') + (argument === undefined ? '' : `: <${argument}>`),
  ]);
  return [HEAD, 'Commands:', '', ...changes, '', 'Reading:', '', ...columns(reads, '  '), '', PAGES].join(
    '\n',
  );
}

function usageOf(flag: FieldFlag): string {
  if (flag.boolean) return `--[no-]${flag.name}`;
  return `--${flag.name} <${valueHint(flag.field)}>${flag.repeated ? '...' : ''}`;
}

function wrap(words: readonly string[], indent: string): string[] {
  const lines: string[] = [];
  for (const word of words) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + word.length + 1 <= WIDTH)
      lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(`${indent}${word}`);
  }
  return lines;
}
