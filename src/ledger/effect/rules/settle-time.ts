import { type Refusal, refusal } from '../../refusal.js';
import type { Draft } from '../../working-set.js';
import type { ReconciliationEvidence } from '../evidence.js';
import { DEFAULT_SETTLE_TIME } from '../limits.js';
import { sendUntil } from '../send-window.js';
import type { TransitionCase } from '../transition-command.js';

/**
 * effects.md, "When may it be sent": a negative settlement waits until no send can still come. Reconciling to FAILED or
 * CANCELLED needs the observation and the store's clock at start + send window + the sink's settle time. SUCCEEDED may be
 * settled at once.
 */
export function settleTimeRefusal(draft: Draft, at: TransitionCase): Refusal | undefined {
  if (at.kind.rpc !== 'reconcile') return undefined;
  const fields = at.command.evidence.fields as ReconciliationEvidence;
  if (fields.terminalState === 'SUCCEEDED') return undefined;
  const { effect } = at;
  const settleTime = draft.get('sinks', effect.sink)?.settleTime ?? DEFAULT_SETTLE_TIME;
  const settled = sendUntil(effect) + settleTime;
  if (fields.observedAt >= settled && draft.now >= settled) return undefined;
  const wait = settled > draft.now ? settled - draft.now : 1n;
  return refusal('RECONCILE_TOO_EARLY', 'A send may still come; ask the authority system again later.', {
    retryAfter: wait,
  });
}
