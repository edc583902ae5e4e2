import {
  AuditService,
  StoredEntrySchema,
  type VerifyChainRequest,
} from '../gen/surety/audit/v1/audit_service_pb.js';
import { decodeEntry } from '../lane/decode-entry.js';
import { genesisHash } from '../ledger/audit/chain.js';
import { type ChainFinding, ChainVerifier, type OpenStep } from '../ledger/audit/verify-chain.js';
import { refusal } from '../ledger/refusal.js';
import { Refused } from '../ledger/run-decision.js';
import type { Digest } from '../ledger/types.js';
import { fillPage } from './fill-page.js';
import { bind, type CallContext, type HandlerTools, type ServiceBinding } from './handler.js';
import { requireReader } from './reader-access.js';
import { MAX_PAGE_SIZE, Violations } from './validate.js';
import { followLog } from './watch/follow-log.js';
import type { PositionPoller } from './watch/position-poller.js';

/** A watcher holds one page: at most some 400 KB. */
const WATCH_PAGE_SIZE = 200;
const MAX_SEQ = 2n ** 63n - 1n;
const MAX_VERIFIED_ENTRIES = 100_000;
const DEFAULT_VERIFIED_ENTRIES = 10_000;
/** Of the answer; a log that is wrong everywhere needs no longer list. */
const MAX_FINDINGS = 100;

/** A row of the query `audit_page`. */
interface EntryRow {
  readonly seq: bigint;
  readonly entry: Buffer;
  readonly leafHash: Buffer;
  readonly chainHash: Buffer;
  readonly effectId: string | null;
  readonly effectStep: bigint | null;
}

/** A row of the query `audit_head`. */
interface HeadRow {
  readonly seq: bigint;
  readonly chainHash: Buffer;
  /** Of the last entry that is there. */
  readonly lastSeq: bigint;
}

type ReaderTools = Pick<HandlerTools, 'reader'>;

/**
 * The log of a domain, for its operators and auditors (provenance-audit-replay.md, Audit). Reads take no lane: each page is
 * a short statement of its own.
 */
export function auditService(tools: HandlerTools, positions: PositionPoller): ServiceBinding {
  return bind(AuditService, {
    listEntries: async (request, context) => {
      const violations = new Violations();
      const afterSeq = violations.integer('after_seq', request.afterSeq, 0n, MAX_SEQ);
      const pageSize = violations.pageSize('page_size', request.pageSize);
      violations.throwIfAny();
      await requireReader(tools, context, context.domainId);
      const { messages } = await fillPage(pageSize, {
        schema: StoredEntrySchema,
        read: (last: EntryRow | undefined, limit) =>
          readPage(tools, context.domainId, last?.seq ?? afterSeq, limit),
        wire: (rows) => rows.map(storedEntry),
        chunk: MAX_PAGE_SIZE,
      });
      const head = await readHead(tools, context.domainId);
      return { entries: messages, headSeq: head.seq };
    },
    watchEntries: (request, context) => watchEntries(tools, positions, request.afterSeq, context),
    verifyChain: (request, context) => verifyChain(tools, request, context),
  });
}

/** Whether the watcher may still read is judged after each page that holds something, before any of it goes out. */
async function* watchEntries(
  tools: ReaderTools,
  positions: PositionPoller,
  afterSeq: bigint,
  context: CallContext,
) {
  const violations = new Violations();
  violations.integer('after_seq', afterSeq, 0n, MAX_SEQ);
  violations.throwIfAny();
  const recheck = async () => void (await requireReader(tools, context, context.domainId));
  yield* followLog({
    context,
    positions,
    afterPosition: afterSeq,
    recheck,
    readPage: async (position) => {
      const rows = await readPage(tools, context.domainId, position, WATCH_PAGE_SIZE);
      if (rows.length > 0) await recheck();
      return {
        messages: rows.map((row) => ({ position: row.seq, entry: storedEntry(row) })),
        position: rows.at(-1)?.seq ?? position,
        more: rows.length === WATCH_PAGE_SIZE,
      };
    },
    heartbeat: (position) => ({ position }),
  });
}

async function verifyChain(tools: ReaderTools, request: VerifyChainRequest, context: CallContext) {
  const { domainId } = context;
  const { start, maxEntries } = readVerifyRequest(request, domainId);
  await requireReader(tools, context, domainId);
  const head = await readHead(tools, domainId);
  const verifier = new ChainVerifier(domainId, decodeEntry, start);
  const findings: ChainFinding[] = [];
  // What is appended meanwhile is left for the next call; what stands behind the head is not.
  const end = head.lastSeq > head.seq ? head.lastSeq : head.seq;
  let exhausted = start.seq >= end;
  while (!exhausted && verifier.entries < BigInt(maxEntries)) {
    throwIfGone(context);
    const limit = Math.min(maxEntries - Number(verifier.entries), MAX_PAGE_SIZE);
    const rows = await readPage(tools, domainId, verifier.lastSeq, limit);
    for (const row of rows) {
      if (row.seq <= end) findings.push(...verifier.add(chainEntry(row)));
    }
    findings.push(...(await stepGaps(tools, domainId, verifier.takeOpenSteps(), start.seq)));
    findings.splice(MAX_FINDINGS);
    // Where the entry at the end is missing, only what was appended meanwhile tells that the end was reached.
    exhausted = rows.length < limit || verifier.lastSeq >= end || rows.some((row) => row.seq > end);
  }
  if (exhausted) findings.push(...verifier.finish(head));
  return {
    verified: findings.length === 0,
    entries: verifier.entries,
    lastSeq: verifier.lastSeq,
    lastChainHash: Uint8Array.from(verifier.lastChainHash),
    complete: exhausted,
    findings: findings.slice(0, MAX_FINDINGS),
  };
}

function readVerifyRequest(
  request: VerifyChainRequest,
  domainId: string,
): { start: { seq: bigint; chainHash: Digest }; maxEntries: number } {
  const violations = new Violations();
  const seq = violations.integer('after_seq', request.afterSeq, 0n, MAX_SEQ);
  const given = violations.optionalDigest('after_chain_hash', request.afterChainHash);
  if (seq > 0n && !given) violations.refuse('after_chain_hash', 'is required where after_seq is not 0');
  if (seq === 0n && given) violations.refuse('after_chain_hash', 'must be empty where after_seq is 0');
  violations.integer('max_entries', BigInt(request.maxEntries), 0n, BigInt(MAX_VERIFIED_ENTRIES));
  violations.throwIfAny();
  return {
    start: { seq, chainHash: given ?? genesisHash(domainId) },
    maxEntries: request.maxEntries === 0 ? DEFAULT_VERIFIED_ENTRIES : request.maxEntries,
  };
}

/** An effect's step whose predecessor does not stand before the range is a gap. */
async function stepGaps(
  tools: ReaderTools,
  domainId: string,
  open: readonly OpenStep[],
  startSeq: bigint,
): Promise<ChainFinding[]> {
  if (open.length === 0) return [];
  const rows = await tools.reader.query<{ effectId: string; effectStep: bigint; seq: bigint }>(
    'audit_steps',
    [domainId, open.map((step) => step.effectId), open.map((step) => step.missingStep.toString())],
  );
  const found = new Set(
    rows.filter((row) => row.seq <= startSeq).map((row) => `${row.effectStep}/${row.effectId}`),
  );
  return open
    .filter((step) => !found.has(`${step.missingStep}/${step.effectId}`))
    .map((step) => ({ seq: step.seq, finding: 'STEP_GAP' }));
}

function throwIfGone({ signal, deadline }: CallContext): void {
  if (!signal.aborted && (deadline === undefined || performance.now() < deadline)) return;
  throw new Refused(refusal('DEADLINE_PASSED', 'The deadline passed; ask for fewer entries at a time.'));
}

function readPage(
  tools: ReaderTools,
  domainId: string,
  afterSeq: bigint,
  limit: number,
): Promise<EntryRow[]> {
  return tools.reader.query<EntryRow>('audit_page', [domainId, afterSeq, limit]);
}

async function readHead(tools: ReaderTools, domainId: string): Promise<HeadRow> {
  const [head] = await tools.reader.query<HeadRow>('audit_head', [domainId]);
  if (head) return head;
  throw new Refused(
    refusal('DATA_CORRUPT', "The head of the domain's log is missing.", {
      metadata: { record: `domain_head:${domainId}` },
    }),
  );
}

/** The messages take plain arrays. */
function storedEntry(row: EntryRow) {
  return {
    seq: row.seq,
    entry: Uint8Array.from(row.entry),
    leafHash: Uint8Array.from(row.leafHash),
    chainHash: Uint8Array.from(row.chainHash),
  };
}

function chainEntry(row: EntryRow) {
  const { seq, entry, leafHash, chainHash, effectId, effectStep } = row;
  return { seq, entry, leafHash, chainHash, effect: { effectId, step: effectStep } };
}
