import {
  type ArchiveEffectsCommand,
  type ArchiveEffectsReply,
  archiveEffects,
  MIN_RETENTION,
} from '../../src/ledger/effect/archive-effects.js';
import { effectRecordDigest } from '../../src/ledger/effect/tombstone.js';
import { sha256 } from '../../src/ledger/encoding.js';
import { Draft } from '../../src/ledger/working-set.js';
import { archiveRole } from '../../src/store/migrate-roles.js';
import type { Call } from '../fault/effect-life.js';
import { DOMAIN, type EffectWorld, freshId, type Replica } from './effect-world.js';

/** Lanes and a reader with the rights of the role that archives. */
export function archiver(world: EffectWorld, options: { fault?: string } = {}): Replica {
  return world.replica({ ...options, url: world.database.url, role: archiveRole });
}

/** Moves the store's clock on, in microseconds. */
export async function advanceClock(world: EffectWorld, micros: bigint): Promise<void> {
  await world.admin.query('UPDATE service_state SET clock_offset = clock_offset + $1', [micros.toString()]);
}

/** The number and the position that the domain's next archive has. */
export async function nextArchive(world: EffectWorld): Promise<ArchiveEffectsCommand['archive']> {
  const { rows } = await world.admin.query<{ number: string; after: string; last: string; chain: Buffer }>(
    `SELECT coalesce(max(a.archive_number), 0) + 1 AS number, coalesce(max(a.log_last_seq), 0) AS after, h.seq AS last,
      h.chain_hash AS chain FROM domain_heads h LEFT JOIN archives a ON a.domain_id = h.domain_id
     WHERE h.domain_id = $1 GROUP BY h.seq, h.chain_hash`,
    [DOMAIN],
  );
  const [next] = rows;
  if (!next) throw new Error('no head');
  return {
    archiveNumber: BigInt(next.number),
    archiveId: freshId('archive'),
    exportDigest: sha256('an export'),
    logAfterSeq: BigInt(next.after),
    logLastSeq: BigInt(next.last),
    logChainHash: next.chain,
  };
}

/** Archives these effects as they stand, as if their export were there. */
export async function archiveDirectly(
  world: EffectWorld,
  lanes: Replica,
  effectIds: readonly string[],
  overrides: Partial<ArchiveEffectsCommand> = {},
): Promise<ArchiveEffectsReply> {
  const set = await lanes.reader.gather(DOMAIN, { effects: effectIds, transitionsOf: effectIds });
  if (!set) throw new Error('no domain');
  const draft = new Draft(set);
  const outcome = await lanes.lanes.submit(archiveEffects, {
    domainId: DOMAIN,
    commandId: freshId('cmd'),
    archive: await nextArchive(world),
    retention: MIN_RETENTION,
    effects: effectIds.map((effectId) => {
      const effect = draft.get('effects', effectId);
      const receipts = draft.find('transitionsOfEffect', effectId);
      return { effectId, recordDigest: effect ? effectRecordDigest(effect, receipts) : sha256('absent') };
    }),
    ...overrides,
  });
  if (!outcome.ok) throw new Error(JSON.stringify(outcome.refusal));
  return outcome.reply;
}

const TIMES = ['startedAt', 'observedAt'] as const;

/** The same call by the store's clock, which the tests move on. */
export async function timelyCall(replica: Replica, call: Call): Promise<Call> {
  const [probe] = await replica.reader.query<{ now: bigint }>('store_probe', []);
  const now = probe?.now ?? 0n;
  const command = structuredClone(call.command) as never as {
    evidence: { fields: Record<string, unknown>; bytes: Uint8Array; digest: Uint8Array };
    proof: { statement: Record<string, unknown>; proofBytes: Uint8Array; statementDigest: Uint8Array };
    caller: { leafDigest: Uint8Array };
  };
  for (const field of TIMES) if (field in command.evidence.fields) command.evidence.fields[field] = now;
  command.proof.statement['issuedAt'] = now;
  // Cloning made plain arrays of the buffers.
  for (const part of [
    command.evidence,
    command.proof,
    command.proof.statement,
    command.caller,
    command.evidence.fields,
  ]) {
    for (const [name, value] of Object.entries(part as object)) {
      if (value instanceof Uint8Array) (part as Record<string, unknown>)[name] = Buffer.from(value);
    }
  }
  return { ...call, command: command as never };
}
