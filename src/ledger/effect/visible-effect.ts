import { currentReader, notVisible } from '../audit/current-reader.js';
import { type Actor, currentActor } from '../authority/current-actor.js';
import {
  currentRegistrations,
  type WorkloadRequest,
  workloadReads,
} from '../identity/current-registrations.js';
import type { RegistrationRow } from '../identity/records.js';
import type { Reads } from '../reads.js';
import { Refused } from '../run-decision.js';
import type { CallerKind, WorkloadRole } from '../types.js';
import type { Draft } from '../working-set.js';
import type { EffectRow, TombstoneRow } from './records.js';
import { RECONCILER_PREFIX } from './rules/independence.js';
import { type EffectPlace, isVisibleToWorkload } from './rules/visible.js';
import { archivedRefusal } from './tombstone.js';
import { verifiedEffect } from './verified-effect.js';

/** Who asks to see effects. */
export type ViewerRequest = WorkloadRequest;

/** Who sees effects, judged by the rows of one transaction (effects.md, Visible). */
export type EffectViewer =
  /** What it reserved itself. */
  | { readonly as: 'actor'; readonly actor: Actor }
  /** What any of its registrations in force is for, or has started or settled. */
  | {
      readonly as: 'workload';
      readonly role: WorkloadRole;
      readonly registrations: readonly RegistrationRow[];
    }
  /** Operators and auditors: all of the domain. */
  | { readonly as: 'overseer' };

/** Which systems the domain names for a sink, by the sink. */
export type SinkSystems = ReadonlyMap<string, readonly string[]>;

const ROLES: { readonly [K in CallerKind]?: WorkloadRole } = {
  executor: 'effect_executor',
  reconciler: 'effect_reconciler',
};

/**
 * The rows that say who somebody is.
 *
 * @param effectId the one effect that is asked for; undefined: a list or a watch
 */
export function viewerReads(request: ViewerRequest, effectId?: string): Reads {
  const { caller, kind } = request;
  const ids = [caller.spiffeId];
  if (kind === 'harness') return { callerHarness: ids };
  if (ROLES[kind] === undefined) return { operators: ids, platformOperators: ids };
  return workloadReads(request, effectId);
}

/**
 * Who the caller is as a viewer of effects. Nothing here depends on an effect, so a refusal tells nothing of any. Needs
 * the reads of {@link viewerReads}.
 *
 * @throws {Refused} the reasons of `currentActor` and `currentReader`; for a workload CALLER_UNKNOWN, METHOD_NOT_ALLOWED,
 *   NOT_VISIBLE where the selected registration is not the peer's, WORKLOAD_NOT_CURRENT where none is in force
 */
export function effectViewer(draft: Draft, request: ViewerRequest): EffectViewer {
  const { caller, kind } = request;
  if (kind === 'harness') {
    const result = currentActor(draft, caller);
    if ('refused' in result) throw new Refused(result.refused);
    return { as: 'actor', actor: result.actor };
  }
  const role = ROLES[kind];
  if (role !== undefined) {
    return { as: 'workload', role, registrations: currentRegistrations(draft, request, role) };
  }
  const result = currentReader(draft, caller, ['operator', 'auditor']);
  if ('refused' in result) throw new Refused(result.refused);
  return { as: 'overseer' };
}

/**
 * An effect that the viewer may see, or its tombstone, held against the log. Needs the read `effects`.
 *
 * @throws {Refused} NOT_VISIBLE where it may not, or there is none: both look alike; DATA_CORRUPT
 */
export function visibleRecord(
  draft: Draft,
  viewer: EffectViewer,
  effectId: string,
): EffectRow | TombstoneRow {
  const stored = draft.get('effects', effectId) ?? draft.get('effect_tombstones', effectId);
  if (!stored || !seesEffect(viewer, stored)) throw new Refused(notVisible());
  return verifiedEffect(draft, stored);
}

/**
 * An effect that the viewer may see, its row held against the log. Needs the read `effects`.
 *
 * @throws {Refused} NOT_VISIBLE where it may not, or there is none: both look alike; EFFECT_ARCHIVED where only its tombstone
 *   is left; DATA_CORRUPT
 */
export function visibleEffect(draft: Draft, viewer: EffectViewer, effectId: string): EffectRow {
  const effect = visibleRecord(draft, viewer, effectId);
  if ('tupleDigest' in effect) throw new Refused(archivedRefusal(effect));
  return effect;
}

/** Whether the viewer may see an effect of its domain (effects.md, Visible). */
export function seesEffect(viewer: EffectViewer, effect: EffectRow | TombstoneRow): boolean {
  switch (viewer.as) {
    case 'overseer':
      return true;
    case 'actor': {
      const { harness, kind, id } = viewer.actor;
      return effect.harnessId === harness.harnessId && effect.actorKind === kind && effect.actorId === id;
    }
    case 'workload':
      return viewer.registrations.some((one) => isVisibleToWorkload(one, viewer.role, effect));
  }
}

/**
 * Whether an effect belongs in the viewer's lists and watches: operators and auditors have all of the domain, reconcilers
 * what they may see at the sinks of their system, others have none.
 */
export function listsEffect(viewer: EffectViewer, effect: EffectPlace, systems: SinkSystems): boolean {
  if (viewer.as === 'overseer') return true;
  if (viewer.as !== 'workload' || viewer.role !== 'effect_reconciler') return false;
  const named = systems.get(effect.sink) ?? [];
  return viewer.registrations.some((one) => {
    const system = authoritySystem(one);
    return (
      system !== undefined && named.includes(system) && isVisibleToWorkload(one, 'effect_reconciler', effect)
    );
  });
}

/** The system that a reconciler's registration speaks for; undefined: none. */
export function authoritySystem({ workloadId }: RegistrationRow): string | undefined {
  return workloadId.startsWith(RECONCILER_PREFIX) ? workloadId.slice(RECONCILER_PREFIX.length) : undefined;
}
