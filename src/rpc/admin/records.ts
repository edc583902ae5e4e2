import type { DescMessage, MessageInitShape } from '@bufbuild/protobuf';
import {
  ActionConditionSchema,
  CredentialSchema,
  EntitlementSchema,
  GateShapeSchema,
  GrantSchema,
  GuestSchema,
  HarnessSchema,
  OperatorSchema,
  OwnerSchema,
  PrincipalSchema,
  SinkSchema,
  ToolSchema,
} from '../../gen/surety/authority/v1/records_pb.js';
import type { ActionConditionRow, GateShapeRow, ToolRow } from '../../ledger/action/gate-records.js';
import { notVisible } from '../../ledger/audit/current-reader.js';
import type {
  CredentialRow,
  EntitlementRow,
  GrantRow,
  GuestRow,
  HarnessRow,
  OperatorRow,
  OwnerRow,
  PrincipalRow,
  SinkRow,
} from '../../ledger/authority/records.js';
import { Refused } from '../../ledger/run-decision.js';
import type { CallContext, HandlerTools } from '../handler.js';
import { type Page, type RecordList, readPage } from '../paged-list.js';
import { requireReader } from '../reader-access.js';
import { Violations } from '../validate.js';
import { wireActionCondition, wireGateShape, wireTool } from './wire-gate-records.js';
import {
  wireCredential,
  wireEntitlement,
  wireGrant,
  wireGuest,
  wireHarness,
  wireOperator,
  wireOwner,
  wirePrincipal,
  wireSink,
} from './wire-records.js';

/** SPIFFE IDs are the longest keys. */
const MAX_KEY_OCTETS = 2048;

/** How records of one kind are read. */
interface RecordKind<Row, Desc extends DescMessage> {
  /** The statement for one. */
  readonly one: string;
  /** The field of a request that names one. */
  readonly field: string;
  readonly wire: (row: Row) => MessageInitShape<Desc>;
  readonly list: RecordList<Row, Desc>;
}

function kind<Row, Desc extends DescMessage>(
  [one, page, field]: readonly [one: string, page: string, field: string],
  schema: Desc,
  key: (row: Row) => string,
  wire: (row: Row) => MessageInitShape<Desc>,
): RecordKind<Row, Desc> {
  const list = { name: `${page}_page`, key, schema, wire: (rows: readonly Row[]) => rows.map(wire) };
  return { one: `${one}_by_key`, field, wire, list };
}

export const PRINCIPALS = kind(
  ['principal', 'principals', 'principal_id'],
  PrincipalSchema,
  (row: PrincipalRow) => row.principalId,
  wirePrincipal,
);
export const GUESTS = kind(
  ['guest', 'guests', 'guest_id'],
  GuestSchema,
  (row: GuestRow) => row.guestId,
  wireGuest,
);
export const HARNESSES = kind(
  ['harness', 'harnesses', 'harness_id'],
  HarnessSchema,
  (row: HarnessRow) => row.harnessId,
  wireHarness,
);
export const CREDENTIALS = kind(
  ['credential', 'credentials', 'credential_id'],
  CredentialSchema,
  (row: CredentialRow) => row.credentialId,
  wireCredential,
);
export const ENTITLEMENTS = kind(
  ['entitlement', 'entitlements', 'entitlement_id'],
  EntitlementSchema,
  (row: EntitlementRow) => row.entitlementId,
  wireEntitlement,
);
export const GRANTS = kind(
  ['grant', 'grants', 'grant_id'],
  GrantSchema,
  (row: GrantRow) => row.grantId,
  wireGrant,
);
export const OPERATORS = kind(
  ['operator', 'operators', 'spiffe_id'],
  OperatorSchema,
  (row: OperatorRow) => row.spiffeId,
  wireOperator,
);
export const OWNERS = kind(
  ['owner', 'owners', 'spiffe_id'],
  OwnerSchema,
  (row: OwnerRow) => row.spiffeId,
  wireOwner,
);
export const GATE_SHAPES = kind(
  ['gate_shape', 'gate_shapes', 'gate_shape_id'],
  GateShapeSchema,
  (row: GateShapeRow) => row.gateShapeId,
  wireGateShape,
);
export const ACTION_CONDITIONS = kind(
  ['action_condition', 'action_conditions', 'action_type'],
  ActionConditionSchema,
  (row: ActionConditionRow) => row.actionType,
  wireActionCondition,
);
export const SINKS = kind(['sink', 'sinks', 'sink'], SinkSchema, (row: SinkRow) => row.sink, wireSink);
export const TOOLS = kind(
  ['tool', 'tools', 'tool_name'],
  ToolSchema,
  (row: ToolRow) => row.toolName,
  wireTool,
);

/**
 * One record of the domain that the call acts in.
 *
 * @throws {Refused} NOT_VISIBLE where it is absent or the caller is no operator of the domain; FIELD_INVALID
 */
export async function getRecord<Row extends object, Desc extends DescMessage>(
  tools: HandlerTools,
  context: CallContext,
  { one, field, wire }: RecordKind<Row, Desc>,
  key: string,
): Promise<MessageInitShape<Desc>> {
  const violations = new Violations();
  violations.id(field, key, 1, MAX_KEY_OCTETS);
  violations.throwIfAny();
  await requireReader(tools, context, context.domainId, ['operator']);
  const [row] = await tools.reader.query<Row>(one, [context.domainId, key]);
  if (!row) throw new Refused(notVisible());
  return wire(row);
}

/**
 * A page of the records of the domain that the call acts in, by their keys.
 *
 * @throws {Refused} as `getRecord`
 */
export async function listRecords<Row extends object, Desc extends DescMessage>(
  tools: HandlerTools,
  context: CallContext,
  { list }: RecordKind<Row, Desc>,
  request: { readonly pageSize: number; readonly pageToken: string },
): Promise<Page<Desc>> {
  await requireReader(tools, context, context.domainId, ['operator']);
  return readPage(tools.reader, list, context.domainId, request);
}
