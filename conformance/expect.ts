import { SuretyError } from '../src/cli/client/surety-error.js';

/** What a case demands does not hold; the message is one line for the table. */
export class Unmet extends Error {
  override readonly name = 'Unmet';
}

/** The gRPC code that goes with each reason that cases wait for (api.md, Errors). */
const CODES: Readonly<Record<string, string>> = {
  FIELD_INVALID: 'INVALID_ARGUMENT',
  WORKLOAD_NOT_CURRENT: 'UNAUTHENTICATED',
  APPROVAL_SIGNATURE_INVALID: 'UNAUTHENTICATED',
  METHOD_NOT_ALLOWED: 'PERMISSION_DENIED',
  NOT_VISIBLE: 'PERMISSION_DENIED',
  OWNER_NOT_CURRENT: 'PERMISSION_DENIED',
  OWNER_SCOPE_MISSING: 'PERMISSION_DENIED',
  OWNER_REQUIRED: 'PERMISSION_DENIED',
  APPROVER_NOT_INDEPENDENT: 'PERMISSION_DENIED',
  BOUNDED_GRANT_NOT_USABLE: 'PERMISSION_DENIED',
  CONDITION_DENIED: 'PERMISSION_DENIED',
  ACTION_IDEMPOTENCY_CONFLICT: 'ALREADY_EXISTS',
  RECEIPT_CONFLICT: 'ALREADY_EXISTS',
  APPROVAL_REUSED: 'ALREADY_EXISTS',
  BOUNDED_GRANT_CONFLICT: 'ALREADY_EXISTS',
  GATE_SHAPE_OVERLAP: 'ALREADY_EXISTS',
  REQUEST_ID_CONFLICT: 'ALREADY_EXISTS',
  ACTION_STATE_CONFLICT: 'FAILED_PRECONDITION',
  EXPECTATION_MISMATCH: 'FAILED_PRECONDITION',
  GATE_INVALID: 'FAILED_PRECONDITION',
  APPROVAL_EXPIRED: 'FAILED_PRECONDITION',
  VIEW_NOT_CURRENT: 'FAILED_PRECONDITION',
  WITNESS_INVALID: 'FAILED_PRECONDITION',
  EFFECT_NOT_BINDABLE: 'FAILED_PRECONDITION',
  FROZEN: 'FAILED_PRECONDITION',
  LEASE_LOST: 'ABORTED',
};

/** @throws {Unmet} */
export function expectThat(holds: boolean, what: string): void {
  if (!holds) throw new Unmet(what);
}

/** Compares plain values, bytes and lists of them. @throws {Unmet} naming what was found */
export function expectSame(what: string, found: unknown, expected: unknown): void {
  const [left, right] = [shown(found), shown(expected)];
  if (left !== right) throw new Unmet(`${what}: found ${left}, must be ${right}`);
}

/**
 * Waits for a refusal with one of these reasons and with the code that belongs to it.
 *
 * @throws {Unmet} where the call succeeds or is refused otherwise
 */
export async function expectRefused(
  what: string,
  call: Promise<unknown>,
  ...reasons: readonly string[]
): Promise<SuretyError> {
  const error = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  const wanted = reasons.join(' or ');
  if (error === undefined) throw new Unmet(`${what}: was done, must be refused with ${wanted}`);
  if (!(error instanceof SuretyError)) throw error as Error;
  const found = error.reason === '' ? `${error.code} without a reason` : error.reason;
  expectThat(reasons.includes(error.reason), `${what}: refused with ${found}, must be ${wanted}`);
  expectSame(`${what}: the code of ${error.reason}`, error.code, CODES[error.reason]);
  return error;
}

/** @throws {Unmet} where there is none */
export function expectThere<Value>(what: string, value: Value | undefined): Value {
  if (value === undefined) throw new Unmet(`${what}: is not there`);
  return value;
}

function shown(value: unknown): string {
  if (value instanceof Uint8Array) return `0x${Buffer.from(value).toString('hex')}`;
  if (Array.isArray(value)) return `[${value.map(shown).join(', ')}]`;
  return typeof value === 'bigint' ? String(value) : (JSON.stringify(value) ?? 'nothing');
}
