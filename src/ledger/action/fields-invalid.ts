import { type FieldViolation, refusal } from '../refusal.js';
import { Refused } from '../run-decision.js';

/** The refusal of a field whose rule is the ledger's own. */
export function fieldInvalid(field: string, rule: string): Refused {
  return violated({ field, rule });
}

/** @throws {Refused} FIELD_INVALID where there is something wrong */
export function requireNoFault(fault: FieldViolation | undefined): void {
  if (fault) throw violated(fault);
}

function violated(violation: FieldViolation): Refused {
  return new Refused(
    refusal('FIELD_INVALID', 'A field of the request breaks a rule.', { violations: [violation] }),
  );
}
