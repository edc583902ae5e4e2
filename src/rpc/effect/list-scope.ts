import {
  authoritySystem,
  type EffectViewer,
  effectViewer,
  listsEffect,
  type SinkSystems,
  type ViewerRequest,
  viewerReads,
} from '../../ledger/effect/visible-effect.js';
import type { EffectPlace } from '../../ledger/effect/rules/visible.js';
import type { Reader } from '../../store/reader.js';
import { gather } from './read-effect.js';

/** Whose list it is, and where in the domain it has to look. */
export interface ListScope {
  readonly viewer: EffectViewer;
  /** The sinks that a reconciler's systems may settle, with the systems of each; undefined: all sinks. */
  readonly systems: SinkSystems | undefined;
  /** The events that all registrations of a reconciler are bound to; undefined: all events. */
  readonly eventIds: readonly string[] | undefined;
}

/**
 * What a caller's lists and watches hold: operators and auditors have all, reconcilers what they may see at the sinks of
 * their system. Read anew whenever it is needed: rights end at once.
 *
 * @throws {Refused} the reasons of `effectViewer`
 */
export async function readListScope(
  reader: Reader,
  domainId: string,
  asker: ViewerRequest,
): Promise<ListScope> {
  const viewer = effectViewer(await gather(reader, domainId, viewerReads(asker)), asker);
  if (viewer.as === 'overseer') return { viewer, systems: undefined, eventIds: undefined };
  const registrations = viewer.as === 'workload' ? viewer.registrations : [];
  const systems = registrations.map(authoritySystem).filter((system) => system !== undefined);
  const standing = registrations.some(({ parentEventId }) => parentEventId === null);
  return {
    viewer,
    systems: await readSinks(reader, domainId, [...new Set(systems)]),
    eventIds: standing ? undefined : [...new Set(registrations.map((one) => one.parentEventId ?? ''))],
  };
}

/** Whether an effect belongs in the list. */
export function isListed({ viewer, systems }: ListScope, effect: EffectPlace): boolean {
  return listsEffect(viewer, effect, systems ?? NO_SYSTEMS);
}

const NO_SYSTEMS: SinkSystems = new Map();

async function readSinks(reader: Reader, domainId: string, systems: readonly string[]): Promise<SinkSystems> {
  if (systems.length === 0) return new Map();
  const rows = await reader.query<{ sink: string; authoritySystems: string[] }>('sinks_of_systems', [
    domainId,
    systems,
  ]);
  return new Map(rows.map((row) => [row.sink, row.authoritySystems]));
}
