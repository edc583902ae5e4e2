import type { CommandBase, Decision } from '../ledger/decision.js';
import { Refused } from '../ledger/run-decision.js';
import type { CallContext, HandlerTools } from './handler.js';

/**
 * Runs a command in the lane of its domain and answers its reply, once the batch's COMMIT is known.
 *
 * @throws Refused why the command was refused
 */
export async function replyOf<Command extends CommandBase, Reply>(
  tools: Pick<HandlerTools, 'commands'>,
  context: Pick<CallContext, 'deadline'>,
  decision: Decision<Command, Reply>,
  command: Command,
): Promise<Reply> {
  const { deadline } = context;
  const outcome = await tools.commands.submit(decision, command, deadline === undefined ? {} : { deadline });
  if (outcome.ok) return outcome.reply;
  throw new Refused(outcome.refusal);
}
