import type {
  AddBoundedGrantRequest,
  GateActionRequest,
  RejectActionRequest,
  RevokeBoundedGrantRequest,
} from '../../gen/surety/action/v1/action_service_pb.js';
import type { BoundedGrantStatement as WireStatement } from '../../gen/surety/action/v1/bounded_grant_pb.js';
import { SIGNED_EVIDENCE, SIGNED_MESSAGES } from '../../identity/signed-messages.js';
import { verifyBoundedGrant, verifyEvidenceSignature } from '../../identity/verify-signed-message.js';
import type {
  AddBoundedGrant,
  BoundedGrantStatement,
  EvidenceSignature,
  GateAction,
  RejectAction,
  RevokeBoundedGrant,
} from '../../ledger/action/commands.js';
import type { Reader } from '../../store/reader.js';
import type { CallContext } from '../handler.js';
import { Violations } from '../validate.js';
import { ownerKeys } from './owner-keys.js';
import {
  commandBase,
  MAX_POSITION,
  readActionId,
  readEvidence,
  readName,
  readRegistrationId,
} from './read-fields.js';

const MAX_SPIFFE_ID_OCTETS = 2048;
const MAX_DOMAIN_OCTETS = 255;
/** The sets of a bounded grant. */
const MAX_SET_SIZE = 64;
const MAX_USES = 2n ** 31n - 1n;

/** What these requests are read with. */
interface ReaderTools {
  readonly reader: Pick<Reader, 'query'>;
}

/**
 * Reads an approval. Its signature, where one came, is verified here, before the lane; whose it is, and what the evidence
 * says, is judged in the transaction.
 *
 * @throws {Refused} FIELD_INVALID with every violation
 * @throws {SignedMessageError} APPROVAL_SIGNATURE_INVALID
 */
export async function readGate(
  tools: ReaderTools,
  request: GateActionRequest,
  context: CallContext,
): Promise<GateAction> {
  const v = new Violations();
  const command = {
    ...commandBase(context),
    kind: context.kind as GateAction['kind'],
    registrationId: readRegistrationId(v, context, request.registrationId),
    actionId: readActionId(v, request.actionId),
    receiptKey: readName(v, 'receipt_key', request.receiptKey),
    approvalId: readName(v, 'approval_id', request.approvalId),
    decisionId: readName(v, 'decision_id', request.decisionId),
    evidence: readEvidence(v, 'evidence', request.evidence),
  };
  v.throwIfAny();
  const { signatureJws } = request;
  const signature = signatureJws === '' ? null : await verify(tools, context, command.evidence, signatureJws);
  return { ...command, signature };
}

/**
 * Reads an owner's refusal, with its signature.
 *
 * @throws {Refused} FIELD_INVALID with every violation
 * @throws {SignedMessageError} APPROVAL_SIGNATURE_INVALID
 */
export async function readRejection(
  tools: ReaderTools,
  request: RejectActionRequest,
  context: CallContext,
): Promise<RejectAction> {
  const v = new Violations();
  const command = {
    ...commandBase(context),
    kind: 'owner' as const,
    actionId: readActionId(v, request.actionId),
    receiptKey: readName(v, 'receipt_key', request.receiptKey),
    decisionId: readName(v, 'decision_id', request.decisionId),
    evidence: readEvidence(v, 'evidence', request.evidence),
  };
  if (request.signatureJws === '') v.refuse(SIGNED_EVIDENCE.field, 'is required');
  v.throwIfAny();
  return { ...command, signature: await verify(tools, context, command.evidence, request.signatureJws) };
}

/**
 * Reads a bounded grant, whose signature is verified here. What it claims is compared in the transaction.
 *
 * @throws {Refused} FIELD_INVALID with every violation of the signed statement
 * @throws {SignedMessageError} APPROVAL_SIGNATURE_INVALID, FIELD_INVALID of the payload's encoding
 */
export async function readBoundedGrant(
  tools: ReaderTools,
  request: AddBoundedGrantRequest,
  context: CallContext,
): Promise<AddBoundedGrant> {
  const keys = ownerKeys(tools.reader, context.domainId);
  const verified = await verifyBoundedGrant(request.grantJws, keys);
  const v = new Violations(SIGNED_MESSAGES.boundedGrant.field);
  const statement = readStatement(v, verified.message);
  v.throwIfAny();
  return {
    ...commandBase(context),
    kind: 'owner',
    statement,
    statementDigest: verified.payloadDigest,
    keyThumbprint: verified.keyThumbprint,
    jws: verified.token,
  };
}

/** @throws {Refused} FIELD_INVALID */
export function readGrantRevocation(
  request: RevokeBoundedGrantRequest,
  context: CallContext,
): RevokeBoundedGrant {
  const v = new Violations();
  const boundedGrantId = readName(v, 'bounded_grant_id', request.boundedGrantId);
  v.throwIfAny();
  return { ...commandBase(context), kind: 'owner', boundedGrantId };
}

async function verify(
  { reader }: ReaderTools,
  { domainId }: CallContext,
  evidence: Buffer,
  token: string,
): Promise<EvidenceSignature> {
  const verified = await verifyEvidenceSignature(token, evidence, ownerKeys(reader, domainId));
  return { jws: verified.token, keyThumbprint: verified.keyThumbprint };
}

function readStatement(v: Violations, message: WireStatement): BoundedGrantStatement {
  const set = (field: string, values: readonly string[]) =>
    v.textSet(field, values, { min: 1, max: MAX_SET_SIZE, minOctets: 1, maxOctets: 256 });
  const statement = {
    audience: v.id('audience', message.audience, 1, MAX_SPIFFE_ID_OCTETS),
    incarnation: v.integer('incarnation', message.incarnation, 1n, MAX_POSITION),
    domainId: v.id('domain_id', message.domainId, 1, MAX_DOMAIN_OCTETS),
    boundedGrantId: readName(v, 'bounded_grant_id', message.boundedGrantId),
    ownerSpiffeId: v.id('owner_spiffe_id', message.ownerSpiffeId, 1, MAX_SPIFFE_ID_OCTETS),
    sources: set('sources', message.sources),
    types: set('types', message.types),
    tools: set('tools', message.tools),
    maxUses: v.integer('max_uses', message.maxUses, 1n, MAX_USES),
    expiresAt: v.optionalTime('expire_time', message.expireTime) ?? null,
    issuedAt: v.time('issued_time', message.issuedTime),
  };
  for (const field of ['sources', 'types', 'tools'] as const) {
    if (statement[field].includes('*')) v.refuse(field, 'must name each value: there is no wildcard');
  }
  return statement;
}
