import { SignedMessageError } from '../identity/signed-message-error.js';
import { SIGNED_MESSAGES } from '../identity/signed-messages.js';
import { type VerifiedPossession, verifyPossession } from '../identity/verify-signed-message.js';
import type { ProvedRegistration } from '../ledger/identity/registration-fields.js';
import { readPossession } from './registration-codec.js';
import type { Violations } from './validate.js';

/**
 * Verifies a proof of possession and reads the registration that it is over. Notes the fields that break a rule; use the
 * result only behind `throwIfAny`.
 *
 * @param violations at the path of the proof
 * @throws {SignedMessageError} POSSESSION_INVALID where it does not verify
 * @throws {Refused} FIELD_INVALID where its payload cannot be read
 */
export async function readProved(
  violations: Violations,
  token: string,
): Promise<{ readonly proved: ProvedRegistration; readonly possession: VerifiedPossession }> {
  const possession = await verify(violations, token);
  return { proved: readPossession(violations, possession), possession };
}

/** What verifying notes begins with the proof's own field, which here may stand within another message. */
async function verify(violations: Violations, token: string): Promise<VerifiedPossession> {
  try {
    return await verifyPossession(token);
  } catch (error) {
    if (!(error instanceof SignedMessageError) || error.reason !== 'FIELD_INVALID') throw error;
    const own = SIGNED_MESSAGES.possession.field.length + 1;
    for (const { field, rule } of error.violations) violations.refuse(field.slice(own), rule);
    throw violations.refusal();
  }
}
