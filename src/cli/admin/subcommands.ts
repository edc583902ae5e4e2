import {
  create,
  type DescField,
  type DescMessage,
  fromJson,
  type JsonValue,
  type Message,
} from '@bufbuild/protobuf';
import { isFieldError } from '@bufbuild/protobuf/reflect';
import { type AdminCommand, AdminCommandSchema } from '../../gen/surety/authority/v1/command_pb.js';
import { CertificateBinding, RecordStatus } from '../../gen/surety/identity/v1/workload_pb.js';
import type { Fields } from '../client/message-fields.js';
import { MUTATION_KINDS, type MutationCase, type MutationKind } from '../client/mutation-kinds.js';
import { UsageError } from '../failure.js';
import { type FieldFlag, type FlagValues, fieldFlags, fillMessage } from './field-flags.js';

/** A subcommand that sends a mutation. */
export interface MutationCommand {
  readonly name: string;
  readonly summary: string;
  readonly case: MutationCase;
  readonly kind: MutationKind;
  /** The mutation's message. */
  readonly schema: DescMessage;
  /** The message whose fields the options are: the record within the mutation, or the mutation itself. */
  readonly filled: DescMessage;
  readonly flags: readonly FieldFlag[];
  /** The option that may also stand without its name, as the first argument. */
  readonly key: FieldFlag | undefined;
  /** Fields of the mutation that the subcommand itself says. */
  readonly fixed: Fields;
}

/** Fields of records that the service sets; in a command they are not looked at. */
const SERVICE_FIELDS: ReadonlySet<string> = new Set([
  ...['revision', 'policy_revision', 'credential_epoch', 'revoke_time', 'uses', 'frozen', 'freeze_reason'],
]);

/** Mutations that are two subcommands, for what people call them. */
const SPLIT: Readonly<Partial<Record<MutationCase, readonly (readonly [string, string, Fields])[]>>> = {
  setFreeze: [
    ['freeze', 'stops all that would begin, in the domain or in one sink of it', { frozen: true }],
    ['unfreeze', 'lets it begin again', { frozen: false }],
  ],
};

/** Of a record that is new and does not say otherwise. */
const DEFAULTS: Fields = { status: RecordStatus.ACTIVE, binding: CertificateBinding.SPIFFE_ID };

/** Every subcommand that sends a mutation, in the order of the contract. */
export const MUTATION_COMMANDS: readonly MutationCommand[] = AdminCommandSchema.fields
  .filter((field) => field.oneof?.name === 'mutation')
  .flatMap(commandsOf);

function commandsOf(field: DescField): MutationCommand[] {
  const schema = field.message as DescMessage;
  const mutation = field.localName as MutationCase;
  const kind = MUTATION_KINDS[mutation];
  const record = schema.fields.find(({ localName }) => localName === kind.record);
  const filled = record?.message ?? schema;
  const omitted = kind.creates ? new Set([...SERVICE_FIELDS, 'status']) : SERVICE_FIELDS;
  const flags = fieldFlags(filled, omitted);
  const key = flags[0]?.boolean === false && !flags[0].field.enum ? flags[0] : undefined;
  const names = SPLIT[mutation] ?? [[field.name.replaceAll('_', '-'), kind.summary, {}] as const];
  return names.map(([name, summary, fixed]) => ({
    ...{ name, summary, case: mutation, kind, schema, filled, flags, key, fixed },
  }));
}

/** What an operator gives of a mutation: its protobuf JSON, or its fields one by one. */
export type GivenMutation =
  | { readonly json: string }
  | { readonly flags: FlagValues; readonly nowMs: number };

/**
 * The mutation that a subcommand sends.
 *
 * @param before the record as it stands: a field that is not given stays as it is. With JSON, the whole is given.
 * @throws {UsageError}
 */
export function buildMutation(
  command: MutationCommand,
  given: GivenMutation,
  before?: Message,
): AdminCommand['mutation'] {
  const value = 'json' in given ? ofJson(command, given.json) : ofFlags(command, given, before);
  Object.assign(value, command.fixed);
  return { case: command.case, value } as unknown as AdminCommand['mutation'];
}

function ofJson({ schema, name }: MutationCommand, json: string): Message {
  let value: JsonValue;
  try {
    value = JSON.parse(json);
  } catch {
    throw new UsageError('--json: must be JSON, or a file that holds some');
  }
  try {
    return fromJson(schema, value);
  } catch (error) {
    throw new UsageError(`--json: must be a ${schema.name} (${name}) in protobuf JSON${jsonMistake(error)}`);
  }
}

/** Which field it is, where the library knows; its words are for nobody. */
function jsonMistake(error: unknown): string {
  const { cause, message } = error as Error;
  const unknown = /: key ("[^"]*") is unknown$/.exec(message)?.[1];
  if (unknown !== undefined) return `; there is no field ${unknown}`;
  return isFieldError(cause) ? `; its ${cause.field().name} is not one` : '';
}

function ofFlags(
  { schema, filled, flags, kind }: MutationCommand,
  { flags: given, nowMs }: { readonly flags: FlagValues; readonly nowMs: number },
  before: Message | undefined,
): Message {
  const message = fillMessage(filled, flags, given, { before: kind.creates ? undefined : before, nowMs });
  if (kind.record === undefined) return message;
  if (before === undefined || kind.creates) fillDefaults(message, flags);
  return create(schema, { [kind.record]: message });
}

function fillDefaults(message: Record<string, unknown>, flags: readonly FieldFlag[]): void {
  for (const { field } of flags) {
    const value = DEFAULTS[field.localName];
    if (value !== undefined && message[field.localName] === 0) message[field.localName] = value;
  }
}
