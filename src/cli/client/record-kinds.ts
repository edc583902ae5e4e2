import type { DescField, DescMessage, DescMethodUnary, DescService, Message } from '@bufbuild/protobuf';
import { AdminService } from '../../gen/surety/authority/v1/admin_service_pb.js';
import type { WorkloadRegistration } from '../../gen/surety/identity/v1/workload_pb.js';
import { WorkloadService } from '../../gen/surety/identity/v1/workload_service_pb.js';
import type { Channel } from './service-client.js';
import { SuretyError } from './surety-error.js';
import type { Fields } from './message-fields.js';

/** How records of one kind are read: their Get and List, as the contract has them. */
export interface RecordKind {
  readonly service: DescService;
  readonly get: DescMethodUnary;
  readonly list: DescMethodUnary;
  readonly schema: DescMessage;
  /** The field of Get's request that names one; the domain itself where there is no other. */
  readonly key: DescField;
  /** What the table of a list shows, by the paths of `flatFields`. */
  readonly columns: readonly string[];
}

function kind(service: DescService, one: string, many: string, columns: readonly string[]): RecordKind {
  const get = method(service, `get${one}`);
  const schema = get.output.fields[0]?.message;
  const key = get.input.fields.find(({ name }) => name !== 'domain_id') ?? get.input.fields[0];
  if (!schema || !key) throw new TypeError(`Get${one} is not as it should be`);
  return { service, get, list: method(service, `list${many}`), schema, key, columns };
}

function method(service: DescService, localName: string): DescMethodUnary {
  const found = service.method[localName];
  if (found?.methodKind !== 'unary') throw new TypeError(`${service.name} has no ${localName}`);
  return found as DescMethodUnary;
}

/** Every kind of record, by the name that commands use. */
export const RECORD_KINDS = {
  domain: kind(AdminService, 'Domain', 'Domains', [
    ...['domain_id', 'status', 'policy_revision', 'revocation_epoch', 'frozen'],
    ...['allow_standing_registrations', 'revision'],
  ]),
  sink: kind(AdminService, 'Sink', 'Sinks', [
    ...['sink', 'authority_systems', 'send_window', 'settle_time', 'frozen', 'revision'],
  ]),
  principal: kind(AdminService, 'Principal', 'Principals', ['principal_id', 'status', 'revision']),
  guest: kind(AdminService, 'Guest', 'Guests', ['guest_id', 'status', 'expire_time', 'revision']),
  harness: kind(AdminService, 'Harness', 'Harnesses', [
    ...[
      'harness_id',
      'principal_id',
      'guest_id',
      'binding_assurance',
      'credential_epoch',
      'status',
      'revision',
    ],
  ]),
  credential: kind(AdminService, 'Credential', 'Credentials', [
    ...['credential_id', 'harness_id', 'credential_epoch', 'spiffe_id', 'binding', 'expire_time', 'status'],
    'revision',
  ]),
  entitlement: kind(AdminService, 'Entitlement', 'Entitlements', [
    ...[
      'entitlement_id',
      'principal_id',
      'action',
      'resource',
      'policy_revision',
      'expire_time',
      'revoke_time',
    ],
    'revision',
  ]),
  grant: kind(AdminService, 'Grant', 'Grants', [
    ...['grant_id', 'principal_id', 'guest_id', 'harness_id', 'actions', 'resources', 'uses', 'max_uses'],
    ...['expire_time', 'revoke_time', 'revision'],
  ]),
  operator: kind(AdminService, 'Operator', 'Operators', [
    ...['spiffe_id', 'roles', 'scope_domain_id', 'status', 'signing_key_jwk', 'revision'],
  ]),
  owner: kind(AdminService, 'Owner', 'Owners', [
    ...['spiffe_id', 'source_scopes', 'type_scopes', 'status', 'signing_key_jwk', 'revision'],
  ]),
  gateShape: kind(AdminService, 'GateShape', 'GateShapes', [
    ...['gate_shape_id', 'fields', 'status', 'revision'],
  ]),
  actionCondition: kind(AdminService, 'ActionCondition', 'ActionConditions', [
    ...['action_type', 'expression', 'status', 'revision'],
  ]),
  tool: kind(AdminService, 'Tool', 'Tools', ['tool_name', 'non_grantable', 'status', 'revision']),
  workload: kind(WorkloadService, 'Workload', 'Workloads', [
    ...['spec.registration_id', 'spec.workload_id', 'spec.role', 'spec.spiffe_id', 'spec.sinks'],
    ...['spec.credential_epoch', 'spec.expire_time', 'status'],
  ]),
} as const satisfies Record<string, RecordKind>;

export type RecordName = keyof typeof RECORD_KINDS;

/** A record that a command changes. */
export interface Target {
  readonly kind: RecordName;
  readonly id: string;
}

/** A record as it stands. */
export interface CurrentRecord {
  readonly schema: DescMessage;
  readonly message: Message;
  /** What a command that rests on it names as the expected entity revision; a workload's is its credential epoch. */
  readonly revision: bigint;
}

/** The message that a target is. */
export function schemaOf({ kind }: Target): DescMessage {
  return RECORD_KINDS[kind].schema;
}

/**
 * Reads a record as it stands.
 *
 * @returns undefined where it is not there; the caller may also not be one who sees it
 * @throws SuretyError
 */
export async function readRecord(
  channel: Channel,
  domainId: string,
  target: Target,
): Promise<CurrentRecord | undefined> {
  const schema = schemaOf(target);
  const message = await getRecord(channel, RECORD_KINDS[target.kind], domainId, target.id);
  return message && { schema, message, revision: revisionOf(message) };
}

function revisionOf(message: Message): bigint {
  const { spec, revision } = message as unknown as Partial<WorkloadRegistration> & { revision?: bigint };
  return spec?.credentialEpoch ?? revision ?? 0n;
}

/** One record by its Get. @returns undefined where it is NOT_VISIBLE */
export async function getRecord(
  channel: Channel,
  { service, get, key }: RecordKind,
  domainId: string,
  id: string,
): Promise<Message | undefined> {
  try {
    const answer = await call(channel, service, get, { domainId, [key.localName]: id });
    return answer[get.output.fields[0]?.localName ?? ''] as Message | undefined;
  } catch (error) {
    if (error instanceof SuretyError && error.reason === 'NOT_VISIBLE') return undefined;
    throw error;
  }
}

/** Calls a method that is known by its descriptor alone. @throws SuretyError */
export async function call(
  channel: Channel,
  service: DescService,
  { localName }: DescMethodUnary,
  request: Fields,
): Promise<Message & Fields> {
  const client = channel.service(service) as unknown as Record<
    string,
    (request: Fields) => Promise<Message & Fields>
  >;
  const unary = client[localName];
  if (!unary) throw new TypeError(`${service.name} has no ${localName}`);
  return unary(request);
}
