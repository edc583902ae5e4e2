import { type Refusal, refusal } from '../refusal.js';

/**
 * The rules of a derivation, by the name that a refusal's metadata `rule` carries (provenance-audit-replay.md, Provenance;
 * each is said in `surety.error.v1.Reason`).
 */
export type ProvenanceRule =
  | 'parent_domain'
  | 'parent_missing'
  | 'parent_mismatch'
  | 'parent_revision'
  | 'policy_revision'
  | 'predecessor_missing'
  | 'predecessor_mismatch'
  | 'classification_lowered'
  | 'sink_widened'
  | 'first_inputs'
  | 'step_inputs'
  | 'step_times'
  | 'last_output'
  | 'last_kind'
  | 'clearance_pair'
  | 'clearance_independence';

/**
 * The refusal of a derivation that breaks a rule.
 *
 * @param field where in the request, for example `steps[1].input_digests`
 */
export function ruleViolated(rule: ProvenanceRule, field: string, message: string): Refusal {
  return refusal('PROVENANCE_RULE_VIOLATED', message, { metadata: { rule, field } });
}
