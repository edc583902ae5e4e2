import { create } from '@bufbuild/protobuf';
import {
  CommandHeaderSchema,
  type CommandHeader as WireHeader,
} from '../../gen/surety/authority/v1/command_pb.js';
import { parsePublicJwk } from '../../identity/jwk.js';
import { SIGNED_MESSAGES } from '../../identity/signed-messages.js';
import { type ResolveKey, verifyCommand } from '../../identity/verify-signed-message.js';
import type { CommandHeader, ExecuteCommand } from '../../ledger/authority/execute-command.js';
import type { Reader } from '../../store/reader.js';
import type { CallContext } from '../handler.js';
import { Violations } from '../validate.js';
import { readMutation } from './read-mutation.js';

const MAX_SPIFFE_ID_OCTETS = 2048;
const MAX_DOMAIN_OCTETS = 255;
export const MIN_COMMAND_ID_OCTETS = 16;
export const MAX_COMMAND_ID_OCTETS = 128;
const MAX_REASON_OCTETS = 512;
const MAX_INT64 = 2n ** 63n - 1n;

/**
 * Verifies a signed command under the caller's own registered key, and reads it (authority.md, Signed commands). Whether
 * the key is still the caller's, and everything that the command names, is compared in the transaction.
 *
 * @throws {SignedMessageError} COMMAND_SIGNATURE_INVALID, or POSSESSION_INVALID of a proof within
 * @throws {Refused} FIELD_INVALID with every violation
 */
export async function readCommand(
  reader: Pick<Reader, 'query'>,
  context: Pick<CallContext, 'caller' | 'domainId' | 'requestId'>,
  commandJws: string,
): Promise<ExecuteCommand> {
  const verified = await verifyCommand(commandJws, operatorKeys(reader, context));
  const { message, keyThumbprint, payloadDigest, token } = verified;
  const violations = new Violations(SIGNED_MESSAGES.command.field);
  const header = readHeader(violations.at('header'), message.header ?? create(CommandHeaderSchema));
  const mutation = await readMutation(violations, message.mutation, header.domainId);
  violations.throwIfAny();
  return {
    // The lane is the one of the domain that the signed header names; the call's own was read before the signature.
    domainId: header.domainId,
    commandId: context.requestId,
    caller: context.caller,
    keyThumbprint,
    payloadDigest,
    jws: token,
    header,
    mutation,
  };
}

/** The keys that the caller's own operator rows have: in the domain, and in the service's. */
function operatorKeys(
  reader: Pick<Reader, 'query'>,
  { caller, domainId }: Pick<CallContext, 'caller' | 'domainId'>,
): ResolveKey {
  return async (thumbprint) => {
    const parameters = [domainId, caller.spiffeId, thumbprint];
    const [row] = await reader.query<{ signingKeyJwk: string }>('operator_signing_key', parameters);
    return row && parsePublicJwk(row.signingKeyJwk).key;
  };
}

function readHeader(v: Violations, header: WireHeader): CommandHeader {
  return {
    audience: v.id('audience', header.audience, 1, MAX_SPIFFE_ID_OCTETS),
    incarnation: v.integer('incarnation', header.incarnation, 1n, MAX_INT64),
    domainId: v.id('domain_id', header.domainId, 1, MAX_DOMAIN_OCTETS),
    adminCommandId: v.id('command_id', header.commandId, MIN_COMMAND_ID_OCTETS, MAX_COMMAND_ID_OCTETS),
    expectedPolicyRevision: v.integer(
      'expected_policy_revision',
      header.expectedPolicyRevision,
      0n,
      MAX_INT64,
    ),
    expectedEntityRevision: v.integer(
      'expected_entity_revision',
      header.expectedEntityRevision,
      0n,
      MAX_INT64,
    ),
    reason: v.id('reason', header.reason, 1, MAX_REASON_OCTETS),
    issuedAt: v.time('issued_time', header.issuedTime),
    expiresAt: v.time('expire_time', header.expireTime),
  };
}
