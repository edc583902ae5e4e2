import type {
  AddReceiptRequest,
  ProposeActionRequest,
} from '../../gen/surety/action/v1/action_service_pb.js';
import type { ActionCaller, AddReceipt, ProposeAction } from '../../ledger/action/commands.js';
import { MAX_PROPOSAL_TTL, MIN_PROPOSAL_TTL } from '../../ledger/action/limits.js';
import { payloadFault } from '../../ledger/action/payload.js';
import type { CallContext, HandlerTools } from '../handler.js';
import { Violations } from '../validate.js';
import {
  commandBase,
  MAX_SOURCE_REF_OCTETS,
  readActionId,
  readName,
  readReceipt,
  readRegistrationId,
} from './read-fields.js';

/**
 * Reads what a harness or a worker proposes, and mints the id that the action will have.
 *
 * @throws {Refused} FIELD_INVALID with every violation
 */
export function readProposal(
  tools: Pick<HandlerTools, 'newId'>,
  request: ProposeActionRequest,
  context: CallContext,
): ProposeAction {
  const v = new Violations();
  const { payload, proposalTtl } = request;
  const toolName = readName(v, 'tool_name', request.toolName);
  const fault = payloadFault(payload, toolName, 'payload');
  if (fault) v.refuse(fault.field, fault.rule);
  const command: ProposeAction = {
    ...commandBase(context),
    kind: context.kind as ActionCaller<'harness' | 'worker'>['kind'],
    registrationId: readRegistrationId(v, context, request.registrationId),
    actionId: tools.newId('act'),
    idempotencyKey: readName(v, 'idempotency_key', request.idempotencyKey),
    source: readName(v, 'source', request.source),
    sourceRef: v.id('source_ref', request.sourceRef, 0, MAX_SOURCE_REF_OCTETS),
    type: readName(v, 'type', request.type),
    toolName,
    payload: Buffer.from(payload),
    proposalTtl: v.optionalDuration('proposal_ttl', proposalTtl, MIN_PROPOSAL_TTL, MAX_PROPOSAL_TTL) ?? null,
  };
  v.throwIfAny();
  return command;
}

/** Reads a general receipt of a party. @throws {Refused} FIELD_INVALID with every violation */
export function readAddedReceipt(request: AddReceiptRequest, context: CallContext): AddReceipt {
  const v = new Violations();
  const command: AddReceipt = {
    ...commandBase(context),
    kind: context.kind as AddReceipt['kind'],
    actionId: readActionId(v, request.actionId),
    receipt: readReceipt(v, request.receipt),
  };
  v.throwIfAny();
  return command;
}
