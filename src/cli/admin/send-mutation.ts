import { parseArgs } from 'node:util';
import { AdminService } from '../../gen/surety/authority/v1/admin_service_pb.js';
import type { AdminCommand, CommandHeader } from '../../gen/surety/authority/v1/command_pb.js';
import { type WhoAmIResponse, WorkloadService } from '../../gen/surety/identity/v1/workload_service_pb.js';
import { type SigningKey, signCommand } from '../../identity/sign.js';
import { commandHeader } from '../client/admin-session.js';
import { readBasis } from '../client/current-revisions.js';
import type { Fields } from '../client/message-fields.js';
import { recordAfter } from '../client/mutation-kinds.js';
import { type CurrentRecord, schemaOf, type Target } from '../client/record-kinds.js';
import { OutcomeUnknown } from '../client/send-exactly.js';
import type { Channel } from '../client/service-client.js';
import { SuretyError } from '../client/surety-error.js';
import { EXIT_FAILED, UsageError } from '../failure.js';
import { CONNECTION_OPTIONS, type Connection, openConnection } from './connection.js';
import { executeExactly } from './execute-exactly.js';
import { type FlagValues, parseOptionsOf } from './field-flags.js';
import { readFile } from './field-value.js';
import { breakerLines } from './show-breaker.js';
import { changeLines, headerLines, kindName, resultLines, targetName } from './show-command.js';
import { buildMutation, type GivenMutation, type MutationCommand } from './subcommands.js';
import type { Terminal } from './terminal.js';

const HEADER_OPTIONS = {
  reason: { type: 'string' },
  json: { type: 'string' },
  'dry-run': { type: 'boolean' },
  force: { type: 'boolean' },
} as const;

/** With `--force`, how often a command is built at most on a record that changes all the time. */
const MAX_BUILDS = 5;

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
    let key: SigningKey | undefined;
    for (let build = 1; ; build += 1) {
      const prepared = await prepare(command, told, connection);
      if (told.dryRun) return await show(command, prepared, connection.channel, terminal);
      try {
        key ??= connection.signingKey();
        return await send(command, prepared, connection.channel, key, terminal);
      } catch (error) {
        if (!(told.force && build < MAX_BUILDS && isStale(error))) throw error;
      }
    }
  } finally {
    connection.channel.close();
  }
}

function isStale(error: unknown): boolean {
  return error instanceof SuretyError && error.reason === 'REVISION_STALE';
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

async function prepare(
  command: MutationCommand,
  told: Told,
  { channel, domainId }: Connection,
): Promise<Prepared> {
  const { nowTime } = await channel.service(WorkloadService).whoAmI({ domainId });
  const given: GivenMutation =
    told.json === undefined
      ? { flags: told.fields, nowMs: Number(nowTime?.seconds ?? 0n) * 1000 }
      : { json: told.json.trimStart().startsWith('{') ? told.json : readFile('--json', told.json) };
  const basis = await readBasis(channel, domainId, buildMutation(command, given));
  const { me, target, before } = basis;
  if (target.id === '') throw new UsageError(`${command.name}: the ${kindName(target)} is not named`);
  const mutation = buildMutation(command, given, before?.message);
  return { header: commandHeader(me, domainId, told.reason, basis), mutation, target, before, me };
}

/** Says what it would do; sends nothing. */
async function show(
  command: MutationCommand,
  { header, mutation, target, before, me }: Prepared,
  channel: Channel,
  terminal: Terminal,
): Promise<number> {
  const schema = schemaOf(target);
  const after = recordAfter(command.kind, schema, mutation.value as unknown as Fields, before?.message, {
    policyRevision: me.policyRevision,
    now: header.issuedTime as never,
    reason: header.reason,
  });
  const beside =
    mutation.case === 'resetBreaker' ? await breakerLines(channel, header.domainId, mutation.value.sink) : [];
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
      ...beside,
    ].join('\n'),
  );
  return 0;
}

async function send(
  { name }: MutationCommand,
  { header, mutation, target }: Prepared,
  channel: Channel,
  key: SigningKey,
  terminal: Terminal,
): Promise<number> {
  const jws = await signCommand({ header, mutation }, key);
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
