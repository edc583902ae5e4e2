import {
  EffectStepSchema,
  type GetEffectHistoryRequest,
} from '../../gen/surety/effect/v1/effect_service_pb.js';
import { refusal } from '../../ledger/refusal.js';
import { Refused } from '../../ledger/run-decision.js';
import { fillPage } from '../fill-page.js';
import type { CallContext, HandlerTools } from '../handler.js';
import { encodePageToken, readPageToken } from '../page-token.js';
import { Violations } from '../validate.js';
import { type EntryRow, type StepInit, wireStep } from './effect-step.js';
import { readRecord } from './read-effect.js';
import { readEffectId, readPosition, readViewer } from './read-request.js';

/** A row of the query `effect_history`. */
interface HistoryRow {
  readonly seq: bigint;
  readonly entry: Buffer;
  readonly leafHash: Buffer;
  readonly effectStep: bigint;
}

/**
 * A page of an effect's steps, which are contiguous: one that is missing is never passed over (effects.md, Completeness).
 * The log keeps those of an archived effect too.
 */
export async function getEffectHistory(
  { reader }: Pick<HandlerTools, 'reader'>,
  request: GetEffectHistoryRequest,
  context: CallContext,
): Promise<{ steps: StepInit[]; nextPageToken: string }> {
  const { domainId } = context;
  const violations = new Violations();
  const effectId = readEffectId(violations, request.effectId);
  const asker = readViewer(violations, context, request.registrationId);
  const pageSize = violations.pageSize('page_size', request.pageSize);
  const filter = ['effect_history', domainId, effectId];
  const after = readPosition(violations, readPageToken(violations, request.pageToken, filter, 1)?.[0]);
  violations.throwIfAny();

  const effect = await readRecord(reader, domainId, asker, effectId);
  const { messages: steps, next } = await fillPage(pageSize, {
    schema: EffectStepSchema,
    read: (last: HistoryRow | undefined, limit) =>
      reader.query<HistoryRow>('effect_history', [domainId, effectId, last?.effectStep ?? after, limit]),
    wire: (rows) => rows.map((row) => wireStep(domainId, { ...row, effectId } satisfies EntryRow)),
  });
  steps.forEach(({ step }, index) => {
    if (step !== after + 1n + BigInt(index)) throw stepMissing(effectId, after + 1n + BigInt(index));
  });
  const last = steps.at(-1)?.step ?? after;
  if (next === undefined && last < effect.step) throw stepMissing(effectId, last + 1n);
  return { steps, nextPageToken: next === undefined ? '' : encodePageToken(filter, [last.toString()]) };
}

function stepMissing(effectId: string, step: bigint): Refused {
  return new Refused(
    refusal('DATA_CORRUPT', 'A step of the effect is missing in the log.', {
      metadata: { record: `effect/${effectId}/${step}` },
    }),
  );
}
