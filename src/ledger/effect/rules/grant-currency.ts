import { endRefusal, grantBindingRefusal } from '../../authority/grant-rules.js';
import { type Refusal, refusal } from '../../refusal.js';
import type { Draft } from '../../working-set.js';
import type { EffectRow } from '../records.js';

/**
 * Transition rule 10 (effects.md): a start needs the grant unrevoked, unexpired, and its binding current. Later
 * transitions record it and never refuse for it: else an expired grant would leave an effect unsettled for ever.
 */
export function grantCurrencyRefusal(draft: Draft, effect: EffectRow): Refusal | undefined {
  const grant = draft.get('grants', effect.grantId);
  const harness = draft.get('harnesses', effect.harnessId);
  const ended =
    grant && harness
      ? (endRefusal(grant, draft.now) ?? grantBindingRefusal(grant, draft.domain, harness))
      : refusal('GRANT_MISSING', 'The grant does not exist.');
  if (!ended) return undefined;
  return refusal('GRANT_NOT_CURRENT', 'The grant is no longer good for a start.', {
    metadata: { rule: ended.reason },
  });
}

/** Whether the grant is still current, for the log of a later transition. */
export function isGrantCurrent(draft: Draft, effect: EffectRow): boolean {
  return grantCurrencyRefusal(draft, effect) === undefined;
}
