import { parseArgs } from 'node:util';
import { AdminService } from '../../gen/surety/authority/v1/admin_service_pb.js';
import type { AdminCommand, CommandHeader } from '../../gen/surety/authority/v1/command_pb.js';
import { WorkloadService, type WhoAmIResponse } from '../../gen/surety/identity/v1/workload_service_pb.js';
import { signCommand } from '../../identity/sign.js';
import { commandHeader } from '../client/admin-session.js';
import { EXIT_FAILED, UsageError } from '../failure.js';
import { CONNECTION_OPTIONS, type Connection, openConnection } from './connection.js';
import { executeExactly, OutcomeUnknown } from './execute-exactly.js';
import { type FlagValues, parseOptionsOf } from './field-flags.js';
import { readFile } from './field-value.js';
import type { Fields } from './flat-fields.js';
import { recordAfter } from './mutation-kinds.js';
import { type CurrentRecord, readRecord, schemaOf, type Target } from './record-kinds.js';
import { changeLines, headerLines, resultLines, targetName } from './show-command.js';
import { buildMutation, type GivenMutation, type MutationCommand } from './subcommands.js';
import type { Terminal } from './terminal.js';

const HEADER_OPTIONS = {
  reason: { type: 'string' },
  json: { type: 'string' },
  'dry-run': { type: 'boolean' },
  force: { type: 'boolean' },
} as const;

/** Names that no field's option may have. */
export const RESERVED_OPTIONS: readonly string[] = [
  ...Object.keys(CONNECTION_OPTIONS),
  ...Object.keys(HEADER_OPTIONS),
];

/** What a subcommand was told. */
interface Told {
  readonly values: FlagValues;
  /** Options of the mutation's own fields alone. */
  readonly fields: FlagValues;
  readonly reason: string;
  readonly json: string | undefined;
  readonly dryRun: boolean;
  readonly force: boolean;
}

/**
 * Reads the record, builds the command on what it finds, shows it or signs and sends it.
 *
 * @returns the exit code
 * @throws {UsageError}
 * @throws {SuretyError} where the service refuses
 */
export async function sendMutation(
  command: MutationCommand,
  args: readonly string[],
  terminal: Terminal,
): Promise<number> {
  const told = readArguments(command, args);
  const connection = openConnection(told.values);
  try {
    const prepared = await prepare(command, told, connection);
    if (told.dryRun) return show(command, prepared, terminal);
    return await send(command, prepared, connection, terminal);
  } finally {
    connection.channel.close();
  }
}

/** @throws {UsageError} */
function readArguments(command: MutationCommand, args: readonly string[]): Told {
  const { values, positionals } = parseArgs({
    args: [...args],
    options: { ...CONNECTION_OPTIONS, ...HEADER_OPTIONS, ...parseOptionsOf(command.flags) },
    allowPositionals: true,
    allowNegative: true,
  });
  const all: FlagValues = values;
  const [first, ...more] = positionals;
  const { key } = command;
  if (more.length > 0 || (first !== undefined && !key)) {
    throw new UsageError(`${command.name} does not take ${JSON.stringify(more.at(-1) ?? first)}`);
  }
  const fields: Record<string, unknown> = {};
  for (const { name } of command.flags) if (all[name] !== undefined) fields[name] = all[name];
  if (first !== undefined && key) {
    if (fields[key.name] !== undefined) throw new UsageError(`--${key.name} is given twice`);
    fields[key.name] = first;
  }
  const { reason, json, force = false } = values;
  if (json !== undefined && Object.keys(fields).length > 0) {
    throw new UsageError('--json gives the whole mutation: no field of it besides');
  }
  if (reason === undefined || reason === '') throw new UsageError('--reason must be given: why this is done');
  return { values: all, fields, reason, json, force, dryRun: values['dry-run'] ?? false };
}

/** A command that may be shown, or signed and sent. */
interface Prepared {
  readonly header: CommandHeader;
  readonly mutation: AdminCommand['mutation'];
  readonly target: Target;
  readonly before: CurrentRecord | undefined;
  readonly me: WhoAmIResponse;
}

async function prepare(command: MutationCommand, told: Told, connection: Connection): Promise<Prepared> {
  const { channel, domainId } = connection;
  const me = await channel.service(WorkloadService).whoAmI({ domainId });
  const given: GivenMutation =
    told.json === undefined
      ? { flags: told.fields, nowMs: Number(me.nowTime?.seconds ?? 0n) * 1000 }
      : { json: told.json.trimStart().startsWith('{') ? told.json : readFile('--json', told.json) };
  const named = buildMutation(command, given);
  const target = command.kind.target(named.value as unknown as Fields, domainId);
  const isNamed = target.id !== '';
  const before = isNamed ? await readRecord(channel, homeOf(target, domainId), target) : undefined;
  const mutation = buildMutation(command, given, before?.message);
  const expected = told.force
    ? {}
    : {
        expectedPolicyRevision: me.policyRevision,
        // A record that is to be made rests on nothing: 0.
        expectedEntityRevision: command.kind.creates ? 0n : (before?.revision ?? 0n),
      };
  return { header: commandHeader(me, domainId, told.reason, expected), mutation, target, before, me };
}

/** A domain is read in itself, also when the command that makes it acts in another. */
function homeOf({ kind, id }: Target, domainId: string): string {
  return kind === 'domain' ? id : domainId;
}

/** Says what it would do; sends nothing. */
function show(
  command: MutationCommand,
  { header, mutation, target, before, me }: Prepared,
  terminal: Terminal,
): number {
  const schema = schemaOf(target);
  const after = recordAfter(command.kind, schema, mutation.value as unknown as Fields, before?.message, {
    policyRevision: me.policyRevision,
    now: header.issuedTime as never,
    reason: header.reason,
  });
  const state = before === undefined ? 'is not there yet' : `is at revision ${before.revision}`;
  terminal.out(
    [
      `${command.name}, not sent:`,
      ...headerLines(header),
      '',
      `${targetName(target)} ${state}:`,
      ...(after === undefined
        ? ['  nothing to change: it is not there, or not to be seen by this operator']
        : []),
      ...(after === undefined ? [] : changeLines(schema, before?.message, after)),
      '',
    ].join('\n'),
  );
  return 0;
}

async function send(
  { name }: MutationCommand,
  { header, mutation, target }: Prepared,
  { channel, signingKey }: Connection,
  terminal: Terminal,
): Promise<number> {
  const jws = await signCommand({ header, mutation }, signingKey());
  try {
    const answer = await executeExactly(channel.service(AdminService), jws, ({ code, reason }) => {
      terminal.err(`surety admin: ${[code, reason].join(' ').trim()}: the same command is sent again\n`);
    });
    const how = answer.duplicate ? 'done, by an earlier sending of this very command (duplicate)' : 'done';
    const lines = answer.result ? resultLines(target, answer.result) : [];
    terminal.out(`${[`${name} in ${header.domainId}: ${how}`, ...lines].join('\n')}\n`);
    return 0;
  } catch (error) {
    if (!(error instanceof OutcomeUnknown)) throw error;
    terminal.err(
      `surety admin: ${error.message}; look at ${targetName(target)} and at the log before it is tried anew\n`,
    );
    return EXIT_FAILED;
  }
}
