import { type Refusal, refusal } from '../refusal.js';
import type { Draft } from '../working-set.js';

/** Whether an operator froze the domain or the sink (authority.md, Freeze): reserving and starting stop, settling goes on. */
export function frozenRefusal(draft: Draft, sink: string): Refusal | undefined {
  if (draft.domain.frozen) {
    return refusal('FROZEN', 'An operator froze the domain.', { metadata: { scope: 'domain' } });
  }
  if (draft.get('sinks', sink)?.frozen === true) {
    return refusal('FROZEN', 'An operator froze the sink.', { metadata: { scope: 'sink' } });
  }
  return undefined;
}
