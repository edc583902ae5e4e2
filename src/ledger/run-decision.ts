import { type CommandBase, type Decision, type Outcome, refuse } from './decision.js';
import type { Refusal } from './refusal.js';
import { Draft, type WorkingSet } from './working-set.js';

/** Thrown from deep inside of a decision to refuse; nothing that was written is kept. */
export class Refused extends Error {
  constructor(readonly refusal: Refusal) {
    super(refusal.reason);
    this.name = 'Refused';
  }
}

/**
 * Runs one decision against the working set. What it wrote enters the set when it was accepted, or refused with a
 * record; else it leaves no trace.
 */
export function runDecision<Command extends CommandBase, Reply>(
  set: WorkingSet,
  decision: Decision<Command, Reply>,
  command: Command,
): Outcome<Reply> {
  const draft = new Draft(set);
  const outcome = decideOrRefuse(decision, draft, command);
  if (outcome.ok || outcome.recorded) set.apply(draft);
  return outcome;
}

function decideOrRefuse<Command extends CommandBase, Reply>(
  decision: Decision<Command, Reply>,
  draft: Draft,
  command: Command,
): Outcome<Reply> {
  try {
    return decision.decide(draft, command, draft.now);
  } catch (error) {
    if (error instanceof Refused) return refuse(error.refusal);
    throw error;
  }
}
