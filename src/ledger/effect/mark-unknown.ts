import { transition } from './transition.js';
import { MARK_UNKNOWN } from './transition-command.js';

/** effects.md: EXECUTING to UNKNOWN, by the executor that started. The work stays pending. */
export const markUnknown = transition<'uncertainty'>(MARK_UNKNOWN, (draft) => ({
  change: { state: 'UNKNOWN', stateSource: 'executor', unknownAt: draft.now },
}));
