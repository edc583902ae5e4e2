import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { auditCodec } from '../../../src/lane/audit-codec.js';
import { decodeEntry } from '../../../src/lane/decode-entry.js';
import { chainHash, genesisHash, leafHash } from '../../../src/ledger/audit/chain.js';
import type { AuditRow, EffectAudit } from '../../../src/ledger/audit/records.js';
import { type ChainEntry, type ChainFinding, ChainVerifier } from '../../../src/ledger/audit/verify-chain.js';
import { sameDigest, sha256 } from '../../../src/ledger/encoding.js';
import { Draft, type WorkingSet } from '../../../src/ledger/working-set.js';
import { FIXTURE_DOMAIN, workingSet } from '../../support/ledger-fixture.js';

interface Log {
  readonly entries: readonly ChainEntry[];
  readonly head: { readonly seq: bigint; readonly chainHash: Buffer };
}

/** A log as the service would have written it: effects that go their steps, records between them. */
function makeLog(actors: readonly number[], incarnation = 1n): Log {
  const set = workingSet({ codec: auditCodec, incarnation, head: { incarnation: 0n } });
  const steps = new Map<number, bigint>();
  for (const actor of actors) appendOne(set, actor, steps);
  return { entries: entriesOf(set), head: set.head };
}

function appendOne(set: WorkingSet, actor: number, steps: Map<number, bigint>): void {
  const draft = new Draft(set);
  const base = { commandId: `cmd-${actor}`, actorSpiffeId: `spiffe://${FIXTURE_DOMAIN}/x/${actor}` };
  if (actor === 0) {
    const record = { type: 'grant', id: 'g', revision: 1n, operation: 'create_grant', digest: sha256('g') };
    draft.append({ ...base, kind: 'command', record });
  } else {
    const step = (steps.get(actor) ?? 0n) + 1n;
    steps.set(actor, step);
    draft.append({ ...base, kind: 'effect_step', effect: effectStep(actor, step) });
  }
  set.apply(draft);
}

function effectStep(actor: number, step: bigint): EffectAudit {
  return {
    effectId: `eff-${actor}`,
    step,
    toState: 'EXECUTING',
    source: 'executor',
    fence: 1n,
    sink: 'bank',
    identityDigest: sha256(`identity-${actor}`),
  };
}

function entriesOf(set: WorkingSet): ChainEntry[] {
  return set
    .changes()
    .rows.filter((row) => row.table === 'audit_entries')
    .map((row) => row.after as AuditRow)
    .map(({ effectId, effectStep: step, ...rest }) => ({ ...rest, effect: { effectId, step } }));
}

function verify(entries: readonly ChainEntry[], head?: Log['head']): ChainFinding[] {
  const start = { seq: 0n, chainHash: genesisHash(FIXTURE_DOMAIN) };
  const verifier = new ChainVerifier(FIXTURE_DOMAIN, decodeEntry, start);
  return [...entries.flatMap((entry) => verifier.add(entry)), ...verifier.finish(head)];
}

/** The same entries as an export holds them: without the columns. */
function exported(entries: readonly ChainEntry[]): ChainEntry[] {
  return entries.map(({ seq, entry, leafHash: leaf, chainHash: chain }) => ({
    seq,
    entry,
    leafHash: leaf,
    chainHash: chain,
  }));
}

const LOG = makeLog([0, 1, 2, 1, 2, 1, 0, 3]);

function at(index: number, change: (entry: ChainEntry) => ChainEntry): ChainEntry[] {
  return LOG.entries.map((entry, i) => (i === index ? change(entry) : entry));
}

function flipped(bytes: Uint8Array, byte: number, mask = 1): Buffer {
  const copy = Buffer.from(bytes);
  copy[byte] = (copy[byte] ?? 0) ^ mask;
  return copy;
}

/** An entry written anew with right hashes, as one who can write to the database would. */
function forged(entry: ChainEntry, bytes: Buffer, previous: Uint8Array): ChainEntry {
  const leaf = leafHash(bytes);
  return { ...entry, entry: bytes, leafHash: leaf, chainHash: chainHash(previous, leaf) };
}

const actors = fc.array(fc.nat({ max: 3 }), { minLength: 2, maxLength: 25 });

describe('the verifier of a log (provenance-audit-replay.md, Audit)', () => {
  test('finds nothing in a log as it was written', () => {
    expect(verify(LOG.entries, LOG.head)).toEqual([]);
    expect(verify(exported(LOG.entries))).toEqual([]);
    expect(verify([], { seq: 0n, chainHash: genesisHash(FIXTURE_DOMAIN) })).toEqual([]);
  });

  describe('names each bad entry and goes on', () => {
    test('changed bytes', () => {
      const entries = at(3, (entry) => ({ ...entry, entry: flipped(entry.entry, entry.entry.length - 1) }));
      expect(verify(entries, LOG.head)).toEqual([{ seq: 4n, finding: 'LEAF_MISMATCH' }]);
    });

    test('bytes that are no entry', () => {
      const garbage = Buffer.from([0xff, 0xff]);
      const findings = verify(
        at(3, (entry) => ({ ...entry, entry: garbage })),
        LOG.head,
      );
      expect(findings).toEqual([
        { seq: 4n, finding: 'MALFORMED' },
        { seq: 4n, finding: 'LEAF_MISMATCH' },
      ]);
    });

    test('hashes of another length', () => {
      const findings = verify(
        at(3, (entry) => ({ ...entry, chainHash: Buffer.alloc(5) })),
        LOG.head,
      );
      expect(findings).toEqual([{ seq: 4n, finding: 'MALFORMED' }]);
    });

    test('two at once, and the one between them is still looked at', () => {
      const entries = at(2, (entry) => ({ ...entry, entry: Buffer.from([0xff]) })).map((entry, i) =>
        i === 5 ? { ...entry, entry: flipped(entry.entry, 4) } : entry,
      );
      expect(new Set(verify(entries, LOG.head).map((finding) => finding.seq))).toEqual(new Set([3n, 6n]));
    });

    test('a changed entry with its leaf made anew', () => {
      const bytes = Buffer.from(auditCodec.encode(fieldsOf(4n)));
      const entries = at(3, (entry) => ({ ...entry, entry: bytes, leafHash: leafHash(bytes) }));
      expect(verify(entries, LOG.head)).toContainEqual({ seq: 4n, finding: 'CHAIN_MISMATCH' });
    });

    test('a changed entry with leaf and link made anew: the one behind it does not follow', () => {
      const previous = LOG.entries[2]?.chainHash as Uint8Array;
      const entries = at(3, (entry) => forged(entry, auditCodec.encode(fieldsOf(4n)), previous));
      expect(verify(entries, LOG.head)).toContainEqual({ seq: 5n, finding: 'CHAIN_MISMATCH' });
    });

    test('the last one with all its hashes made anew: the head says otherwise', () => {
      const last = LOG.entries.length - 1;
      const previous = LOG.entries[last - 1]?.chainHash as Uint8Array;
      const entries = at(last, (entry) => forged(entry, auditCodec.encode(fieldsOf(8n)), previous));
      expect(verify(entries, LOG.head)).toContainEqual({ seq: 8n, finding: 'HEAD_MISMATCH' });
    });

    test('an entry that says another position or domain than where it stands', () => {
      const previous = LOG.entries[5]?.chainHash as Uint8Array;
      const as = (fields: Parameters<typeof auditCodec.encode>[0]) =>
        verify(at(6, (entry) => forged(entry, auditCodec.encode(fields), previous))).filter(
          ({ seq }) => seq === 7n,
        );
      expect(as(fieldsOf(7n))).toEqual([]);
      expect(as({ ...fieldsOf(7n), seq: 8n })).toEqual([{ seq: 7n, finding: 'FIELD_MISMATCH' }]);
      expect(as({ ...fieldsOf(7n), domainId: 'globex.test' })).toEqual([
        { seq: 7n, finding: 'FIELD_MISMATCH' },
      ]);
    });

    test('columns that say another effect or step than the entry', () => {
      for (const effect of [
        { effectId: 'eff-9', step: 2n },
        { effectId: 'eff-1', step: 9n },
        { effectId: null, step: null },
      ]) {
        expect(
          verify(
            at(3, (entry) => ({ ...entry, effect })),
            LOG.head,
          ),
        ).toEqual([{ seq: 4n, finding: 'FIELD_MISMATCH' }]);
      }
    });

    test('what is missing, at the beginning, within and at the end', () => {
      expect(verify(LOG.entries.slice(1), LOG.head)).toContainEqual({ seq: 1n, finding: 'MISSING' });
      expect(
        verify(
          LOG.entries.filter((entry) => entry.seq !== 7n),
          LOG.head,
        ),
      ).toEqual([{ seq: 7n, finding: 'MISSING' }]);
      expect(verify(LOG.entries.slice(0, 6), LOG.head)).toEqual([
        { seq: 7n, finding: 'MISSING' },
        { seq: 8n, finding: 'MISSING' },
      ]);
    });

    test('a step of an effect that is missing with its entry', () => {
      const findings = verify(
        LOG.entries.filter((entry) => entry.seq !== 4n),
        LOG.head,
      );
      expect(findings).toEqual([
        { seq: 4n, finding: 'MISSING' },
        { seq: 6n, finding: 'STEP_GAP' },
      ]);
    });

    test('an entry behind the head', () => {
      expect(verify(LOG.entries, { seq: 7n, chainHash: LOG.entries[6]?.chainHash as Buffer })).toEqual([
        { seq: 7n, finding: 'HEAD_MISMATCH' },
      ]);
    });
  });

  describe('incarnations', () => {
    test('the first entry of each carries the chain hash before it', () => {
      const set = workingSet({ codec: auditCodec, head: { incarnation: 0n } });
      appendOne(set, 0, new Map());
      const second = workingSet({ codec: auditCodec, incarnation: 2n, head: set.head });
      appendOne(second, 0, new Map());
      appendOne(second, 0, new Map());
      const entries = [...entriesOf(set), ...entriesOf(second)];
      expect(verify(entries, second.head)).toEqual([]);
      expect(sameDigest(decodeEntry(entries[1]?.entry as Buffer)?.previousHead, set.head.chainHash)).toBe(
        true,
      );
      // Without the carried hash, or with another, it is no beginning.
      const previous = entries[0]?.chainHash as Uint8Array;
      for (const previousHead of [undefined, sha256('x')]) {
        const fields = { ...fieldsOf(2n), incarnation: 2n, ...(previousHead ? { previousHead } : {}) };
        const wrong = forged(entries[1] as ChainEntry, auditCodec.encode(fields), previous);
        expect(verify([entries[0] as ChainEntry, wrong])).toContainEqual({
          seq: 2n,
          finding: 'FIELD_MISMATCH',
        });
      }
    });

    test('none goes back', () => {
      const { entries } = makeLog([0], 3n);
      const previous = entries[0]?.chainHash as Uint8Array;
      const back = forged(
        { ...(entries[0] as ChainEntry), seq: 2n },
        auditCodec.encode({ ...fieldsOf(2n), incarnation: 2n }),
        previous,
      );
      expect(verify([...entries, back])).toContainEqual({ seq: 2n, finding: 'FIELD_MISMATCH' });
    });
  });

  test('a range that begins later asks for the steps that lie before it', () => {
    const start = { seq: 3n, chainHash: Buffer.from(LOG.entries[2]?.chainHash as Uint8Array) };
    const verifier = new ChainVerifier(FIXTURE_DOMAIN, decodeEntry, start);
    expect(LOG.entries.slice(3).flatMap((entry) => verifier.add(entry))).toEqual([]);
    expect(verifier.finish(LOG.head)).toEqual([]);
    expect(verifier.takeOpenSteps()).toEqual([
      { seq: 4n, effectId: 'eff-1', missingStep: 1n },
      { seq: 5n, effectId: 'eff-2', missingStep: 1n },
    ]);
    expect(verifier.takeOpenSteps()).toEqual([]);
    expect(verifier.lastChainHash).toEqual(LOG.head.chainHash);
    expect(verifier.entries).toBe(5n);
  });

  test('a range that begins with another chain hash does not follow', () => {
    const verifier = new ChainVerifier(FIXTURE_DOMAIN, decodeEntry, { seq: 3n, chainHash: sha256('x') });
    expect(verifier.add(LOG.entries[3] as ChainEntry)).toContainEqual({ seq: 4n, finding: 'CHAIN_MISMATCH' });
  });

  describe('any log', () => {
    test('verifies as it was written', () => {
      fc.assert(
        fc.property(actors, (list) => {
          const log = makeLog(list);
          expect(verify(log.entries, log.head)).toEqual([]);
        }),
      );
    });

    test('any changed bit of any entry or hash is found there or right behind', () => {
      fc.assert(
        fc.property(
          actors,
          fc.nat(),
          fc.nat(),
          fc.nat({ max: 7 }),
          fc.constantFrom('entry', 'leafHash', 'chainHash'),
          (list, which, byte, bit, field) => {
            const log = makeLog(list);
            const index = which % log.entries.length;
            const entries = log.entries.map((entry, i) =>
              i === index
                ? {
                    ...entry,
                    [field]: flipped(
                      entry[field as 'entry'],
                      byte % entry[field as 'entry'].length,
                      1 << bit,
                    ),
                  }
                : entry,
            );
            const findings = verify(entries, log.head);
            const seqs = findings.map((finding) => Number(finding.seq));
            expect(seqs).toContain(index + 1);
          },
        ),
      );
    });

    test('any dropped entry is found', () => {
      fc.assert(
        fc.property(actors, fc.nat(), (list, which) => {
          const log = makeLog(list);
          const dropped = BigInt(which % log.entries.length) + 1n;
          const entries = log.entries.filter((entry) => entry.seq !== dropped);
          expect(verify(entries, log.head)).toContainEqual({ seq: dropped, finding: 'MISSING' });
        }),
      );
    });

    test('a dropped entry is found also when all behind it are renumbered and chained anew', () => {
      fc.assert(
        fc.property(actors, fc.nat(), (list, which) => {
          const log = makeLog(list);
          const dropped = which % log.entries.length;
          expect(
            verify(rechained(log.entries.filter((_, i) => i !== dropped)), log.head).length,
          ).toBeGreaterThan(0);
        }),
      );
    });

    test('any inserted entry is found, wherever it is put and however it is chained', () => {
      fc.assert(
        fc.property(actors, fc.nat(), fc.nat(), fc.boolean(), (list, which, where, chained) => {
          const log = makeLog(list);
          const extra = log.entries[which % log.entries.length] as ChainEntry;
          const place = where % (log.entries.length + 1);
          const entries = [...log.entries.slice(0, place), extra, ...log.entries.slice(place)];
          expect(verify(chained ? rechained(entries) : entries, log.head).length).toBeGreaterThan(0);
        }),
      );
    });

    test('any two entries in each other’s place are found', () => {
      fc.assert(
        fc.property(actors, fc.nat(), fc.nat(), fc.boolean(), (list, a, b, keepSeq) => {
          const log = makeLog(list);
          const i = a % log.entries.length;
          const j = b % log.entries.length;
          fc.pre(i !== j);
          const entries = [...log.entries];
          [entries[i], entries[j]] = [entries[j] as ChainEntry, entries[i] as ChainEntry];
          const placed = keepSeq ? entries.map((entry, k) => ({ ...entry, seq: BigInt(k) + 1n })) : entries;
          expect(verify(placed, log.head).length).toBeGreaterThan(0);
          expect(verify(exported(placed)).length).toBeGreaterThan(0);
        }),
      );
    });
  });
});

/** Positions and links made anew over the bytes that are there. */
function rechained(entries: readonly ChainEntry[]): ChainEntry[] {
  let previous: Uint8Array = genesisHash(FIXTURE_DOMAIN);
  return entries.map((entry, i) => {
    const next = forged({ ...entry, seq: BigInt(i) + 1n }, Buffer.from(entry.entry), previous);
    previous = next.chainHash;
    return next;
  });
}

function fieldsOf(seq: bigint) {
  const record = {
    type: 'grant',
    id: 'forged',
    revision: 1n,
    operation: 'create_grant',
    digest: sha256('g'),
  };
  return {
    kind: 'command',
    commandId: 'x',
    record,
    domainId: FIXTURE_DOMAIN,
    seq,
    incarnation: 1n,
    time: 0n,
  } as const;
}
