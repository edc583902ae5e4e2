import { create } from '@bufbuild/protobuf';
import type { ListDeadLettersRequest } from '../../gen/surety/action/v1/action_service_pb.js';
import { type DeadLetter, DeadLetterSchema } from '../../gen/surety/action/v1/event_pb.js';
import type { DeadLetterRow } from '../../ledger/action/records.js';
import { sameDigest, sha256 } from '../../ledger/encoding.js';
import { refusal } from '../../ledger/refusal.js';
import { Refused } from '../../ledger/run-decision.js';
import { PageBudget } from '../fill-page.js';
import type { CallContext, HandlerTools } from '../handler.js';
import { encodePageToken, readPageToken } from '../page-token.js';
import { Violations } from '../validate.js';
import { FAILURES } from './action-enums.js';
import { readViewerFilter } from './action-viewer.js';
import { wireDeadLetter } from './encode-action.js';
import { MAX_LOOK_MS, MAX_SCANNED, readPosition } from './list-scan.js';

/** Dead letters are read at a time: some 500 KiB at most. */
const READ_AT_ONCE = 100;

/** A row of the query `dead_letters_after`; all of the letter is null where none matched. */
type ScanRow = { readonly [Field in keyof DeadLetterRow]: DeadLetterRow[Field] | null } & {
  readonly lastSeq: bigint | null;
  readonly scanned: bigint;
};

/** A page of what is left of the actions that failed and that the caller may see, in the order of the log. */
export async function listDeadLetters(
  { reader }: Pick<HandlerTools, 'reader'>,
  request: ListDeadLettersRequest,
  context: CallContext,
): Promise<{ deadLetters: DeadLetter[]; nextPageToken: string }> {
  const { domainId } = context;
  const violations = new Violations();
  const { failureReason } = request;
  const reason = failureReason === 0 ? '' : violations.choice('failure_reason', failureReason, FAILURES);
  const pageSize = violations.pageSize('page_size', request.pageSize);
  const list = ['dead_letters', domainId, reason];
  let after = readPosition(violations, readPageToken(violations, request.pageToken, list, 1)?.[0]);
  violations.throwIfAny();

  const { party, sources, types } = await readViewerFilter(reader, context);
  const deadLetters: DeadLetter[] = [];
  const budget = new PageBudget();
  const tokenBehind = (position: bigint) => encodePageToken(list, [position.toString()]);
  const lookUntil = performance.now() + MAX_LOOK_MS;
  do {
    const wanted = Math.min(pageSize - deadLetters.length, READ_AT_ONCE);
    const limits = [MAX_SCANNED, wanted + 1];
    const rows = await reader.query<ScanRow>('dead_letters_after', [
      ...[domainId, after, ...limits],
      ...[reason, party, sources, types],
    ]);
    const found = rows.filter((row): row is DeadLetterRow & ScanRow => row.actionId !== null);
    for (const row of found.slice(0, wanted)) {
      const letter = create(DeadLetterSchema, wireDeadLetter(requireSnapshot(row)));
      if (!budget.takesMessage(DeadLetterSchema, letter)) {
        return { deadLetters, nextPageToken: tokenBehind(row.auditSeq - 1n) };
      }
      deadLetters.push(letter);
    }
    const next = nextPosition(rows, found, wanted);
    if (next === undefined) return { deadLetters, nextPageToken: '' };
    after = next;
  } while (deadLetters.length < pageSize && performance.now() < lookUntil && !context.signal.aborted);
  return { deadLetters, nextPageToken: tokenBehind(after) };
}

/** Behind which position the next statement looks; undefined: there is nothing behind it. */
function nextPosition(
  rows: readonly ScanRow[],
  found: readonly DeadLetterRow[],
  wanted: number,
): bigint | undefined {
  if (found.length > wanted) return found[wanted - 1]?.auditSeq;
  const exhausted = Number(rows[0]?.scanned ?? 0n) < MAX_SCANNED;
  return exhausted ? undefined : (rows[0]?.lastSeq ?? undefined);
}

function requireSnapshot(letter: DeadLetterRow): DeadLetterRow {
  if (sameDigest(sha256(letter.snapshot), letter.snapshotDigest)) return letter;
  throw new Refused(
    refusal('DATA_CORRUPT', 'The stored snapshot contradicts its digest.', {
      metadata: { record: `dead_letter/${letter.actionId}` },
    }),
  );
}
