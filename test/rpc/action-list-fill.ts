import { addReceipt } from '../../src/ledger/action/add-receipt.js';
import { proposeAction } from '../../src/ledger/action/propose-action.js';
import { sha256 } from '../../src/ledger/encoding.js';
import { DOMAIN, freshId, HARNESS } from '../support/effect-world.js';
import type { ServiceWorld } from './effect-service-world.js';

// How the lists of governed actions are filled: by what a harness may do, and dead letters by their rows.

/** What the contract takes at most. */
const LONG = { source: 's', sourceRef: 'r', type: 't', toolName: 'm' };

async function propose({ replica }: ServiceWorld, large: boolean): Promise<string> {
  const { source, sourceRef, type, toolName } = LONG;
  const tool = toolName.repeat(large ? 256 : 1);
  const outcome = await replica.lanes.submit(proposeAction, {
    domainId: DOMAIN,
    commandId: freshId('cmd'),
    caller: HARNESS,
    kind: 'harness',
    actionId: freshId('act'),
    idempotencyKey: freshId('key').padEnd(large ? 256 : 0, 'k'),
    source: source.repeat(large ? 256 : 1),
    sourceRef: sourceRef.repeat(large ? 512 : 1),
    type: type.repeat(large ? 256 : 1),
    toolName: tool,
    payload: Buffer.from(JSON.stringify({ tool_name: tool })),
    proposalTtl: null,
  });
  if (!outcome.ok) throw new Error(`propose: ${outcome.refusal.reason}`);
  return outcome.reply.action.actionId;
}

export async function proposeMany(
  world: ServiceWorld,
  numbers: readonly number[],
  large: boolean,
): Promise<void> {
  await Promise.all(numbers.map(() => propose(world, large)));
}

/** The action whose receipts and events are listed, when it is there. */
export let told = '';

/** Receipts of one action; each is an event of it too. */
export async function addReceipts(
  service: ServiceWorld,
  numbers: readonly number[],
  large: boolean,
): Promise<void> {
  // An action has at most so many receipts that all of them, at their largest, fit into a page.
  if (large) return;
  if (told === '') told = await propose(service, false);
  for (const _ of numbers) {
    const outcome = await service.replica.lanes.submit(addReceipt, {
      domainId: DOMAIN,
      commandId: freshId('cmd'),
      caller: HARNESS,
      kind: 'harness',
      actionId: told,
      receipt: {
        receiptKey: freshId('receipt'),
        kind: 'provider',
        status: 'seen',
        externalId: '',
        evidence: Buffer.from('{}'),
      },
    });
    if (!outcome.ok) throw new Error(`receipt: ${outcome.refusal.reason}`);
  }
}

/** What is left of actions that failed; large ones with snapshots of the largest actions. */
export async function addDeadLetters(
  service: ServiceWorld,
  numbers: readonly number[],
  large: boolean,
): Promise<void> {
  const actionIds = await Promise.all(numbers.map(() => propose(service, false)));
  const snapshot = Buffer.from(JSON.stringify({ action_id: 'x'.repeat(large ? 8_000 : 1) }));
  await service.world.admin.query(
    `INSERT INTO dead_letters (domain_id, action_id, failure_reason, detail, retryable, from_state, failed_at, snapshot,
       snapshot_digest, audit_seq)
     SELECT domain_id, action_id, 'worker', $3, false, 'GATED', created_at, $4, $5, last_seq FROM actions
     WHERE domain_id = $1 AND action_id = ANY ($2)`,
    [DOMAIN, actionIds, large ? 'd'.repeat(512) : 'd', snapshot, sha256(snapshot)],
  );
}
