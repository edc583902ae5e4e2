import { sameDigest } from '../../encoding.js';
import { type Refusal, refusal } from '../../refusal.js';
import type { ExecutionEvidence } from '../evidence.js';
import type { TransitionCase } from '../transition-command.js';

/**
 * Transition rule 6 (effects.md): the attempt is the stored one. A start stores it, and its evidence's request digest is
 * the reserved one.
 */
export function attemptRefusal({ kind, command, effect }: TransitionCase): Refusal | undefined {
  const { fields } = command.evidence;
  if (kind.rpc === 'start') {
    return sameDigest((fields as ExecutionEvidence).requestDigest, effect.requestDigest)
      ? undefined
      : refusal('EFFECT_REQUEST_MISMATCH', "The evidence's request digest is not the reserved one.");
  }
  return fields.attemptId === effect.attemptId
    ? undefined
    : refusal('EFFECT_ATTEMPT_MISMATCH', 'The attempt is not the one that was started.');
}
