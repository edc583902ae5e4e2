import type { Action } from '../../gen/surety/action/v1/action_pb.js';
import type { Receipt } from '../../gen/surety/action/v1/receipt_pb.js';
import { cleanedText, utf8Length } from '../../ledger/text.js';

/** What a validator judges: the view of `GetDispatchView`. */
export interface DispatchView {
  readonly action: Action;
  readonly receipts: readonly Receipt[];
  /** The store's clock, in milliseconds since the epoch. */
  readonly storeTimeMs: number;
  /** The exact request that would be sent. */
  readonly body: Buffer;
}

/** A validator's judgement. */
export type Judgement =
  /** It may be sent; good for so many milliseconds of the store's clock, an hour at most. */
  | { readonly verdict: 'send'; readonly goodForMs: number }
  /** Not now: the action is handed out again later. */
  | { readonly verdict: 'wait' }
  /** Never: the action fails. `detail` is recorded, 1 to 512 octets, on one line: a space for each line break and the like. */
  | { readonly verdict: 'refuse'; readonly detail: string };

/** A check of the caller's own before a dispatch (actions.md, Gate validator). */
export type Validator = (view: DispatchView) => Judgement | Promise<Judgement>;

const MAX_DETAIL_OCTETS = 512;
/** A judgement outlives no lease, and no lease an hour. */
const MAX_GOOD_FOR_MS = 3_600_000;

/** Lets everything be sent that the service lets be dispatched. */
export const noValidator: Validator = () => ({ verdict: 'send', goodForMs: 60_000 });

/** Asks a validator. One that throws, or answers what is no judgement, changes nothing: it is asked again later. */
export async function judge(validator: Validator, view: DispatchView): Promise<Judgement> {
  try {
    return readJudgement(await validator(view)) ?? { verdict: 'wait' };
  } catch {
    return { verdict: 'wait' };
  }
}

function readJudgement(value: unknown): Judgement | undefined {
  if (typeof value !== 'object' || value === null || !('verdict' in value)) return undefined;
  const { verdict, goodForMs, detail } = value as Record<string, unknown>;
  if (verdict === 'wait') return { verdict };
  if (verdict === 'send' && isGoodFor(goodForMs)) return { verdict, goodForMs };
  if (verdict !== 'refuse' || typeof detail !== 'string') return undefined;
  // What the service would not take for a detail must not stand in the way of the refusal, nor its rule in place of the words.
  const said = cleanedText(detail);
  return said !== '' && utf8Length(said) <= MAX_DETAIL_OCTETS ? { verdict, detail: said } : undefined;
}

function isGoodFor(ms: unknown): ms is number {
  return Number.isSafeInteger(ms) && (ms as number) > 0 && (ms as number) <= MAX_GOOD_FOR_MS;
}
