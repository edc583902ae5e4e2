import type { Reader } from '../store/reader.js';

/** So many unsettled effects are looked at in one statement: some milliseconds, whatever is stored. */
export const LOOKED_AT_ONCE = 1_000n;

/** A PREPARED effect whose grant has ended. */
export interface EndedGrantCandidate {
  readonly domainId: string;
  readonly effectId: string;
}

/** What one page showed. */
export interface EndedGrantPage {
  readonly candidates: readonly EndedGrantCandidate[];
  /** Nothing is left behind it: the next page begins at the front again. */
  readonly last: boolean;
}

interface PageRow {
  readonly lookedAt: bigint;
  readonly lastDomainId: string | null;
  readonly lastGrantId: string | null;
  readonly lastEventId: string | null;
  readonly lastEffectId: string | null;
  readonly domainId: string | null;
  readonly effectId: string | null;
}

type Place = readonly [domainId: string, grantId: string, eventId: string, effectId: string];

const FRONT: Place = ['', '', '', ''];

/**
 * Walks the effects that are not settled, by their grants, for those whose grant was revoked or went stale (effects.md,
 * Start before). Each page is of bounded cost; the place is kept from page to page, and from round to round. A start under
 * such a grant is refused at once anyway: what the walk brings late is the release of the pending work.
 */
export class EndedGrantWalk {
  private place = FRONT;

  constructor(private readonly reader: Reader) {}

  async next(): Promise<EndedGrantPage> {
    const rows = await this.reader.query<PageRow>('prepared_effects_of_ended_grants', [
      ...this.place,
      LOOKED_AT_ONCE,
    ]);
    const [first] = rows;
    const last = first === undefined || first.lookedAt < LOOKED_AT_ONCE;
    this.place = last ? FRONT : placeOf(first);
    const candidates = rows.flatMap(({ domainId, effectId }) =>
      domainId === null || effectId === null ? [] : [{ domainId, effectId }],
    );
    return { candidates, last };
  }
}

function placeOf({ lastDomainId, lastGrantId, lastEventId, lastEffectId }: PageRow): Place {
  return [lastDomainId ?? '', lastGrantId ?? '', lastEventId ?? '', lastEffectId ?? ''];
}
