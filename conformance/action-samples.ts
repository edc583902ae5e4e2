import type { MessageInitShape } from '@bufbuild/protobuf';
import type { GateRequest } from '../src/cli/client/owner-session.js';
import type { Held } from '../src/cli/client/worker-session.js';
import { digest } from '../src/cli/client/workload-session.js';
import type { Action } from '../src/gen/surety/action/v1/action_pb.js';
import type {
  BeginDispatchRequestSchema,
  ProposeActionRequestSchema,
} from '../src/gen/surety/action/v1/action_service_pb.js';
import type { SigningKey } from '../src/identity/sign.js';

/** A lease, an approval or a window that a case does not want to see end, in milliseconds. */
export const LONG_MS = 600_000;
/** One that a case wants to see end: longer than a slow machine takes for the few calls in between. */
export const SHORT_MS = 60_000;
/** Moves the clock behind {@link SHORT_MS}. */
export const PAST_SHORT_MS = SHORT_MS + 1_000;

export const TYPE = 'mail.reply';
/** A tool of the catalogue that a bounded grant may cover. */
export const TOOL = 'mail.send';
/** One that is marked as non-grantable. */
export const MARKED_TOOL = 'funds.wire';
/** One that no catalogue has. */
export const UNKNOWN_TOOL = 'never.listed';
/** SHA-256 of the exact request that a worker would be about to send. */
export const EXECUTION = digest('POST /messages');

/** The fields of an approval of a message's delivery, the first of the built-in shapes. */
export const DELIVERY = {
  channel: 'mail',
  thread: 'thread-7',
  event: 'event-7',
  event_key: 'event-key-7',
  delivery: 'delivery-1',
  delivery_message: 'message-1',
  binding_method: 'reply',
};

export type Proposal = Omit<MessageInitShape<typeof ProposeActionRequestSchema>, '$typeName'>;
export type DispatchRequest = Omit<MessageInitShape<typeof BeginDispatchRequestSchema>, '$typeName'>;

/** How an approval differs from a good one. */
export interface ApprovalWish {
  /** Members of the evidence that have another value; undefined takes one away. */
  readonly members?: Readonly<Record<string, unknown>>;
  /** The fields of its shape; those of {@link DELIVERY} unless given. */
  readonly fields?: Readonly<Record<string, string | number>>;
  readonly approvalId?: string;
  readonly decisionId?: string;
  readonly receiptKey?: string;
  readonly validForMs?: number;
  /** The key that signs; the owner's unless given, and none where null. */
  readonly key?: SigningKey | null;
}

export type GateOfAction = Record<'gateReceiptKey' | 'approvalId' | 'decisionId', string>;

/** Calls with what they are named by where one fails. */
export type NamedCalls = readonly (readonly [what: string, call: () => Promise<unknown>])[];

/** An action with its approval. */
export interface Gated {
  readonly action: Action;
  readonly gate: GateOfAction;
  readonly request: GateRequest;
}

/** One with a lease of a worker. */
export interface Leased extends Gated {
  readonly held: Held;
}

/** UTF-8. */
export function bytes(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(Buffer.from(text, 'utf8'));
}

/** A receipt with evidence of its own. */
export function receipt(receiptKey: string, kind = 'provider', status = 'accepted') {
  const evidence = bytes(JSON.stringify({ seen: receiptKey }));
  return { receiptKey, kind, status, externalId: `message-of-${receiptKey}`, evidence };
}

/** What a dispatch names a gate by. */
export function gateOf({ receiptKey = '', approvalId = '', decisionId = '' }: GateRequest): GateOfAction {
  return { gateReceiptKey: receiptKey, approvalId, decisionId };
}
