import type { FieldViolation, Reason } from '../ledger/refusal.js';

/** Which rule a signed message breaks before its payload counts; the metadata `rule` where the reason carries it. */
export type SignedMessageRule =
  // Not the compact form, not canonical base64url or DER, or too long.
  | 'encoding'
  // The protected header, or the envelope's type, is not exactly the one asked for.
  | 'header'
  // The key is not known, or is not the one that the message names.
  | 'key'
  | 'signature'
  // It must be over something that came beside it, and is not.
  | 'payload';

/** The reasons that a signed message can be refused for, whatever it says. */
export type SignedMessageReason = Extract<
  Reason,
  | 'PROOF_SIGNATURE_INVALID'
  | 'POSSESSION_INVALID'
  | 'COMMAND_SIGNATURE_INVALID'
  | 'CLEARANCE_INVALID'
  | 'APPROVAL_SIGNATURE_INVALID'
>;

/**
 * A signed message that is refused: for its signature, header or encoding with `reason` and `rule`, or for what it says
 * with `FIELD_INVALID` and `violations`.
 */
export class SignedMessageError extends Error {
  override readonly name = 'SignedMessageError';
  private constructor(
    message: string,
    readonly reason: SignedMessageReason | 'FIELD_INVALID',
    /** Empty with FIELD_INVALID. */
    readonly rule: SignedMessageRule | '',
    /** Empty but with FIELD_INVALID; paths begin with the request's field. */
    readonly violations: readonly FieldViolation[],
    /** Which of several messages of a request it is, for example `clearance_jws[1]`; undefined where there is but one. */
    readonly field?: string,
  ) {
    super(message);
  }

  /** Refused for its form or signature; `detail` is for people and names no value. */
  static unverified(
    reason: SignedMessageReason,
    rule: SignedMessageRule,
    detail: string,
  ): SignedMessageError {
    return new SignedMessageError(detail, reason, rule, []);
  }

  /** The same refusal, of the message that stands in this place of the request. */
  at(field: string): SignedMessageError {
    return new SignedMessageError(this.message, this.reason, this.rule, this.violations, field);
  }

  /** Refused for its content. */
  static invalid(violations: readonly FieldViolation[]): SignedMessageError {
    return new SignedMessageError(
      'a field of the signed message breaks a rule',
      'FIELD_INVALID',
      '',
      violations,
    );
  }
}
