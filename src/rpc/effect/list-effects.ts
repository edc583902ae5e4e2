import { create } from '@bufbuild/protobuf';
import { type Effect, EffectSchema } from '../../gen/surety/effect/v1/effect_pb.js';
import type { ListEffectsRequest } from '../../gen/surety/effect/v1/effect_service_pb.js';
import { effectOutput, shownEffectReads } from '../../ledger/effect/effect-output.js';
import { verifiedEffect } from '../../ledger/effect/verified-effect.js';
import type { ViewerRequest } from '../../ledger/effect/visible-effect.js';
import { DAY, type EffectState, type Micros } from '../../ledger/types.js';
import type { Reader } from '../../store/reader.js';
import { PageBudget } from '../fill-page.js';
import type { CallContext, HandlerTools } from '../handler.js';
import { encodePageToken, type PageFilter, readPageToken } from '../page-token.js';
import { Violations } from '../validate.js';
import { STATES, wireEffect } from './encode-effect.js';
import { gather } from './read-effect.js';
import { MAX_POSITION, readPosition, readViewer } from './read-request.js';
import { isListed, type ListScope, readListScope } from './list-scope.js';

/** So many rows does one statement look at: some 10 ms, far below what may hold up the domain's row. */
const MAX_SCANNED = 5_000;
/** And for so long does one call look on; a page that is not full by then says where to go on. */
const MAX_LOOK_MS = 1_000;
const MAX_NAME_OCTETS = 256;
/** Longer than any domain is old. */
const MAX_AGE: Micros = 36_500n * DAY;

/** What is asked for; empty texts ask for all. */
interface EffectFilter {
  readonly state: EffectState | '';
  readonly sink: string;
  readonly eventId: string;
  readonly effectKey: string;
  readonly minAge: Micros;
}

/** A row of the query `effects_after`; the effect is null where none matched. */
interface ScanRow {
  readonly effectId: string | null;
  readonly fence: bigint | null;
  /** Of the last row that was looked at; null where there was none. */
  readonly lastFence: bigint | null;
  readonly scanned: bigint;
}

/** An effect that was found, by its place in the list. */
interface FoundEffect {
  readonly effectId: string;
  readonly fence: bigint;
}

/** What one statement found. */
interface Scan {
  readonly found: readonly FoundEffect[];
  /** The fence behind which the next one looks; undefined: there is nothing behind it. */
  readonly next: bigint | undefined;
}

/**
 * A page of effects in the order of their fences (effects.md, Cancel, reads, retry). Each row is held against the log; one
 * that contradicts it ends the call with DATA_CORRUPT, naming it, since a list that left it out would hide it.
 */
export async function listEffects(
  { reader }: Pick<HandlerTools, 'reader'>,
  request: ListEffectsRequest,
  context: CallContext,
): Promise<{ effects: Effect[]; nextPageToken: string }> {
  const { domainId } = context;
  const violations = new Violations();
  const filter = readFilter(violations, request);
  const asker = readViewer(violations, context, request.registrationId);
  const pageSize = violations.pageSize('page_size', request.pageSize);
  const list = pageFilter(domainId, asker, filter);
  let after = readPosition(violations, readPageToken(violations, request.pageToken, list, 1)?.[0]);
  violations.throwIfAny();

  const scope = await readListScope(reader, domainId, asker);
  const effects: Effect[] = [];
  const budget = new PageBudget();
  const tokenBehind = (fence: bigint) => encodePageToken(list, [fence.toString()]);
  const lookUntil = performance.now() + MAX_LOOK_MS;
  do {
    const scan = await scanEffects(reader, {
      domainId,
      scope,
      filter,
      after,
      wanted: pageSize - effects.length,
    });
    for (const { effect, fence } of await showEffects(reader, domainId, scope, filter, scan.found)) {
      if (!budget.takesMessage(EffectSchema, effect))
        return { effects, nextPageToken: tokenBehind(fence - 1n) };
      effects.push(effect);
    }
    if (scan.next === undefined) return { effects, nextPageToken: '' };
    after = scan.next;
  } while (effects.length < pageSize && performance.now() < lookUntil && !context.signal.aborted);
  return { effects, nextPageToken: tokenBehind(after) };
}

function readFilter(violations: Violations, request: ListEffectsRequest): EffectFilter {
  const name = (field: string, value: string) =>
    violations.optionalId(field, value, 1, MAX_NAME_OCTETS) ?? '';
  return {
    state: request.state === 0 ? '' : violations.choice('state', request.state, STATES),
    sink: name('output_sink', request.outputSink),
    eventId: name('event_id', request.eventId),
    effectKey: name('effect_key', request.effectKey),
    minAge: violations.optionalDuration('min_age', request.minAge, 0n, MAX_AGE) ?? 0n,
  };
}

function pageFilter(domainId: string, { registrationId }: ViewerRequest, filter: EffectFilter): PageFilter {
  const { state, sink, eventId, effectKey, minAge } = filter;
  return ['effects', domainId, registrationId, state, sink, eventId, effectKey, minAge];
}

async function scanEffects(
  reader: Reader,
  input: {
    readonly domainId: string;
    readonly scope: ListScope;
    readonly filter: EffectFilter;
    readonly after: bigint;
    readonly wanted: number;
  },
): Promise<Scan> {
  const { domainId, scope, filter, after, wanted } = input;
  const sinks = scope.systems === undefined ? null : [...scope.systems.keys()];
  const events = filter.eventId === '' ? scope.eventIds : [filter.eventId];
  if (sinks?.length === 0 || events?.length === 0) return { found: [], next: undefined };
  // One more than wanted tells whether there is another page.
  const limit = wanted + 1;
  const scanned = isEverything(filter) && sinks === null ? limit : MAX_SCANNED;
  const place = events !== undefined ? 'events' : filter.state === 'UNKNOWN' ? 'unknown' : 'all';
  const rows = await reader.query<ScanRow>('effects_after', [
    domainId,
    after,
    scanned,
    limit,
    place,
    events ?? [],
    filter.state,
    filter.sink,
    filter.effectKey,
    filter.minAge,
    sinks,
  ]);
  return readScan(rows, scanned, wanted);
}

function isEverything({ state, sink, eventId, effectKey, minAge }: EffectFilter): boolean {
  return state === '' && sink === '' && eventId === '' && effectKey === '' && minAge === 0n;
}

function readScan(rows: readonly ScanRow[], limit: number, wanted: number): Scan {
  const all = rows.filter((row): row is ScanRow & FoundEffect => row.effectId !== null);
  const found = all.slice(0, wanted);
  if (all.length > wanted) return { found, next: found.at(-1)?.fence ?? MAX_POSITION };
  const exhausted = Number(rows[0]?.scanned ?? 0n) < limit;
  return { found, next: exhausted ? undefined : (rows[0]?.lastFence ?? undefined) };
}

/** What was found may have changed since: it is read again with its entry of the log, in one snapshot, and judged again. */
async function showEffects(
  reader: Reader,
  domainId: string,
  scope: ListScope,
  filter: EffectFilter,
  found: readonly FoundEffect[],
): Promise<{ readonly effect: Effect; readonly fence: bigint }[]> {
  if (found.length === 0) return [];
  const draft = await gather(reader, domainId, shownEffectReads(found.map(({ effectId }) => effectId)));
  const shown: { effect: Effect; fence: bigint }[] = [];
  for (const { effectId, fence } of found) {
    const stored = draft.get('effects', effectId);
    if (!stored || !isListed(scope, stored)) continue;
    const effect = verifiedEffect(draft, stored);
    if (filter.state !== '' && effect.state !== filter.state) continue;
    const wire = wireEffect(domainId, effect, effectOutput(draft, effect));
    shown.push({ effect: create(EffectSchema, wire), fence });
  }
  return shown;
}
