import { countSafetyCall } from '../admission/admit-call.js';
import { accept, type CommandBase, type Decision } from '../decision.js';
import { sameDigest } from '../encoding.js';
import { currentReader } from '../audit/current-reader.js';
import { mergeReads } from '../reads.js';
import { refusal } from '../refusal.js';
import { Refused } from '../run-decision.js';
import { type Caller, type Digest, type Micros, SECOND } from '../types.js';
import type { Draft } from '../working-set.js';
import { type CurrentOperator, currentOperator, operatorReads } from './current-operator.js';
import { type MutationContext, requireCurrent } from './mutation-rule.js';
import { type Mutation, ruleOf } from './mutations.js';
import type { AdminCommandRow } from './records.js';

/** A signed command is good for at most so long (authority.md, Signed commands). */
export const MAX_COMMAND_VALIDITY: Micros = 300n * SECOND;
/** An operator's clock may run ahead by so much. */
export const MAX_COMMAND_AHEAD: Micros = 60n * SECOND;

/** One signed command. Its signature has been verified; all that it names is compared here. */
export interface ExecuteCommand extends CommandBase {
  readonly caller: Caller;
  /** The key under which the signature verified. */
  readonly keyThumbprint: string;
  /** SHA-256 of the signed payload. */
  readonly payloadDigest: Digest;
  /** The token, kept so that it verifies years later. */
  readonly jws: Buffer;
  readonly header: CommandHeader;
  readonly mutation: Mutation;
}

/** What stands in front of each mutation. */
export interface CommandHeader {
  readonly audience: string;
  readonly incarnation: bigint;
  readonly domainId: string;
  /** Chosen by the operator. */
  readonly adminCommandId: string;
  /** The domain's, which the command rests on. */
  readonly expectedPolicyRevision: bigint;
  /** The record's, which the command rests on; 0: it must not exist. */
  readonly expectedEntityRevision: bigint;
  readonly reason: string;
  readonly issuedAt: Micros;
  readonly expiresAt: Micros;
}

/** What a command did; kept, and answered again to an exact repeat. */
export interface ExecutedCommand {
  readonly row: AdminCommandRow;
  readonly duplicate: boolean;
}

/**
 * `AdminService.ExecuteCommand`: who signs, for whom, whether it was done before, whether it is still good, and only then
 * the mutation. Intent, mutation, completion and the record of the command commit together.
 */
export const executeCommand: Decision<ExecuteCommand, ExecutedCommand> = {
  kind: 'execute_command',
  exclusive: true,
  reads: (command) =>
    mergeReads([
      operatorReads(command.caller.spiffeId),
      { adminCommands: [command.header.adminCommandId] },
      ruleOf(command.mutation).reads(command.mutation, command.domainId),
    ]),
  decide: (draft, command) => {
    const { caller, header, payloadDigest } = command;
    // Before the key is judged: the command may be the very one that replaced it.
    const own = ownCommand(draft, caller, header.adminCommandId, payloadDigest);
    if (own && isAddressed(draft, header)) return accept({ row: own, duplicate: true });
    const operator = requireSigner(draft, command);
    requireAddress(draft, command.header);
    const stored = draft.get('admin_commands', command.header.adminCommandId);
    if (stored) return accept({ row: requireSameCommand(stored, command), duplicate: true });
    requireTimely(draft, command.header);
    requireCurrent(
      command.header.expectedPolicyRevision,
      draft.domain.policyRevision,
      "The policy revision is not the domain's current one.",
    );
    countSafetyCall(draft, undefined);
    return accept({ row: execute(draft, command, operator), duplicate: false });
  },
};

/**
 * A command that the caller itself signed and sent before, with this payload; undefined also where it is no operator of the
 * domain any more. Says nothing but that it was done, whatever key the caller has by now. Needs the reads of
 * {@link operatorReads} and `adminCommands`.
 */
export function ownCommand(
  draft: Draft,
  caller: Caller,
  adminCommandId: string,
  payloadDigest: Digest,
): AdminCommandRow | undefined {
  const stored = draft.get('admin_commands', adminCommandId);
  if (stored?.signerSpiffeId !== caller.spiffeId) return undefined;
  if (!sameDigest(stored.payloadDigest, payloadDigest)) return undefined;
  return 'operator' in currentReader(draft, caller, ['operator']) ? stored : undefined;
}

/** The signer, with a role that covers the mutation; a domain that is suspended is administered from above only. */
function requireSigner(draft: Draft, command: ExecuteCommand): CurrentOperator {
  const { roles } = ruleOf(command.mutation);
  const result = currentOperator(draft, command.caller, command.keyThumbprint, roles);
  if ('refused' in result) throw new Refused(result.refused);
  const { operator } = result;
  if (draft.domain.status !== 'active' && !operator.platform) {
    throw new Refused(refusal('DOMAIN_INACTIVE', 'The domain is not active.'));
  }
  return operator;
}

/** Which field says that the command is not meant for this service, this store or this domain. */
function foreignField(draft: Draft, header: CommandHeader): string | undefined {
  return header.audience !== draft.facts.audience
    ? 'audience'
    : header.incarnation !== draft.facts.incarnation
      ? 'incarnation'
      : header.domainId !== draft.domainId
        ? 'domain_id'
        : undefined;
}

function isAddressed(draft: Draft, header: CommandHeader): boolean {
  return foreignField(draft, header) === undefined;
}

/** @throws {Refused} COMMAND_SIGNATURE_INVALID with the rule */
function requireAddress(draft: Draft, header: CommandHeader): void {
  const rule = foreignField(draft, header);
  if (rule === undefined) return;
  const message = 'The command is meant for another service, store or domain.';
  throw new Refused(refusal('COMMAND_SIGNATURE_INVALID', message, { metadata: { rule } }));
}

/** A command id stands for one payload. An exact repeat is answered also when the command has expired by now. */
function requireSameCommand(stored: AdminCommandRow, command: ExecuteCommand): AdminCommandRow {
  if (sameDigest(stored.payloadDigest, command.payloadDigest)) return stored;
  throw new Refused(refusal('COMMAND_REPLAYED', 'The command id is spent on another command.'));
}

function requireTimely(draft: Draft, header: CommandHeader): void {
  const { issuedAt, expiresAt } = header;
  const timely =
    expiresAt > draft.now &&
    expiresAt - issuedAt <= MAX_COMMAND_VALIDITY &&
    issuedAt - draft.now <= MAX_COMMAND_AHEAD;
  if (timely) return;
  throw new Refused(
    refusal('COMMAND_EXPIRED', 'The command is outside of its validity, or that is too long.'),
  );
}

/** Intent and completion are two entries of one transaction; what the mutation appends itself stands between them. */
function execute(draft: Draft, command: ExecuteCommand, operator: CurrentOperator): AdminCommandRow {
  const { caller, header, mutation, payloadDigest } = command;
  const by = { actorSpiffeId: caller.spiffeId, commandId: command.commandId };
  const intent = draft.append({
    kind: 'command_intent',
    ...by,
    command: {
      adminCommandId: header.adminCommandId,
      operation: mutation.kind,
      payloadDigest,
      expectedPolicyRevision: header.expectedPolicyRevision,
      expectedEntityRevision: header.expectedEntityRevision,
      keyThumbprint: command.keyThumbprint,
    },
  });
  const changed = ruleOf(mutation).apply(draft, mutation, mutationContext(command, operator));
  const completion = draft.append({
    kind: 'command',
    ...by,
    record: { ...changed, operation: mutation.kind, digest: payloadDigest },
    intentSeq: intent.seq,
  });
  const row: AdminCommandRow = {
    adminCommandId: header.adminCommandId,
    payloadDigest,
    signerSpiffeId: caller.spiffeId,
    executedAt: draft.now,
    auditSeq: completion.seq,
    entityRevision: changed.revision,
    policyRevision: draft.domain.policyRevision,
    revocationEpoch: draft.domain.revocationEpoch,
    jws: command.jws,
  };
  draft.put('admin_commands', row);
  return row;
}

function mutationContext(command: ExecuteCommand, operator: CurrentOperator): MutationContext {
  const { caller, commandId, header, payloadDigest } = command;
  const { reason, expectedEntityRevision } = header;
  return { caller, operator, commandId, payloadDigest, reason, expectedEntityRevision };
}
