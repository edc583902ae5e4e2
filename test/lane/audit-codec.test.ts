import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';
import { AuditEntrySchema, AuditKind as WireKind } from '../../src/gen/surety/audit/v1/entry_pb.js';
import {
  StateSource as WireSource,
  EffectState as WireState,
} from '../../src/gen/surety/effect/v1/effect_pb.js';
import { Reason as WireReason } from '../../src/gen/surety/error/v1/reason_pb.js';
import { auditCodec } from '../../src/lane/audit-codec.js';
import type { AuditFields, AuditKind, EffectAudit } from '../../src/ledger/audit/records.js';
import { sha256 } from '../../src/ledger/encoding.js';
import type { StateSource } from '../../src/ledger/types.js';

const entry: AuditFields = {
  domainId: 'acme.test',
  seq: 2n ** 53n + 1n,
  incarnation: 3n,
  time: 1_767_225_600_123_456n,
  kind: 'effect_step',
  actorSpiffeId: 'spiffe://acme.test/executor/a',
  commandId: 'req_1',
};

const effect: EffectAudit = {
  effectId: 'eff_1',
  step: 2n,
  fromState: 'PREPARED',
  toState: 'EXECUTING',
  source: 'executor',
  fence: 2n ** 63n - 1n,
  attemptId: 'attempt-1',
  evidenceDigest: sha256('evidence'),
  proofDigest: sha256('proof'),
  registrationId: 'reg-1',
  grantCurrent: false,
  sink: 'bank',
  identityDigest: sha256('identity'),
  provenanceDigest: sha256('provenance'),
  disputed: true,
  decisionId: 'dec-1',
  grantId: 'grant-1',
  eventId: 'event-1',
};

const decode = (fields: AuditFields) =>
  fromBinary(AuditEntrySchema, Uint8Array.from(auditCodec.encode(fields)));
const plain = (text: string) => Uint8Array.from(sha256(text));

describe('the entries of the log', () => {
  it('say all of an effect step', () => {
    expect(decode({ ...entry, effect })).toMatchObject({
      domainId: 'acme.test',
      seq: 2n ** 53n + 1n,
      incarnation: 3n,
      time: { seconds: 1_767_225_600n, nanos: 123_456_000 },
      kind: WireKind.EFFECT_STEP,
      actorSpiffeId: 'spiffe://acme.test/executor/a',
      commandId: 'req_1',
      effect: {
        effectId: 'eff_1',
        step: 2n,
        fromState: WireState.PREPARED,
        toState: WireState.EXECUTING,
        source: WireSource.EXECUTOR,
        fence: 2n ** 63n - 1n,
        attemptId: 'attempt-1',
        evidenceDigest: plain('evidence'),
        proofDigest: plain('proof'),
        registrationId: 'reg-1',
        grantCurrent: false,
        outputSink: 'bank',
        identityDigest: plain('identity'),
        provenanceDigest: plain('provenance'),
        disputed: true,
        decisionId: 'dec-1',
        grantId: 'grant-1',
        eventId: 'event-1',
      },
    });
  });

  it('leave out what is absent, and tell an absent answer from a no', () => {
    const { grantCurrent: _, attemptId: _a, fromState: _f, ...rest } = effect;
    const { actorSpiffeId: _s, ...byService } = entry;
    const decoded = decode({ ...byService, effect: rest });
    expect(decoded.effect?.grantCurrent).toBeUndefined();
    expect(decoded).toMatchObject({
      actorSpiffeId: '',
      effect: { fromState: WireState.UNSPECIFIED, attemptId: '' },
    });
    expect(decoded.previousHead).toHaveLength(0);
    expect(decoded.decision).toBeUndefined();
  });

  it('say decisions, commands, records and the head of the incarnation before', () => {
    const decision = {
      decisionId: 'dec-1',
      allowed: false,
      reason: 'GRANT_EXHAUSTED',
      harnessId: 'planner',
      actorId: 'paula',
      action: 'payment.refund',
      resource: 'order-1184',
      contextDigest: sha256('context'),
    } as const;
    const record = { type: 'grant', id: 'g', revision: 7n, operation: 'create_grant', digest: sha256('d') };
    const command = {
      adminCommandId: 'command-1',
      operation: 'create_grant',
      payloadDigest: sha256('payload'),
      expectedPolicyRevision: 4n,
      expectedEntityRevision: 0n,
      keyThumbprint: 'thumbprint',
    };
    const said = { decision, record, command, intentSeq: 2n ** 53n, previousHead: sha256('head') };
    const decoded = decode({ ...entry, kind: 'decision', ...said });
    expect(decoded).toMatchObject({
      decision: { ...decision, reason: WireReason.GRANT_EXHAUSTED, contextDigest: plain('context') },
      record: { ...record, digest: plain('d') },
      command: { ...command, payloadDigest: plain('payload') },
      intentSeq: 2n ** 53n,
      previousHead: plain('head'),
    });
  });

  it('have each kind and source', () => {
    const kinds = Object.keys(WireKind).filter((name) => /^[A-Z_]+$/.test(name) && name !== 'UNSPECIFIED');
    for (const name of kinds) {
      const kind = name.toLowerCase() as AuditKind;
      expect(WireKind[decode({ ...entry, kind }).kind]).toBe(name);
    }
    const sources = Object.keys(WireSource).filter(
      (name) => /^[A-Z_]+$/.test(name) && name !== 'UNSPECIFIED',
    );
    for (const name of sources) {
      const source = name.toLowerCase() as StateSource;
      const decoded = decode({ ...entry, effect: { ...effect, source } });
      expect(WireSource[decoded.effect?.source ?? 0]).toBe(name);
    }
  });

  it('have one encoding', () => {
    const bytes = auditCodec.encode({ ...entry, effect });
    expect(auditCodec.encode({ effect: { ...effect }, ...entry })).toEqual(bytes);
    expect(Buffer.from(toBinary(AuditEntrySchema, fromBinary(AuditEntrySchema, bytes)))).toEqual(bytes);
  });

  it('tell a read what they say of an effect, and nothing where they do not', () => {
    const bytes = auditCodec.encode({ ...entry, effect });
    expect(auditCodec.decodeEffect(bytes)).toEqual({
      effectId: 'eff_1',
      step: 2n,
      toState: 'EXECUTING',
      fence: 2n ** 63n - 1n,
    });
    expect(auditCodec.decodeEffect(auditCodec.encode(entry))).toBeUndefined();
    expect(auditCodec.decodeEffect(Buffer.from('not an entry'))).toBeUndefined();
    expect(auditCodec.decodeEffect(bytes.subarray(0, bytes.length - 3))).toBeUndefined();
    const unknown = fromBinary(AuditEntrySchema, bytes);
    if (unknown.effect) unknown.effect.toState = 99 as WireState;
    expect(auditCodec.decodeEffect(toBinary(AuditEntrySchema, unknown))).toBeUndefined();
  });
});
