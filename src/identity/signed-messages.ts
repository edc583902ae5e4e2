import type { DescMessage } from '@bufbuild/protobuf';
import { BoundedGrantStatementSchema } from '../gen/surety/action/v1/bounded_grant_pb.js';
import { AdminCommandSchema } from '../gen/surety/authority/v1/command_pb.js';
import { TransitionStatementSchema } from '../gen/surety/effect/v1/proof_pb.js';
import { PossessionStatementSchema } from '../gen/surety/identity/v1/workload_pb.js';
import { ClearanceStatementSchema } from '../gen/surety/provenance/v1/clearance_pb.js';
import { MAX_EVIDENCE_BYTES } from '../ledger/action/limits.js';
import type { SignedMessageReason } from './signed-message-error.js';

/** What a signature is over, and how it must look. */
export interface SignedForm {
  /** `typ` of the protected header: what keeps a signature from being used for another purpose. */
  readonly typ: string;
  /** `cty` of the protected header; names the message. */
  readonly cty: string;
  /** Greatest length of the payload, in bytes. */
  readonly maxPayloadBytes: number;
  /** The reason when signature, header or encoding are refused. */
  readonly reason: SignedMessageReason;
  /** Where it stands in a request, the beginning of every field path. */
  readonly field: string;
}

/** One row of {@link SIGNED_MESSAGES}. */
export interface SignedMessageType<Schema extends DescMessage = DescMessage> extends SignedForm {
  /** The payload's message. */
  readonly schema: Schema;
  /** The payload type of its DSSE envelope, where that encoding is accepted. */
  readonly dssePayloadType?: string;
}

// Every text of a statement at its longest is below 6 KiB.
const MAX_TRANSITION_BYTES = 8 * 1024;
// A registration with 64 sinks of 256 octets each and a key is below 24 KiB.
const MAX_POSSESSION_BYTES = 32 * 1024;
// The longest command makes a grant with five full sets: 64 names of 256 or 512 octets each. Base64url makes it a third
// longer, still below the 1 MiB of a request.
const MAX_COMMAND_BYTES = 256 * 1024;
// 64 sinks of 256 octets, 64 digests and three ids of 2048 octets are below 26 KiB.
const MAX_CLEARANCE_BYTES = 32 * 1024;
// Three sets of 64 names of 256 octets each are below 50 KiB.
const MAX_BOUNDED_GRANT_BYTES = 64 * 1024;

function contentType(schema: DescMessage): string {
  return `application/x-protobuf; messageType="${schema.typeName}"`;
}

function defineMessage<Schema extends DescMessage>(
  type: Omit<SignedMessageType<Schema>, 'cty'>,
): SignedMessageType<Schema> {
  return Object.freeze({ ...type, cty: contentType(type.schema) });
}

/**
 * Everything that anybody signs for the service (identity.md, Transition proof: "One table lists typ, cty and message of
 * every signed thing"). No two rows share a `typ`.
 */
export const SIGNED_MESSAGES = Object.freeze({
  /** A workload, for one transition of an effect. */
  transition: defineMessage({
    typ: 'surety-transition+jws',
    schema: TransitionStatementSchema,
    maxPayloadBytes: MAX_TRANSITION_BYTES,
    reason: 'PROOF_SIGNATURE_INVALID',
    field: 'proof',
    dssePayloadType: 'application/vnd.surety.effect.v1.transition+protobuf',
  }),
  /** The holder of a new proof key, over the whole registration. */
  possession: defineMessage({
    typ: 'surety-possession+jws',
    schema: PossessionStatementSchema,
    maxPayloadBytes: MAX_POSSESSION_BYTES,
    reason: 'POSSESSION_INVALID',
    field: 'possession_jws',
  }),
  /** The holder of a registration's current key, over the same payload as the possession of the new one. */
  renewal: defineMessage({
    typ: 'surety-renewal+jws',
    schema: PossessionStatementSchema,
    maxPayloadBytes: MAX_POSSESSION_BYTES,
    reason: 'PROOF_SIGNATURE_INVALID',
    field: 'authorization_jws',
  }),
  /** An operator, for one administrative mutation (authority.md, Signed commands). */
  command: defineMessage({
    typ: 'surety-command+jws',
    schema: AdminCommandSchema,
    maxPayloadBytes: MAX_COMMAND_BYTES,
    reason: 'COMMAND_SIGNATURE_INVALID',
    field: 'command_jws',
  }),
  /** An owner or operator, for the clearance of one derivation (provenance-audit-replay.md, Provenance). */
  clearance: defineMessage({
    typ: 'surety-clearance+jws',
    schema: ClearanceStatementSchema,
    maxPayloadBytes: MAX_CLEARANCE_BYTES,
    reason: 'CLEARANCE_INVALID',
    field: 'clearance_jws',
  }),
  /** An owner, for actions that it approves in advance (actions.md, Bounded grant). */
  boundedGrant: defineMessage({
    typ: 'surety-bounded-grant+jws',
    schema: BoundedGrantStatementSchema,
    maxPayloadBytes: MAX_BOUNDED_GRANT_BYTES,
    reason: 'APPROVAL_SIGNATURE_INVALID',
    field: 'grant_jws',
  }),
});

/**
 * The one signed thing whose payload is no message of ours: an owner, over the exact evidence of its approval or refusal
 * (actions.md, Owner's signature). It belongs to the same list: its `typ` is none of the others'.
 */
export const SIGNED_EVIDENCE: SignedForm = Object.freeze({
  typ: 'surety-approval+jws',
  cty: 'application/json',
  maxPayloadBytes: MAX_EVIDENCE_BYTES,
  reason: 'APPROVAL_SIGNATURE_INVALID',
  field: 'signature_jws',
});

export type SignedMessageKind = keyof typeof SIGNED_MESSAGES;
export type SchemaOf<K extends SignedMessageKind> = (typeof SIGNED_MESSAGES)[K]['schema'];
