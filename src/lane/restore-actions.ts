import { restoreAction } from '../ledger/action/restore-action.js';
import type { ActionState } from '../ledger/action/states.js';
import { Refused } from '../ledger/run-decision.js';
import type { RestoreParts } from './restore-effects.js';

/** A governed action that is GATED or DISPATCHED, as it was found; content-free. */
export interface DoubtfulAction {
  readonly actionId: string;
  readonly state: ActionState;
  readonly executionDigest: Buffer | null;
}

/** What the restore made of it. */
export interface RestoredAction extends DoubtfulAction {
  /** `ended`: it failed as ambiguous. `left`: nothing is to be changed. Otherwise why it could not be ended. */
  readonly outcome: 'ended' | 'left' | { readonly refused: string };
}

const ACTIONS_PER_PAGE = 500n;

/** The refusal that is about the action alone; any other interrupts the restore. */
const CORRUPT = 'DATA_CORRUPT';

/**
 * Governed actions in a restore (effects.md, Restore): those that were GATED or DISPATCHED in the backup fail as ambiguous, as
 * commands of the domain's lane. May be interrupted anywhere and done again.
 *
 * @param dryRun only tells what a restore would find
 * @throws Refused STORE_UNAVAILABLE and the like: what was ended so far stays ended
 */
export async function* restoreActions(
  parts: RestoreParts,
  domainId: string,
  dryRun: boolean,
): AsyncGenerator<RestoredAction> {
  let after = '';
  for (;;) {
    const parameters = [domainId, after, parts.incarnation, ACTIONS_PER_PAGE];
    const page = await parts.reader.query<DoubtfulAction>('actions_in_doubt', parameters);
    if (dryRun) yield* page.map((action) => ({ ...action, outcome: 'left' as const }));
    else {
      const outcomes = await Promise.all(page.map(({ actionId }) => end(parts, domainId, actionId)));
      yield* page.map((action, i) => ({ ...action, outcome: outcomes[i] ?? 'left' }));
    }
    const last = page.at(-1);
    if (last === undefined || BigInt(page.length) < ACTIONS_PER_PAGE) return;
    after = last.actionId;
  }
}

async function end(
  parts: RestoreParts,
  domainId: string,
  actionId: string,
): Promise<RestoredAction['outcome']> {
  const commandId = parts.newId('restore');
  const outcome = await parts.commands.submit(restoreAction, { domainId, actionId, commandId });
  if (outcome.ok) return outcome.reply.changed ? 'ended' : 'left';
  if (outcome.refusal.reason !== CORRUPT) throw new Refused(outcome.refusal);
  return { refused: CORRUPT };
}
