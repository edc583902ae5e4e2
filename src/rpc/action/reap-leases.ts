import type { ReapLeasesRequest } from '../../gen/surety/action/v1/action_service_pb.js';
import type { ReapReply } from '../../ledger/action/commands.js';
import { MAX_SCOPE_ACTIONS } from '../../ledger/action/limits.js';
import { reapLease } from '../../ledger/action/reap-lease.js';
import { notVisible } from '../../ledger/audit/current-reader.js';
import { Refused } from '../../ledger/run-decision.js';
import type { CallContext, HandlerTools } from '../handler.js';
import { requireReader } from '../reader-access.js';
import { replyOf } from '../reply-of.js';
import { Violations } from '../validate.js';
import { MAX_NAME_OCTETS } from './read-fields.js';

const DEFAULT_ACTIONS = 100;
const MAX_ACTIONS = 1000;

/**
 * Takes back leases that ran out (actions.md, ReapLeases): candidates are found outside of the lane and judged again inside,
 * each as a command of its own. An action is there for ever, so that one that is not refuses the call before anything is done;
 * what else is refused is told when all the others are done.
 *
 * @throws {Refused} FIELD_INVALID; NOT_VISIBLE where the caller is no operator, or names an action that is not there
 */
export async function reapLeases(
  tools: HandlerTools,
  request: ReapLeasesRequest,
  context: CallContext,
): Promise<{ released: number; ended: number }> {
  const violations = new Violations();
  const { maxActions } = request;
  if (maxActions < 0 || maxActions > MAX_ACTIONS)
    violations.refuse('max_actions', `must be 0 to ${MAX_ACTIONS}`);
  const limits = { min: 0, max: MAX_SCOPE_ACTIONS, minOctets: 1, maxOctets: MAX_NAME_OCTETS };
  const named = violations.textSet('action_ids', request.actionIds, limits);
  violations.throwIfAny();
  await requireReader(tools, context, context.domainId, ['operator']);
  const limit = maxActions === 0 ? DEFAULT_ACTIONS : maxActions;
  if (named.length > 0) await requireThere(tools, context.domainId, named);
  const actionIds = named.length > 0 ? named : await candidates(tools, context.domainId, limit);
  const settled = await Promise.allSettled(
    actionIds.slice(0, limit).map((actionId) => reapOne(tools, context, actionId)),
  );
  const replies = settled.map((one) => {
    if (one.status === 'rejected') throw one.reason;
    return one.value;
  });
  const count = (outcome: ReapReply['outcome']) =>
    replies.filter((reply) => reply.outcome === outcome).length;
  return { released: count('released'), ended: count('ended') };
}

async function requireThere(
  { reader }: Pick<HandlerTools, 'reader'>,
  domainId: string,
  actionIds: readonly string[],
): Promise<void> {
  const there = await reader.query('actions_there', [domainId, actionIds]);
  if (there.length < new Set(actionIds).size) throw new Refused(notVisible());
}

async function candidates(
  { reader }: Pick<HandlerTools, 'reader'>,
  domainId: string,
  limit: number,
): Promise<string[]> {
  const rows = await reader.query<{ actionId: string }>('reapable_actions', [domainId, limit]);
  return rows.map(({ actionId }) => actionId);
}

function reapOne(tools: HandlerTools, context: CallContext, actionId: string): Promise<ReapReply> {
  const { domainId, caller } = context;
  // Each is a command of its own, and has an id of its own.
  const command = { domainId, commandId: tools.newId('reap'), actionId, operator: caller };
  return replyOf(tools, context, reapLease, command);
}
