import { restoreAttemptId } from '../ledger/effect/brought-back.js';
import { type RestoreReply, restoreEffect } from '../ledger/effect/restore-effect.js';
import { Refused } from '../ledger/run-decision.js';
import type { EffectState, StateSource } from '../ledger/types.js';
import type { Reader } from '../store/reader.js';
import { StoreError } from '../store/store-error.js';
import type { CommandRunner } from './lanes.js';

/** An effect that is not terminal, as it was found; content-free. One that was moved: as it is in the backup. */
export interface InFlightEffect {
  readonly effectId: string;
  /** Null where the pending work names an effect that is not there. */
  readonly state: EffectState | null;
  readonly stateSource: StateSource | null;
  readonly sink: string | null;
  readonly fence: bigint | null;
  readonly requestDigest: Buffer | null;
  readonly eventId: string | null;
  readonly grantId: string | null;
  readonly attemptId: string | null;
}

/** What the restore made of it. */
export interface RestoredEffect extends InFlightEffect {
  /**
   * `moved`: from the backup's state to UNKNOWN. `left`: it needs nothing, or nothing is to be changed. Otherwise the
   * reason for which it could not be moved; nothing can start, cancel or expire it all the same.
   */
  readonly outcome: 'moved' | 'left' | { readonly refused: string };
  /** Whether this very walk took a step of it; one that was interrupted may have taken it before. */
  readonly changed: boolean;
}

/** What {@link restoreEffects} works with. */
export interface RestoreParts {
  readonly commands: CommandRunner;
  readonly reader: Reader;
  readonly newId: (prefix: string) => string;
  /** The one that the restore has begun. */
  readonly incarnation: bigint;
  /** Effects of one page, for tests. */
  readonly pageSize?: number;
}

/** Effects of one page: of so many, each step is one batch of the lane, and so many are in memory at once. */
const EFFECTS_PER_PAGE = 500;

/** To EXECUTING, and to UNKNOWN: no edge leads there at once. */
const STEPS = 2;

/** Refusals that are about the effect alone; any other interrupts the restore. */
const CORRUPT = 'DATA_CORRUPT';
const OF_THE_EFFECT: ReadonlySet<string> = new Set([CORRUPT]);

/**
 * The second part of a restore (effects.md, Restore): walks through what is in flight in a domain, by effect id in pages,
 * and moves what is PREPARED from the backup through EXECUTING to UNKNOWN, as commands of the domain's lane. May be
 * interrupted anywhere and done again, and the sweep of a service may do the same meanwhile: nothing is moved twice, and
 * everything is told.
 *
 * @throws Refused STORE_UNAVAILABLE and the like: what was moved so far stays moved
 */
export async function* restoreEffects(parts: RestoreParts, domainId: string): AsyncGenerator<RestoredEffect> {
  for await (const page of inFlight(parts.reader, domainId, parts.pageSize)) {
    const ends = new Map<string, StepEnd>();
    for (let step = 0; step < STEPS; step += 1) {
      const open = page.filter((effect) => isOpen(effect, ends.get(effect.effectId)));
      const taken = await Promise.all(open.map(({ effectId }) => takeStep(parts, domainId, effectId)));
      open.forEach(({ effectId }, i) =>
        ends.set(effectId, laterEnd(ends.get(effectId), taken[i] as StepEnd)),
      );
    }
    for (const effect of page) {
      const restored = told(effect, ends.get(effect.effectId), parts.incarnation);
      if (restored) yield restored;
    }
  }
}

/** The same walk without a step: what a restore would find. */
export async function* listInFlight(reader: Reader, domainId: string): AsyncGenerator<RestoredEffect> {
  for await (const page of inFlight(reader, domainId)) {
    for (const effect of page) yield { ...effect, outcome: 'left', changed: false };
  }
}

async function* inFlight(
  reader: Reader,
  domainId: string,
  pageSize: number = EFFECTS_PER_PAGE,
): AsyncGenerator<InFlightEffect[]> {
  let after = '';
  for (;;) {
    const page = await reader.query<InFlightEffect>('in_flight', [domainId, after, BigInt(pageSize)]);
    if (page.length > 0) yield page;
    const last = page.at(-1);
    if (last === undefined || page.length < pageSize) return;
    after = last.effectId;
  }
}

/** What became of an effect's steps so far. */
type StepEnd = RestoreReply | { readonly refused: string };

/** A step of one effect. What the database refuses of it is its own: the others are moved all the same. */
async function takeStep(parts: RestoreParts, domainId: string, effectId: string): Promise<StepEnd> {
  try {
    const commandId = parts.newId('restore');
    const outcome = await parts.commands.submit(restoreEffect, { domainId, effectId, commandId });
    if (outcome.ok) return outcome.reply;
    if (!OF_THE_EFFECT.has(outcome.refusal.reason)) throw new Refused(outcome.refusal);
    return { refused: outcome.refusal.reason };
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    return { refused: CORRUPT };
  }
}

/** Whether a step may be left to take; the decision judges it, by the incarnation too. */
function isOpen({ state, stateSource }: InFlightEffect, end: StepEnd | undefined): boolean {
  if (end && 'refused' in end) return false;
  return state === 'PREPARED' || (state === 'EXECUTING' && stateSource === 'restore');
}

function laterEnd(before: StepEnd | undefined, now: StepEnd): StepEnd {
  if (!before || 'refused' in before || 'refused' in now) return now;
  return { changed: before.changed || now.changed, moved: before.moved || now.moved };
}

/** What is told of it; nothing of what was reserved since, in a domain where an operator has ended the freeze. */
function told(
  effect: InFlightEffect,
  end: StepEnd | undefined,
  incarnation: bigint,
): RestoredEffect | undefined {
  if (effect.state === null) return { ...effect, outcome: { refused: CORRUPT }, changed: false };
  if (end && 'refused' in end) return { ...effect, outcome: end, changed: false };
  const changed = end?.changed === true;
  if (end?.moved === true || effect.attemptId === restoreAttemptId(incarnation, effect.effectId)) {
    const before = { state: 'PREPARED', stateSource: 'reservation', attemptId: null } as const;
    return { ...effect, ...before, outcome: 'moved', changed };
  }
  if (changed) return { ...effect, outcome: 'moved', changed };
  return effect.state === 'PREPARED' ? undefined : { ...effect, outcome: 'left', changed };
}
