import { holdsKey } from './effect-key.js';
import { settle } from './terminal-output.js';
import { transition } from './transition.js';
import { RECONCILE } from './transition-command.js';

/** effects.md: UNKNOWN to a terminal state, by a reconciler that is independent of the executor. */
export const reconcile = transition<'reconciliation'>(RECONCILE, (draft, at) => {
  const output = settle(draft, at);
  const state = at.command.evidence.fields.terminalState;
  return {
    change: {
      state,
      stateSource: 'reconciler',
      settledAt: draft.now,
      reconcilerRegistrationId: at.registration.registrationId,
      holdsKey: holdsKey(state, at.effect.repeatable && at.grant?.repeatable === true),
      outputDigest: output.provenanceDigest,
    },
    audit: { provenanceDigest: output.provenanceDigest },
    output,
  };
});
