import type { TerminalState } from '../types.js';
import { holdsKey } from './effect-key.js';
import { settle } from './terminal-output.js';
import { transition } from './transition.js';
import { ACKNOWLEDGE } from './transition-command.js';

/** effects.md: EXECUTING to a terminal state, by the executor that started. */
export const acknowledgeTerminal = transition<'terminal'>(ACKNOWLEDGE, (draft, at) => {
  const output = settle(draft, at);
  const state = at.command.proof.statement.toState as TerminalState;
  return {
    change: {
      state,
      stateSource: 'executor',
      settledAt: draft.now,
      holdsKey: holdsKey(state, at.effect.repeatable && at.grant?.repeatable === true),
      outputDigest: output.provenanceDigest,
    },
    audit: { provenanceDigest: output.provenanceDigest },
    output,
  };
});
