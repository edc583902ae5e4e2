import { durationFromMs } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { WorkloadSession } from '../../src/cli/client/workload-session.js';
import { AuditService } from '../../src/gen/surety/audit/v1/audit_service_pb.js';
import { EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { EffectService } from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { LineageDirection } from '../../src/gen/surety/provenance/v1/provenance_service_pb.js';
import { ClearancePurpose } from '../../src/gen/surety/provenance/v1/record_pb.js';
import { createSigningKey, type SigningKey } from '../../src/identity/sign.js';
import { sha256 } from '../../src/ledger/encoding.js';
import {
  ACME,
  AUDITOR,
  type E2eWorld,
  HARNESS,
  OPERATOR,
  openE2eWorld,
  refusedWith,
} from '../support/e2e-world.js';
import {
  bySuperuser,
  cancel,
  decide,
  findingsOfLog,
  type ReserveRequest,
  reservation,
  reserveAs,
  traces,
  WHOLE_LOG,
} from '../support/e2e-parties.js';
import {
  type Derivation,
  ProvenanceParty,
  referenceOf,
  type Statement,
  signed,
} from '../support/provenance-party.js';

const { PREPARED, EXECUTING, SUCCEEDED, UNKNOWN, CANCELLED } = EffectState;

describe('effects.md, Beyond: a changed row is noticed', () => {
  let world: E2eWorld;
  let executor: WorkloadSession;

  beforeAll(async () => {
    // No sweep but those that `advance` makes.
    world = await openE2eWorld({ env: { SURETY_SWEEP_INTERVAL_MS: '600000' } });
    executor = await world.executor();
  });
  afterAll(() => world.close());

  /** Changes an effect's row past every guard, and puts it back afterwards. */
  async function whileChanged(
    effectId: string,
    change: Record<string, unknown>,
    act: () => Promise<void>,
  ): Promise<void> {
    const columns = Object.keys(change);
    const set = columns.map((column, index) => `${column} = $${index + 2}`).join(', ');
    const update = `UPDATE effects SET ${set} WHERE effect_id = $1`;
    const { rows } = await world.sql.query('SELECT * FROM effects WHERE effect_id = $1', [effectId]);
    await bySuperuser(world, update, [effectId, ...Object.values(change)]);
    await act();
    await bySuperuser(world, update, [effectId, ...columns.map((column) => rows[0][column])]);
  }

  async function expectCorrupt(call: Promise<unknown>, record: string): Promise<void> {
    expect(await refusedWith(call)).toMatchObject({
      code: 'DATA_LOSS',
      reason: 'DATA_CORRUPT',
      metadata: { record },
    });
  }

  test.each<[string, EffectState, Record<string, unknown>]>([
    ['a state that was not reached', PREPARED, { state: 'CANCELLED', holds_key: false }],
    ['a failure that was a success', SUCCEEDED, { state: 'FAILED', holds_key: false }],
    ['a lower fence', EXECUTING, { fence: 1 }],
    ['a higher fence', EXECUTING, { fence: '4611686018427387904' }],
    ['a step that was not taken', UNKNOWN, { step: 9 }],
    ['a step that was', UNKNOWN, { step: 2 }],
    ['another entry of the log', SUCCEEDED, { last_seq: 1 }],
    ['an entry that is not there', SUCCEEDED, { last_seq: 1_000_000 }],
  ])('%s', async (_, state, change) => {
    const effectKey = `changed ${JSON.stringify(change)}`;
    const request: ReserveRequest = await reservation(world, { effectKey });
    const { effectId } = await reserveAs(world, HARNESS, request);
    await world.effectIn(state, executor, request);
    const look = () => executor.look(effectId);
    const shown = await look();
    const before = await traces(world);
    await whileChanged(effectId, change, async () => {
      const record = `effect/${effectId}`;
      const [harness, auditor] = [HARNESS, AUDITOR].map((id) => world.channel(id).service(EffectService));
      await expectCorrupt(look(), record);
      await expectCorrupt(harness?.checkRetry({ effectId }) as Promise<unknown>, record);
      await expectCorrupt(harness?.getEffectHistory({ effectId }) as Promise<unknown>, record);
      await expectCorrupt(auditor?.listEffects({ domainId: ACME }) as Promise<unknown>, record);
      await expectCorrupt(reserveAs(world, HARNESS, request), record);
      await expectCorrupt(cancel(world, effectId, 'none'), record);
      const start = executor.start(shown, 'an attempt of mine');
      await expectCorrupt(executor.channel.service(EffectService).startExecution(await start), record);
      expect(await traces(world)).toEqual(before);
    });
    expect(await look()).toEqual(shown);
  });

  test('a key that a changed row holds is not given away', async () => {
    const effectKey = 'held';
    const { effectId } = await world.reserve({ effectKey });
    await whileChanged(effectId, { fence: 1 }, async () => {
      const before = await traces(world);
      const request = await reservation(world, { effectKey });
      await expectCorrupt(reserveAs(world, HARNESS, request), `effect/${effectId}`);
      const after = await traces(world);
      expect([after['fence_counter'], after['effects']]).toEqual([
        before['fence_counter'],
        before['effects'],
      ]);
    });
  });

  test('a changed entry of the log is named, and its effect is refused', async () => {
    const { effect } = await world.effectIn(SUCCEEDED, executor);
    const { effectId } = effect;
    const position = String(effect.auditPosition);
    const before = await traces(world);
    const { rows } = await world.sql.query(
      'SELECT entry FROM audit_entries WHERE domain_id = $1 AND seq = $2',
      [ACME, position],
    );
    const entry = rows[0].entry as Buffer;
    const changed = Buffer.from(entry);
    // One bit of the fence, or of whatever stands last.
    changed[changed.length - 1] = (changed[changed.length - 1] ?? 0) ^ 1;
    const write = (bytes: Buffer) =>
      bySuperuser(world, 'UPDATE audit_entries SET entry = $1 WHERE domain_id = $2 AND seq = $3', [
        bytes,
        ACME,
        position,
      ]);
    await write(changed);
    await expectCorrupt(executor.look(effectId), `effect/${effectId}`);
    const auditor = world.channel(AUDITOR);
    const watched = auditor
      .service(EffectService)
      .watchEffects({ domainId: ACME, afterPosition: effect.auditPosition - 1n });
    await expectCorrupt(drain(watched), `audit_entry/${ACME}/${position}`);
    const verdict = await auditor.service(AuditService).verifyChain({ domainId: ACME });
    expect(verdict.verified).toBe(false);
    expect(verdict.findings.map(({ seq }) => seq)).toContain(effect.auditPosition);
    await write(entry);
    expect(await executor.look(effectId)).toEqual(effect);
    expect(await traces(world)).toEqual(before);
  });

  test('a step that is missing in the log is never passed over', async () => {
    const { effect } = await world.effectIn(UNKNOWN, executor);
    const { effectId } = effect;
    const history = () => world.channel(HARNESS).service(EffectService).getEffectHistory({ effectId });
    const { steps } = await history();
    const position = steps[1]?.auditPosition;
    await bySuperuser(world, 'UPDATE audit_entries SET effect_id = NULL WHERE seq = $1 AND domain_id = $2', [
      position,
      ACME,
    ]);
    await expectCorrupt(history(), `effect/${effectId}/2`);
    await bySuperuser(world, 'UPDATE audit_entries SET effect_id = $3 WHERE seq = $1 AND domain_id = $2', [
      position,
      ACME,
      effectId,
    ]);
    expect((await history()).steps).toEqual(steps);
  });

  test('a changed row stops nobody else: the sweep passes it and cancels what is due', async () => {
    const wish = { reservationTtl: durationFromMs(10_000) };
    const [bad, good] = [await world.reserve(wish), await world.reserve(wish)];
    const decision = await decide(world, bad.effectId);
    await whileChanged(bad.effectId, { fence: 1 }, async () => {
      await world.advance(10_000);
      expect((await executor.look(good.effectId)).state).toBe(CANCELLED);
      const { rows } = await world.sql.query('SELECT state FROM effects WHERE effect_id = $1', [
        bad.effectId,
      ]);
      expect(rows[0].state).toBe('PREPARED');
      const decisionId = decision.decision?.decisionId ?? '';
      await expectCorrupt(cancel(world, bad.effectId, decisionId), `effect/${bad.effectId}`);
    });
    await world.advance(1);
    expect((await executor.look(bad.effectId)).state).toBe(CANCELLED);
  });

  describe('a clearance receipt', () => {
    const OLGA = `spiffe://${ACME}/owner/olga`;
    const { REVIEW, SCAN } = ClearancePurpose;
    let party: ProvenanceParty;
    let derivation: Derivation;
    let record: ReturnType<typeof referenceOf>;

    const review = (over: Statement = {}, key: SigningKey = world.signingKey(OLGA)) =>
      signed(party.statement(derivation, REVIEW, OLGA, over), key);
    const reads = (): (() => Promise<unknown>)[] => {
      const { rpc } = party;
      const { objectType, objectId } = record;
      return [
        () => rpc.getRecord({ objectType, objectId }),
        () => rpc.listVersions({ objectType, objectId }),
        () => rpc.getLineage({ objectType, objectId, direction: LineageDirection.ANCESTORS }),
        () => rpc.verifyReference({ reference: record, expectation: {} }),
      ];
    };

    beforeAll(async () => {
      party = new ProvenanceParty(world.channel(HARNESS), await world.now());
      derivation = party.derivation('cleared', [await party.origin('source')]);
      const scan = await signed(party.statement(derivation, SCAN, OPERATOR), world.signingKey(OPERATOR));
      derivation = { ...derivation, clearanceJws: [await review(), scan] };
      record = referenceOf((await party.rpc.deriveRecord(derivation)).record);
    });

    /** What a superuser writes into the row of the review. */
    const token = async (jws: Promise<string>) => {
      const [, payload = ''] = (await jws).split('.');
      return {
        jws: Buffer.from(await jws),
        statement_digest: sha256(Buffer.from(payload, 'base64url')),
      };
    };
    test.each<[string, (jws: string) => Promise<Record<string, unknown>> | Record<string, unknown>]>([
      ['of which nothing is left', () => ({ jws: Buffer.from('nothing'), statement_digest: sha256('x') })],
      ['of somebody else', () => ({ approver_spiffe_id: `spiffe://${ACME}/owner/mallory` })],
      ['with another id', () => ({ receipt_id: 'receipt-of-mallory' })],
      ['used at another time', () => ({ used_at: 1 })],
      ['good for longer', () => ({ expires_at: '4102444800000000' })],
      ['with another signature', (jws) => ({ jws: Buffer.from(`${jws.slice(0, -8)}AAAAAAAA`) })],
      ['over another statement', () => token(review())],
      ['with the key of somebody else', () => ({ signing_key_jwk: createSigningKey().publicKey.jwk })],
      [
        'for other content, signed with the key beside it',
        async () => {
          const { publicKey, ...rest } = createSigningKey();
          return {
            ...(await token(review({ contentDigest: sha256('x') }, { publicKey, ...rest }))),
            signing_key_jwk: publicKey.jwk,
            signing_key_thumbprint: publicKey.thumbprint,
          };
        },
      ],
    ])('%s', async (name, change) => {
      const where = "purpose = 'review' AND provenance_digest = $1";
      const digest = Buffer.from(record.provenanceDigest);
      const { rows } = await world.sql.query(`SELECT * FROM clearance_receipts WHERE ${where}`, [digest]);
      const changed = await change(rows[0].jws.toString('latin1'));
      const columns = Object.keys(changed);
      const set = columns.map((column, index) => `${column} = $${index + 2}`).join(', ');
      const update = `UPDATE clearance_receipts SET ${set} WHERE ${where}`;
      await bySuperuser(world, update, [digest, ...Object.values(changed)]);
      for (const read of reads()) await expectCorrupt(read(), 'provenance:model_output/cleared/1');
      // A whole statement in its place is another basis than the one that is repeated.
      const whole = name.includes('statement') || name.includes('content');
      const reason = whole ? 'PROVENANCE_CONFLICT' : 'DATA_CORRUPT';
      expect(await refusedWith(party.rpc.deriveRecord(derivation))).toMatchObject({ reason });
      await bySuperuser(world, update, [digest, ...columns.map((column) => rows[0][column])]);
      for (const read of reads()) await read();
      expect((await party.rpc.deriveRecord(derivation)).duplicate).toBe(true);
    });

    test('that is gone', async () => {
      const digest = Buffer.from(record.provenanceDigest);
      const gone = "DELETE FROM clearance_receipts WHERE purpose = 'scan' AND provenance_digest = $1";
      await bySuperuser(world, gone, [digest]);
      for (const read of reads()) await expectCorrupt(read(), 'provenance:model_output/cleared/1');
    });
  });

  test('the log of all this verifies', async () => {
    expect(await findingsOfLog(world)).toEqual(WHOLE_LOG);
  });
});

async function drain(stream: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of stream);
}
