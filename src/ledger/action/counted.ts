import {
  type ActorKey,
  admitCall,
  callerActor,
  countSafetyCall,
  harnessActor,
} from '../admission/admit-call.js';
import { type CommandBase, type Decision, refuse } from '../decision.js';
import { mergeReads } from '../reads.js';
import type { Draft } from '../working-set.js';
import type { PartyKind } from './action-callers.js';
import type { ActionCaller } from './commands.js';

type PartyCommand = CommandBase & ActionCaller<PartyKind>;

/** What an answer says of whether anything was done. */
interface PartyReply {
  /** An earlier call did it. */
  readonly duplicate?: boolean;
  /** What was handed out, where a call hands out; undefined: nothing was there. */
  readonly leased?: unknown;
}

/**
 * A decision on governed actions with its place in admission (authority.md, Admission): what begins something is an ordinary
 * call of its caller, what settles, observes or revokes is counted and never refused. A repeat, a refusal and an empty answer
 * cost nothing.
 */
export function counted<Command extends PartyCommand, Reply extends object>(
  lane: 'ordinary' | 'safety',
  decision: Decision<Command, Reply>,
): Decision<Command, Reply> {
  return {
    ...decision,
    reads: (command) =>
      mergeReads([
        decision.reads(command),
        command.kind === 'harness' ? {} : { actorCounters: [callerActor(command.caller.spiffeId)] },
      ]),
    decide(draft, command, now) {
      const outcome = decision.decide(draft, command, now);
      if (!outcome.ok || !isDone(outcome.reply)) return outcome;
      const actor = actorOf(draft, command);
      if (lane === 'safety') countSafetyCall(draft, actor);
      const held = lane === 'ordinary' ? admitCall(draft, actor) : undefined;
      return held ? refuse(held) : outcome;
    },
  };
}

function isDone(reply: PartyReply): boolean {
  return reply.duplicate !== true && !('leased' in reply && reply.leased === undefined);
}

function actorOf(draft: Draft, { kind, caller }: PartyCommand): ActorKey {
  if (kind !== 'harness') return callerActor(caller.spiffeId);
  const row = draft.get('callers', caller.spiffeId);
  return harnessActor(row?.refId ?? '');
}
