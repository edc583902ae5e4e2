import { fromBinary } from '@bufbuild/protobuf';
import { AdminCommandSchema, type CommandHeader } from '../../gen/surety/authority/v1/command_pb.js';
import { decodeBase64url } from '../../identity/base64url.js';
import { SignedMessageError } from '../../identity/signed-message-error.js';
import { ownCommand } from '../../ledger/authority/execute-command.js';
import type { AdminCommandRow } from '../../ledger/authority/records.js';
import { sha256 } from '../../ledger/encoding.js';
import { checkIdText } from '../../ledger/text.js';
import { Draft } from '../../ledger/working-set.js';
import type { Reader } from '../../store/reader.js';
import type { CallContext } from '../handler.js';
import { MAX_COMMAND_ID_OCTETS, MIN_COMMAND_ID_OCTETS } from './read-command.js';

/**
 * The command whose token this is, where its key is the caller's no more: it may be the very command that replaced the key,
 * and its answer was lost. Nobody can verify it now, so it counts only byte for byte as it verified and was done then, and
 * for the caller who sent it, an operator still.
 *
 * @param refused what the command was refused for
 * @returns undefined where the refusal stands
 */
export async function repeatedCommand(
  reader: Pick<Reader, 'gather'>,
  { caller, domainId }: Pick<CallContext, 'caller' | 'domainId'>,
  commandJws: string,
  refused: unknown,
): Promise<AdminCommandRow | undefined> {
  if (!(refused instanceof SignedMessageError) || refused.rule !== 'key') return undefined;
  const payload = decodeBase64url(commandJws.split('.', 3)[1] ?? '');
  const header = payload && headerOf(payload);
  if (!header || header.domainId !== domainId) return undefined;
  const { commandId } = header;
  if (checkIdText(commandId, MIN_COMMAND_ID_OCTETS, MAX_COMMAND_ID_OCTETS) !== undefined) return undefined;
  const ids = [caller.spiffeId];
  const set = await reader.gather(domainId, {
    operators: ids,
    platformOperators: ids,
    adminCommands: [commandId],
  });
  if (!set || header.incarnation !== set.facts.incarnation) return undefined;
  const row = ownCommand(new Draft(set), caller, commandId, sha256(payload));
  return row?.jws.equals(Buffer.from(commandJws, 'latin1')) ? row : undefined;
}

/** A selector: what it finds is compared as a whole. */
function headerOf(payload: Buffer): CommandHeader | undefined {
  try {
    return fromBinary(AdminCommandSchema, payload, { readUnknownFields: false }).header;
  } catch {
    return undefined;
  }
}
