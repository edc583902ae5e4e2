import type { Action } from '../../gen/surety/action/v1/action_pb.js';
import type { Receipt } from '../../gen/surety/action/v1/receipt_pb.js';

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
  /** Never: the action fails. `detail` is recorded, 1 to 512 octets. */
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
  let judgement: unknown;
  try {
    judgement = await validator(view);
  } catch {
    return { verdict: 'wait' };
  }
  return isJudgement(judgement) ? judgement : { verdict: 'wait' };
}

function isJudgement(value: unknown): value is Judgement {
  if (typeof value !== 'object' || value === null || !('verdict' in value)) return false;
  const { verdict, goodForMs, detail } = value as Record<string, unknown>;
  if (verdict === 'send') {
    return (
      Number.isSafeInteger(goodForMs) && (goodForMs as number) > 0 && (goodForMs as number) <= MAX_GOOD_FOR_MS
    );
  }
  if (verdict === 'refuse') {
    return typeof detail === 'string' && detail !== '' && Buffer.byteLength(detail) <= MAX_DETAIL_OCTETS;
  }
  return verdict === 'wait';
}
