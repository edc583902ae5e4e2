import { DAY, type Micros, MINUTE, SECOND } from '../types.js';

/** How long a reservation may wait for its start where the caller names no ttl (effects.md, Start before). */
export const DEFAULT_RESERVATION_TTL: Micros = DAY;
/** How long an execution may last where the caller names no deadline (effects.md, Executor lost). */
export const DEFAULT_EXECUTION_DEADLINE: Micros = 15n * MINUTE;
/** How long after the start an executor may send, and the system may take it in, where the sink says nothing. */
export const DEFAULT_SEND_WINDOW: Micros = MINUTE;
export const DEFAULT_SETTLE_TIME: Micros = MINUTE;

/** A proof's issue time lies within [now − 300 s, now + 60 s] (effects.md, Transitions 3). */
export const PROOF_MAX_AGE: Micros = 300n * SECOND;
export const PROOF_MAX_AHEAD: Micros = 60n * SECOND;
/** A nonce is kept at least until issued-at + 360 s: the window above with its slack (effects.md, Transitions 12). */
export const NONCE_KEEP: Micros = 360n * SECOND;

/** How far an evidence's time may lie before the step that it follows, and after the store's clock (Transitions 7). */
export const EVIDENCE_SLACK: Micros = 60n * SECOND;

/** So many pieces of late evidence are kept per effect, the last only if it contradicts (effects.md, Late evidence). */
export const MAX_LATE_EVIDENCE = 8;
