import { holdsKey } from './effect-key.js';
import { contradictsKept } from './late-evidence.js';
import { settle } from './terminal-output.js';
import { transition } from './transition.js';
import { RECONCILE } from './transition-command.js';

/**
 * effects.md: UNKNOWN to a terminal state, by a reconciler that is independent of the executor. A settlement that
 * contradicts what the executor said meanwhile is disputed from the start, and keeps its key.
 */
export const reconcile = transition<'reconciliation'>(RECONCILE, (draft, at) => {
  const output = settle(draft, at);
  const state = at.command.evidence.fields.terminalState;
  const disputed = contradictsKept(draft, at.effect, state);
  return {
    change: {
      state,
      stateSource: 'reconciler',
      settledAt: draft.now,
      reconcilerRegistrationId: at.registration.registrationId,
      holdsKey: disputed || holdsKey(state, at.effect.repeatable && at.grant?.repeatable === true),
      outputDigest: output.provenanceDigest,
      disputed,
    },
    audit: { provenanceDigest: output.provenanceDigest, ...(disputed ? { disputed } : {}) },
    output,
  };
});
