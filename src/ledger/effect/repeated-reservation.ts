import { currentActor } from '../authority/current-actor.js';
import { accept, type Outcome, refuse } from '../decision.js';
import { sameDigest } from '../encoding.js';
import { refusal } from '../refusal.js';
import type { Draft } from '../working-set.js';
import { effectKeyDigest } from './effect-key.js';
import { isParty } from './parent-event.js';
import type { EffectRow, TombstoneRow } from './records.js';
import type { ReserveEffectCommand, ReserveEffectReply } from './reserve-effect.js';
import { tupleDigest } from './tombstone.js';
import { verifiedEffect } from './verified-effect.js';

/**
 * Answers a reservation whose identity exists (effects.md, Reserve 1): the first reply again, with nothing consumed and
 * nothing written, to the same actor with the same content. The actor must be in force now; what it was at the
 * reservation does not count, so that a rotation leaves no effect stuck. A tombstone answers as the live row did.
 */
export function repeatedReservation(
  draft: Draft,
  command: ReserveEffectCommand,
  stored: EffectRow | TombstoneRow,
): Outcome<ReserveEffectReply> {
  const result = currentActor(draft, command.caller);
  if ('refused' in result) return refuse(result.refused);
  const { actor } = result;
  const own =
    stored.harnessId === actor.harness.harnessId &&
    stored.actorKind === actor.kind &&
    stored.actorId === actor.id;
  const event = draft.get('events', command.eventId);
  if (!own && !(event && isParty(event, actor.harness.harnessId))) {
    return refuse(refusal('NOT_VISIBLE', 'There is no such effect, or the caller may not see it.'));
  }
  const effect = verifiedEffect(draft, stored);
  const field = own ? differingField(command, effect) : 'actor';
  if (field !== undefined) {
    const metadata: Record<string, string> = field === '' ? {} : { field };
    return refuse(
      refusal('EFFECT_IDENTITY_CONFLICT', 'The same effect was reserved with other content.', {
        metadata,
        // Another party of the event learns that it was reserved, and not as what: it may not see the effect.
        ...(own ? { resource: { type: 'effect', name: effect.effectId } } : {}),
      }),
    );
  }
  return accept({ effect, duplicate: true, currentState: effect.state });
}

/** The first field that differs; empty where only a digest is left that says that one does. */
function differingField(command: ReserveEffectCommand, effect: EffectRow | TombstoneRow): string | undefined {
  if (effect.grantId !== command.grantId) return 'grant_id';
  if ('tupleDigest' in effect) return archivedDifference(command, effect);
  if (effect.action !== command.action) return 'action';
  if (effect.resource !== command.resource) return 'resource';
  if (effect.inputSource !== command.inputSource) return 'input_source';
  if (effect.sink !== command.outputSink) return 'output_sink';
  if (effect.dataClass !== command.dataClass) return 'data_class';
  if (!sameDigest(effect.keyDigest, effectKeyDigest(command))) return 'effect_key';
  if (effect.repeatable !== command.repeatable) return 'repeatable';
  if (effect.reservationTtl !== command.reservationTtl) return 'reservation_ttl';
  if (effect.executionDeadline !== command.executionDeadline) return 'execution_deadline';
  return undefined;
}

function archivedDifference(command: ReserveEffectCommand, archived: TombstoneRow): string | undefined {
  const keyDigest = effectKeyDigest(command);
  if (!sameDigest(archived.keyDigest, keyDigest)) {
    // The default key is of the resource too: with it, either may be what differs.
    return command.effectKey === '' ? '' : 'effect_key';
  }
  const tuple = tupleDigest({ ...command, sink: command.outputSink, keyDigest });
  return sameDigest(archived.tupleDigest, tuple) ? undefined : '';
}
