import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  AuditService,
  ListEntriesRequestSchema,
  VerifyChainRequestSchema,
  WatchEntriesRequestSchema,
  type WatchEntriesResponse,
} from '../../src/gen/surety/audit/v1/audit_service_pb.js';
import { auditCodec } from '../../src/lane/audit-codec.js';
import { chainHash, leafHash } from '../../src/ledger/audit/chain.js';
import type { OperatorRow } from '../../src/ledger/authority/records.js';
import { auditService } from '../../src/rpc/audit-service.js';
import type { HandlerTools } from '../../src/rpc/handler.js';
import { PositionPoller } from '../../src/rpc/watch/position-poller.js';
import type { QueryParameter } from '../../src/store/reader.js';
import {
  callerOf,
  DOMAIN,
  type EffectWorld,
  HARNESS,
  openWorld,
  publish,
  type Replica,
  reservation,
  reserve,
  seedGrant,
} from '../support/effect-world.js';
import { contextOf, handlersOf, reasonOf, toolsOf } from '../support/handlers.js';

const AUDITOR = callerOf('spiffe://acme.test/auditor/ann');
const OPERATOR = callerOf('spiffe://acme.test/operator/olaf');

function operatorRow(spiffeId: string, over: Partial<OperatorRow> = {}): OperatorRow {
  return {
    spiffeId,
    signingKeyJwk: null,
    signingKeyThumbprint: null,
    roles: ['AUDITOR'],
    scopeDomainId: null,
    status: 'active',
    revision: 1n,
    ...over,
  };
}

let world: EffectWorld;
let replica: Replica;
let positions: PositionPoller;

beforeAll(async () => {
  world = await openWorld();
  replica = world.replica();
  positions = new PositionPoller(replica.reader);
  await world.seed('operators', [
    operatorRow(AUDITOR.spiffeId),
    operatorRow(OPERATOR.spiffeId, { roles: ['ADMIN'] }),
  ]);
  const grant = await seedGrant(world);
  for (let i = 0; i < 4; i += 1) {
    const outcome = await reserve(
      replica,
      reservation(await publish(replica), grant.grantId, { effectKey: `key-${i}` }),
    );
    if (!outcome.ok) throw new Error(outcome.refusal.reason);
  }
});

afterAll(async () => {
  positions.close();
  await world.close();
});

const handlers = () => handlersOf(AuditService, auditService(toolsOf(replica), positions));
const auditor = () => contextOf(AUDITOR, 'auditor');
const list = (afterSeq = 0n, pageSize = 0) =>
  handlers().listEntries(
    create(ListEntriesRequestSchema, { domainId: DOMAIN, afterSeq, pageSize }),
    auditor(),
  );
const verify = (request: object = {}) =>
  handlers().verifyChain(create(VerifyChainRequestSchema, { domainId: DOMAIN, ...request }), auditor());

async function headSeq(): Promise<bigint> {
  const { rows } = await world.admin.query('SELECT seq FROM domain_heads WHERE domain_id = $1', [DOMAIN]);
  return BigInt(rows[0].seq);
}

/** As a superuser who has taken the triggers off would, undone afterwards. */
async function tampered<T>(sql: string, parameters: unknown[], look: () => Promise<T>): Promise<T> {
  const { admin } = world;
  await admin.query('BEGIN');
  await admin.query(`CREATE TABLE kept AS SELECT * FROM audit_entries`);
  await admin.query(`CREATE TABLE kept_head AS SELECT * FROM domain_heads`);
  await admin.query('ALTER TABLE audit_entries DISABLE TRIGGER USER');
  await admin.query('ALTER TABLE domain_heads DISABLE TRIGGER USER');
  await admin.query(sql, parameters);
  await admin.query('COMMIT');
  try {
    return await look();
  } finally {
    await admin.query(`BEGIN; DELETE FROM audit_entries; INSERT INTO audit_entries SELECT * FROM kept; DROP TABLE kept;
      DELETE FROM domain_heads; INSERT INTO domain_heads SELECT * FROM kept_head; DROP TABLE kept_head;
      ALTER TABLE audit_entries ENABLE TRIGGER USER; ALTER TABLE domain_heads ENABLE TRIGGER USER; COMMIT`);
  }
}

describe('who may read a log', () => {
  test('its operators and auditors, by their rows at the time of the call', async () => {
    const request = create(ListEntriesRequestSchema, { domainId: DOMAIN });
    const as = (context: ReturnType<typeof contextOf>) => reasonOf(handlers().listEntries(request, context));
    expect(await as(auditor())).toBe('none');
    expect(await as(contextOf(OPERATOR, 'operator'))).toBe('none');
    // The method table may remember for some seconds what the row says no longer.
    expect(await as(contextOf(HARNESS, 'auditor'))).toBe('NOT_VISIBLE');
    expect(await as(contextOf(AUDITOR, 'auditor', { domainId: 'nowhere.test' }))).toBe('NOT_VISIBLE');
    expect(await as(contextOf({ ...AUDITOR, notAfter: 1n }, 'auditor'))).toBe('CALLER_UNKNOWN');
    const suspend = (status: string) =>
      world.admin.query('UPDATE operators SET status = $1 WHERE spiffe_id = $2', [status, AUDITOR.spiffeId]);
    await suspend('suspended');
    expect(await as(auditor())).toBe('NOT_VISIBLE');
    await suspend('active');
  });
});

describe('ListEntries', () => {
  test('pages through the log without a gap, and says where it ends', async () => {
    const head = await headSeq();
    const seqs: bigint[] = [];
    for (;;) {
      const page = await list(seqs.at(-1) ?? 0n, 5);
      expect(page.headSeq).toBe(head);
      seqs.push(...(page.entries ?? []).map((entry) => entry.seq as bigint));
      if ((page.entries ?? []).length < 5) break;
    }
    expect(seqs).toEqual(Array.from({ length: Number(head) }, (_, i) => BigInt(i + 1)));
  });

  test('refuses pages that are too large and positions before the beginning, both at once', async () => {
    const request = create(ListEntriesRequestSchema, { domainId: DOMAIN, afterSeq: -1n, pageSize: 1001 });
    await expect(handlers().listEntries(request, auditor())).rejects.toMatchObject({
      refusal: { violations: [{ field: 'after_seq' }, { field: 'page_size' }] },
    });
  });
});

describe('VerifyChain', () => {
  test('verifies a whole log', async () => {
    const head = await headSeq();
    const { findings, ...rest } = await verify();
    expect(findings).toEqual([]);
    expect(rest).toMatchObject({ verified: true, entries: head, lastSeq: head, complete: true });
  });

  test('goes on from where an earlier call ended, however the log is cut, steps of effects included', async () => {
    const head = await headSeq();
    for (const maxEntries of [1, 2, 5, 7]) {
      let afterSeq = 0n;
      let afterChainHash = new Uint8Array();
      for (let complete = false; !complete; ) {
        const answer = await verify({ afterSeq, afterChainHash, maxEntries });
        expect(answer.findings).toEqual([]);
        ({ complete = false } = answer);
        afterSeq = answer.lastSeq as bigint;
        afterChainHash = Uint8Array.from(answer.lastChainHash ?? []);
      }
      expect(afterSeq).toBe(head);
    }
  });

  test('a start with another chain hash, or behind the head, does not verify', async () => {
    const head = await headSeq();
    const wrong = new Uint8Array(32);
    expect((await verify({ afterSeq: 2n, afterChainHash: wrong })).findings).toMatchObject([
      { seq: 3n, finding: 'CHAIN_MISMATCH' },
    ]);
    expect((await verify({ afterSeq: head, afterChainHash: wrong })).findings).toMatchObject([
      { seq: head, finding: 'HEAD_MISMATCH' },
    ]);
    expect((await verify({ afterSeq: head + 5n, afterChainHash: wrong })).verified).toBe(false);
    expect(await reasonOf(verify({ afterSeq: 2n }))).toBe('FIELD_INVALID');
    expect(await reasonOf(verify({ afterChainHash: wrong }))).toBe('FIELD_INVALID');
  });

  test('names a changed entry, and only that', async () => {
    const sql = `UPDATE audit_entries SET entry = set_byte(entry, length(entry) - 1, get_byte(entry, length(entry) - 1) # 1)
      WHERE domain_id = $1 AND seq = 3`;
    const { findings, verified } = await tampered(sql, [DOMAIN], verify);
    expect(verified).toBe(false);
    expect(findings).toMatchObject([{ seq: 3n, finding: 'LEAF_MISMATCH' }]);
  });

  test('names a malformed entry, and still looks at the others', async () => {
    const sql = `UPDATE audit_entries SET entry = '\\xffff', leaf_hash = '\\x${leafHash(Buffer.from('ffff', 'hex')).toString('hex')}'
      WHERE domain_id = $1 AND seq IN (2, 6)`;
    const { findings, lastSeq } = await tampered(sql, [DOMAIN], verify);
    const named = (findings ?? []).map((finding) => `${finding.seq} ${finding.finding}`);
    expect(named).toEqual(expect.arrayContaining(['2 MALFORMED', '6 MALFORMED']));
    expect(lastSeq).toBe(await headSeq());
  });

  test('names a changed column, a dropped entry with its step, and a tail that was cut off', async () => {
    const rows = await world.admin.query(
      'SELECT seq, effect_id FROM audit_entries WHERE domain_id = $1 AND effect_id IS NOT NULL ORDER BY seq',
      [DOMAIN],
    );
    const seq = BigInt(rows.rows[0].seq);
    const column = 'UPDATE audit_entries SET effect_step = 9 WHERE domain_id = $1 AND seq = $2';
    expect((await tampered(column, [DOMAIN, seq], verify)).findings).toMatchObject([
      { seq, finding: 'FIELD_MISMATCH' },
    ]);
    const drop = 'DELETE FROM audit_entries WHERE domain_id = $1 AND seq = $2';
    expect((await tampered(drop, [DOMAIN, seq], verify)).findings).toMatchObject([
      { seq, finding: 'MISSING' },
    ]);
    const head = await headSeq();
    const tail = await tampered(drop, [DOMAIN, head], verify);
    expect(tail.findings).toMatchObject([{ seq: head, finding: 'MISSING' }]);
    expect(tail).toMatchObject({ complete: true, lastSeq: head - 1n });
  });

  test('names a step whose predecessor does not stand before the range', async () => {
    const { rows } = await world.admin.query(
      `SELECT h.seq + 1 AS seq, h.chain_hash, (SELECT max(effect_id) FROM audit_entries WHERE domain_id = $1) AS effect_id
       FROM domain_heads h WHERE domain_id = $1`,
      [DOMAIN],
    );
    const { chain_hash: previous, effect_id: effectId } = rows[0];
    const seq = BigInt(rows[0].seq);
    // Made with all its hashes and the head, as one who can write to the database would.
    const entry = auditCodec.encode({
      kind: 'effect_step',
      commandId: 'forged',
      domainId: DOMAIN,
      seq,
      incarnation: 1n,
      time: 0n,
      effect: {
        effectId,
        step: 3n,
        toState: 'EXECUTING',
        source: 'executor',
        fence: 1n,
        sink: 'bank',
        identityDigest: Buffer.alloc(32),
      },
    });
    const leaf = leafHash(entry);
    const chain = chainHash(previous, leaf);
    const sql = `WITH moved AS (UPDATE domain_heads SET seq = $2::bigint, chain_hash = $5::bytea WHERE domain_id = $1)
      INSERT INTO audit_entries VALUES ($1, $2::bigint, $3::bytea, $4::bytea, $5::bytea, $6, 3)`;
    const start = { afterSeq: seq - 1n, afterChainHash: Uint8Array.from(previous) };
    const answer = await tampered(sql, [DOMAIN, seq, entry, leaf, chain, effectId], () => verify(start));
    expect(answer.findings).toMatchObject([{ seq, finding: 'STEP_GAP' }]);
  });

  test('names a log that goes on behind its head', async () => {
    const head = await headSeq();
    const sql = `UPDATE domain_heads SET seq = seq - 1, chain_hash =
      (SELECT chain_hash FROM audit_entries WHERE domain_id = $1 AND seq = $2::bigint - 1) WHERE domain_id = $1`;
    const { findings } = await tampered(sql, [DOMAIN, head], verify);
    expect(findings).toMatchObject([{ seq: head - 1n, finding: 'HEAD_MISMATCH' }]);
  });

  test('leaves what is appended meanwhile for the next call', async () => {
    const head = await headSeq();
    const tools = toolsOf(replica);
    const reader: HandlerTools['reader'] = {
      gather: (domainId, reads) => tools.reader.gather(domainId, reads),
      query: async <Row extends object>(name: string, parameters: readonly QueryParameter[]) => {
        const rows = await tools.reader.query<Row>(name, parameters);
        if (name === 'audit_head') await publish(replica);
        return rows;
      },
    };
    const growing = handlersOf(AuditService, auditService({ ...tools, reader }, positions));
    const answer = await growing.verifyChain(
      create(VerifyChainRequestSchema, { domainId: DOMAIN }),
      auditor(),
    );
    expect(answer).toMatchObject({ verified: true, complete: true, lastSeq: head, entries: head });
    expect(await headSeq()).toBeGreaterThan(head);
  });

  test('names a last entry that is missing though others were appended meanwhile', async () => {
    const head = await headSeq();
    const tools = toolsOf(replica);
    let pages = 0;
    const reader: HandlerTools['reader'] = {
      gather: (domainId, reads) => tools.reader.gather(domainId, reads),
      query: async <Row extends object>(name: string, parameters: readonly QueryParameter[]) => {
        if (name === 'audit_page') pages += 1;
        // It never ended: each page was as full as the one before, with nothing in it to verify.
        if (pages > 3) throw new Error('read without an end');
        const rows = await tools.reader.query<Row>(name, parameters);
        // What was read before the last one was appended: the one before it was the last, and is gone.
        const former = { seq: head - 1n, lastSeq: head - 2n };
        return name === 'audit_head' ? rows.map((row) => ({ ...row, ...former })) : rows;
      },
    };
    const former = handlersOf(AuditService, auditService({ ...tools, reader }, positions));
    const drop = 'DELETE FROM audit_entries WHERE domain_id = $1 AND seq = $2';
    const request = create(VerifyChainRequestSchema, { domainId: DOMAIN, maxEntries: Number(head - 1n) });
    const answer = await tampered(drop, [DOMAIN, head - 1n], async () =>
      former.verifyChain(request, auditor()),
    );
    expect(answer).toMatchObject({ verified: false, complete: true, lastSeq: head - 2n });
    expect(answer.findings).toMatchObject([{ seq: head - 1n, finding: 'MISSING' }]);
  });

  test('gives up when its caller is gone', async () => {
    const request = create(VerifyChainRequestSchema, { domainId: DOMAIN });
    const gone = contextOf(AUDITOR, 'auditor', { signal: AbortSignal.abort() });
    expect(await reasonOf(handlers().verifyChain(request, gone))).toBe('DEADLINE_PASSED');
  });
});

describe('WatchEntries', () => {
  const watch = (afterSeq: bigint, signal: AbortSignal) => {
    const request = create(WatchEntriesRequestSchema, { domainId: DOMAIN, afterSeq });
    const stream = handlers().watchEntries(request, contextOf(AUDITOR, 'auditor', { signal }));
    return (stream as AsyncIterable<WatchEntriesResponse>)[Symbol.asyncIterator]();
  };

  test('gives what is there, then what comes, and misses nothing after it was cut off', async () => {
    const controller = new AbortController();
    const first = watch(0n, controller.signal);
    const head = await headSeq();
    const seen: bigint[] = [];
    const take = async (stream: AsyncIterator<WatchEntriesResponse>, until: bigint) => {
      while ((seen.at(-1) ?? 0n) < until) {
        const { value } = await stream.next();
        if (value.entry) seen.push(value.position);
      }
    };
    await take(first, head);
    const next = first.next();
    await publish(replica);
    seen.push((await next).value.position);
    controller.abort();
    expect((await first.next()).done).toBe(true);
    const again = new AbortController();
    const second = watch(seen.at(-1) as bigint, again.signal);
    await Promise.all([publish(replica), publish(replica)]);
    await take(second, await headSeq());
    again.abort();
    expect(seen).toEqual(Array.from({ length: Number(await headSeq()) }, (_, i) => BigInt(i + 1)));
  });

  test('begins with a heartbeat at its position', async () => {
    const controller = new AbortController();
    const head = await headSeq();
    const { value } = await watch(head, controller.signal).next();
    expect(value).toEqual({ position: head });
    controller.abort();
  });

  test('an auditor who is suspended gets nothing of what comes after it', async () => {
    const controller = new AbortController();
    const stream = watch(await headSeq(), controller.signal);
    await stream.next();
    await publish(replica);
    const head = await headSeq();
    for (let seen = 0n; seen < head; ) seen = (await stream.next()).value.position;
    const suspend = 'UPDATE operators SET status = $1 WHERE spiffe_id = $2';
    await world.admin.query(suspend, ['suspended', AUDITOR.spiffeId]);
    await publish(replica);
    expect(await reasonOf(stream.next())).toBe('NOT_VISIBLE');
    await world.admin.query(suspend, ['active', AUDITOR.spiffeId]);
    controller.abort();
  });

  test('is refused to strangers before anything is sent', async () => {
    const request = create(WatchEntriesRequestSchema, { domainId: DOMAIN });
    const stream = handlers().watchEntries(request, contextOf(HARNESS, 'auditor'));
    expect(await reasonOf(stream[Symbol.asyncIterator]().next())).toBe('NOT_VISIBLE');
  });
});
