import type { FieldViolation } from '../refusal.js';
import { isJsonObject, parseIJson } from './i-json.js';
import { MAX_EVIDENCE_BYTES, MAX_PAYLOAD_BYTES } from './limits.js';

/** The member of a payload that repeats the action's tool. */
export const TOOL_NAME_MEMBER = 'tool_name';

/**
 * What is wrong with a payload (actions.md, after Invariants): a JSON object as I-JSON whose `tool_name` is the action's.
 *
 * @param field path in the request
 */
export function payloadFault(
  payload: Uint8Array,
  toolName: string,
  field: string,
): FieldViolation | undefined {
  const oversize = sizeFault(payload, MAX_PAYLOAD_BYTES, field);
  if (oversize) return oversize;
  const result = parseIJson(payload);
  if ('fault' in result) return { field, rule: result.fault };
  if (!isJsonObject(result.value)) return { field, rule: 'must be a JSON object' };
  if (result.value.get(TOOL_NAME_MEMBER) === toolName) return undefined;
  return { field, rule: `must have the member ${TOOL_NAME_MEMBER}, equal to the field tool_name` };
}

/** What is wrong with a piece of evidence: JSON as I-JSON, of whatever value. */
export function evidenceFault(evidence: Uint8Array, field: string): FieldViolation | undefined {
  const oversize = sizeFault(evidence, MAX_EVIDENCE_BYTES, field);
  if (oversize) return oversize;
  const result = parseIJson(evidence);
  return 'fault' in result ? { field, rule: result.fault } : undefined;
}

function sizeFault(bytes: Uint8Array, max: number, field: string): FieldViolation | undefined {
  if (bytes.length >= 1 && bytes.length <= max) return undefined;
  return { field, rule: `must be 1 to ${max} bytes` };
}
