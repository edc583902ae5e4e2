import { sameDigest } from '../../encoding.js';
import type { StateSource } from '../../types.js';
import type { TransitionCase } from '../transition-command.js';

/**
 * Transition rule 4 (effects.md): whether this is the transition that led to the *current* state: same to-state, attempt
 * and evidence. For an executor also the same registration; for a start also the same session, process and process start,
 * so that a restarted process never gets leave to send again.
 */
export function isExactDuplicate({ kind, command, effect, registration }: TransitionCase): boolean {
  const { statement } = command.proof;
  const source: StateSource = kind.rpc === 'reconcile' ? 'reconciler' : 'executor';
  const same =
    effect.state === statement.toState &&
    effect.stateSource === source &&
    effect.attemptId === command.evidence.fields.attemptId &&
    sameDigest(effect.evidenceDigest ?? undefined, command.evidence.digest);
  if (!same || kind.rpc === 'reconcile') return same;
  if (effect.executorRegistrationId !== registration.registrationId) return false;
  if (kind.rpc !== 'start') return true;
  return (
    effect.executorSessionId === statement.sessionId &&
    effect.executorProcessId === statement.processId &&
    effect.executorProcessStart === statement.processStart
  );
}
