import type { ClearanceStatement } from '../../gen/surety/provenance/v1/clearance_pb.js';
import { SignedMessageError } from '../../identity/signed-message-error.js';
import { SIGNED_MESSAGES } from '../../identity/signed-messages.js';
import { type VerifiedMessage, verifyClearance } from '../../identity/verify-signed-message.js';
import type { Clearance, ClearedTransaction } from '../../ledger/provenance/clearance.js';
import { MAX_PARENTS } from '../../ledger/provenance/derivation.js';
import { CLEARANCE_PURPOSES, DATA_CLASSES, readSinks } from '../provenance-codec.js';
import { Violations } from '../validate.js';
import type { FindKey } from './clearance-keys.js';
import { MAX_VERSION, readObject } from './read-object.js';

const MAX_SPIFFE_ID_OCTETS = 2048;
const MAX_DOMAIN_OCTETS = 255;
const MIN_RECEIPT_ID_OCTETS = 16;
const MAX_RECEIPT_ID_OCTETS = 128;

/**
 * Verifies clearance receipts, and reads them. Whose keys they are, and everything that the receipts name, is compared in
 * the transaction.
 *
 * @param findKey see `clearanceKeys`
 * @throws {SignedMessageError} CLEARANCE_INVALID, with the receipt that it is about
 * @throws {Refused} FIELD_INVALID with every violation of all receipts
 */
export async function readClearances(tokens: readonly string[], findKey: FindKey): Promise<Clearance[]> {
  const violations = new Violations();
  const clearances: Clearance[] = [];
  for (const [index, token] of tokens.entries()) {
    const field = `${SIGNED_MESSAGES.clearance.field}[${index}]`;
    const read = await verifyOne(token, findKey, field, violations.at(field));
    if (read) clearances.push(read);
  }
  violations.throwIfAny();
  return clearances;
}

/** Undefined where the payload cannot be decoded; the violations then say why. */
async function verifyOne(
  token: string,
  findKey: FindKey,
  field: string,
  violations: Violations,
): Promise<Clearance | undefined> {
  let signingKeyJwk = '';
  try {
    const verified = await verifyClearance(token, async (thumbprint) => {
      const found = await findKey(thumbprint);
      signingKeyJwk = found?.jwk ?? '';
      return found?.key;
    });
    return clearanceOf(verified, signingKeyJwk, violations);
  } catch (error) {
    if (!(error instanceof SignedMessageError)) throw error;
    if (error.reason !== 'FIELD_INVALID') throw error.at(field);
    const own = SIGNED_MESSAGES.clearance.field.length + 1;
    for (const broken of error.violations) violations.refuse(broken.field.slice(own), broken.rule);
    return undefined;
  }
}

/** Reads a receipt whose signature verified; notes what breaks a rule of form. */
export function clearanceOf(
  { message, payloadDigest, keyThumbprint, token }: VerifiedMessage<'clearance'>,
  signingKeyJwk: string,
  violations: Violations,
): Clearance {
  return {
    transaction: readTransaction(message, violations),
    purpose: violations.choice('purpose', message.purpose, CLEARANCE_PURPOSES),
    approverSpiffeId: violations.id('approver_spiffe_id', message.approverSpiffeId, 1, MAX_SPIFFE_ID_OCTETS),
    receiptId: violations.id('receipt_id', message.receiptId, MIN_RECEIPT_ID_OCTETS, MAX_RECEIPT_ID_OCTETS),
    issuedAt: violations.time('issued_time', message.issuedTime),
    expiresAt: violations.time('expire_time', message.expireTime),
    statementDigest: payloadDigest,
    keyThumbprint,
    signingKeyJwk,
    jws: token,
  };
}

/** Lists are read as they stand: what is not ascending names another transaction than any derivation is. */
function readTransaction(message: ClearanceStatement, violations: Violations): ClearedTransaction {
  const positive = (field: string, value: bigint) => violations.integer(field, value, 1n, MAX_VERSION);
  readSinks(violations, 'allowed_sinks', message.allowedSinks);
  return {
    ...readObject(violations, message),
    audience: violations.id('audience', message.audience, 1, MAX_SPIFFE_ID_OCTETS),
    incarnation: positive('incarnation', message.incarnation),
    domainId: violations.id('domain_id', message.domainId, 1, MAX_DOMAIN_OCTETS),
    version: positive('version', message.version),
    predecessorDigest: violations.optionalDigest('predecessor_digest', message.predecessorDigest) ?? null,
    contentDigest: violations.digest('content_digest', message.contentDigest),
    parentDigests: violations.list('parent_digests', message.parentDigests, 1, MAX_PARENTS, (path, digest) =>
      violations.digest(path, digest),
    ),
    stepsDigest: violations.digest('steps_digest', message.stepsDigest),
    classification: violations.choice('classification', message.classification, DATA_CLASSES),
    allowedSinks: message.allowedSinks,
    policyRevision: positive('policy_revision', message.policyRevision),
  };
}
