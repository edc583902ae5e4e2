import { DEFAULT_EXECUTION_DEADLINE, DEFAULT_SEND_WINDOW } from './limits.js';
import { transition } from './transition.js';
import { START } from './transition-command.js';

/** effects.md: PREPARED to EXECUTING. The attempt, the process and the send window are stored with it. */
export const startExecution = transition<'execution'>(START, (draft, { command, effect, registration }) => ({
  change: {
    state: 'EXECUTING',
    stateSource: 'executor',
    attemptId: command.evidence.fields.attemptId,
    executorRegistrationId: registration.registrationId,
    executorSessionId: registration.sessionId,
    executorProcessId: registration.processId,
    executorProcessStart: registration.processStartTime,
    startedAt: draft.now,
    lostAt: draft.now + (effect.executionDeadline ?? DEFAULT_EXECUTION_DEADLINE),
    sendWindow: draft.get('sinks', effect.sink)?.sendWindow ?? DEFAULT_SEND_WINDOW,
  },
}));
