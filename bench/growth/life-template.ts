import { newId } from '../../src/rpc/new-id.js';
import { DOMAIN } from '../world/names.js';
import { int8Of, putInt8, putText, putVarint, varintLength, varintOf } from './binary.js';
import { ByteTemplate, type Slot, slotOf } from './byte-template.js';
import { sha256Of } from './canonical.js';
import { lifeDigests } from './life-digests.js';
import { GROWING_TABLES, type GrowingTable, type LifeRows } from './life-rows.js';
import { type LifeValues, microsOf, type RandomBytes } from './life-values.js';
import {
  commandOf,
  entryBeginning,
  entryPattern,
  evidencePattern,
  leastOfLength,
  nanosPattern,
  observedDigest,
  proofParts,
  SECOND_PATTERN,
  statementPattern,
} from './messages.js';
import { effectKeyName } from './real-lives.js';
import { bytesOf, numberOf, rowTemplate, type StoredRow, textOf, withBytes } from './table-rows.js';

/** Takes rows in the form of a binary COPY. */
export interface RowSink {
  add(table: GrowingTable, row: ByteTemplate): void;
}

/** Steps of a life after its reservation: a start, and what came of it. */
const MOST_STEPS = 2;
/** When a life's steps are taken, in microseconds after its reservation. */
const STEP_MICROS = [0, 10_000, 50_000] as const;
const NANOS_PER_MICRO = 1_000;
const MICROS_PER_MS = 1_000;
const NONCE_BYTES = 24;
const LEAF_PREFIX = 0x00;
const CHAIN_PREFIX = 0x02;
const HASH_BYTES = 32;
/** A varint of positions up to 2^28 takes so many bytes. */
const LONGEST_SEQ = 4;

/** What a step proved. */
interface Step {
  readonly evidence: ByteTemplate;
  readonly evidenceDigest: Slot;
  readonly statement: ByteTemplate;
  readonly statementDigest: Slot;
  readonly payload: Slot;
  readonly nonce: Slot;
  readonly nonceDigest: Slot;
  readonly nonceBytes: ByteTemplate;
}

/** An entry of the log, for each length that its position can have. */
interface Entry {
  /** Which of the life's times it has. */
  readonly step: number;
  readonly seq: Slot;
  readonly leaf: Slot;
  readonly chain: Slot;
  readonly forms: ReadonlyMap<
    number,
    { readonly hashed: ByteTemplate; readonly seq: Slot; readonly row: ByteTemplate }
  >;
}

/**
 * A real life as it is stored, to make others of: the same rows with other ids, positions, fences, times and digests, each as
 * wide as the real one. All digests are those of the values; only what was signed carries the template's signature.
 */
export class LifeTemplate {
  private readonly ids: readonly Slot[];
  private readonly decisionId: Slot;
  private readonly effectId: Slot;
  private readonly grantId: Slot;
  private readonly eventId: Slot;
  private readonly effectKey: Slot;
  private readonly eventContent: Slot;
  private readonly eventRecord: Slot;
  private readonly random: readonly Slot[];
  private readonly second: Slot;
  private readonly nanos: readonly Slot[];
  private readonly times: readonly Slot[];
  private readonly decimals: readonly Slot[];
  private readonly startBefore: { readonly slot: Slot; readonly after: number };
  private readonly lostAt: { readonly slot: Slot; readonly after: number } | undefined;
  private readonly fence: Slot;
  private readonly fenceVarint: Slot;
  private readonly digests: ReturnType<typeof lifeDigests>;
  private readonly steps: readonly Step[];
  private readonly entries: readonly Entry[];
  private readonly rows: readonly (readonly [GrowingTable, ByteTemplate])[];
  private readonly nonceRows: readonly ByteTemplate[];
  private readonly chained = Buffer.alloc(1 + 2 * HASH_BYTES, CHAIN_PREFIX);

  constructor(
    rows: LifeRows,
    private readonly randomness: RandomBytes,
  ) {
    const { effect, event } = rows;
    const text = (name: string, row: StoredRow = effect): Slot => slotOf(name, bytesOf(row, name));
    this.effectId = text('effect_id');
    this.decisionId = text('decision_id');
    this.grantId = text('grant_id');
    this.eventId = text('event_id');
    this.effectKey = text('effect_key');
    this.eventContent = text('payload_digest', event);
    this.eventRecord = text('provenance_digest', event);
    const commands = new Set(rows.audit_entries.map((row) => commandOf(bytesOf(row, 'entry'))));
    this.ids = [...commands].map((id) => slotOf('command_id', Buffer.from(id)));
    const last = rows.transitions[MOST_STEPS - 1];
    const observed = last
      ? [slotOf('observed', observedDigest(bytesOf(last, 'evidence'), textOf(last, 'to_state')))]
      : [];
    this.random = [text('request_digest'), ...observed];

    this.second = slotOf('second', varintOf(SECOND_PATTERN));
    this.nanos = STEP_MICROS.map((_, step) => slotOf('nanos', varintOf(nanosPattern(step))));
    const times = [
      numberOf(effect, 'reserved_at'),
      ...rows.transitions.map((row) => numberOf(row, 'received_at')),
    ];
    this.times = times.map((time) => slotOf('time', int8Of(time)));
    this.decimals = times.map((time) => slotOf('decimal time', Buffer.from(String(time))));
    this.startBefore = fromTime(effect, 'start_before', times[0] ?? 0);
    this.lostAt = times[1] === undefined ? undefined : fromTime(effect, 'lost_at', times[1]);
    this.fence = text('fence');
    this.fenceVarint = slotOf('fence', varintOf(numberOf(effect, 'fence')));

    this.digests = lifeDigests(rows, this.named());
    this.steps = rows.transitions.map((row, i) => this.stepOf(row, rows.transition_nonces[i], i + 1));
    this.entries = rows.audit_entries.map((row, i) => this.entryOf(rows, row, i));
    // What was hashed is in the rows as it was.
    this.rows = GROWING_TABLES.filter(
      (table) => table !== 'audit_entries' && table !== 'transition_nonces',
    ).flatMap((table) =>
      rows[table].map((row, i) => [table, this.rowOf(this.rewritten(table, row, i, times))] as const),
    );
    this.nonceRows = rows.transition_nonces.map((row) => this.rowOf(row));
  }

  /** How many entries a life has in the log. */
  get entryCount(): number {
    return this.entries.length;
  }

  /** Bytes of a life in the tables, as they are sent. */
  get bytes(): number {
    const entries = this.entries.map(({ forms }) => forms.get(LONGEST_SEQ)?.row.bytes.length ?? 0);
    return [...this.rows.map(([, row]) => row.bytes.length), ...entries].reduce(
      (sum, length) => sum + length,
      0,
    );
  }

  /**
   * Makes a life.
   *
   * @param head the chain hash before it
   * @returns the chain hash behind it
   */
  live(values: LifeValues, head: Buffer, sink: RowSink): Buffer {
    this.setNames(values);
    this.setTimes(values);
    for (const { digest, template } of this.digests.plain) digest.value.set(sha256Of(template.fill()));
    for (const step of this.steps) this.prove(step, values.keepsNonces);
    this.digests.derive();
    let chain = head;
    for (const [i, entry] of this.entries.entries())
      chain = this.append(entry, values.firstSeq + i, chain, sink);
    for (const [table, row] of this.rows) sink.add(table, row);
    if (values.keepsNonces) for (const row of this.nonceRows) sink.add('transition_nonces', row);
    return chain;
  }

  private setNames({ number, eventId, grantId, event, second, micros, fence }: LifeValues): void {
    const ms = Math.floor(microsOf(second, micros) / MICROS_PER_MS);
    for (const slot of [this.effectId, this.decisionId, ...this.ids]) {
      const prefix = slot.pattern.toString('latin1', 0, slot.pattern.indexOf('_'));
      putText(slot.value, newId(prefix, ms));
    }
    putText(this.eventId.value, eventId);
    putText(this.grantId.value, grantId);
    putText(this.effectKey.value, effectKeyName(number));
    this.eventContent.value.set(event.contentDigest);
    this.eventRecord.value.set(event.recordDigest);
    for (const { value } of this.random) this.randomness.put(value);
    putInt8(this.fence.value, fence);
    putVarint(this.fenceVarint.value, fence);
  }

  private setTimes({ second, micros }: LifeValues): void {
    putVarint(this.second.value, second);
    for (const [step, nanos] of this.nanos.entries()) {
      const within = micros + (STEP_MICROS[step] ?? 0);
      putVarint(nanos.value, within * NANOS_PER_MICRO);
      const time = microsOf(second, within);
      if (this.times[step]) putInt8(this.times[step].value, time);
      if (this.decimals[step]) putText(this.decimals[step].value, String(time));
      if (step === 0) putInt8(this.startBefore.slot.value, time + this.startBefore.after);
      if (step === 1 && this.lostAt) putInt8(this.lostAt.slot.value, time + this.lostAt.after);
    }
  }

  private prove(step: Step, keepsNonces: boolean): void {
    this.randomness.put(NONCE);
    putText(step.nonce.value, NONCE.toString('base64url'));
    if (keepsNonces) step.nonceDigest.value.set(sha256Of(step.nonceBytes.fill()));
    step.evidenceDigest.value.set(sha256Of(step.evidence.fill()));
    const statement = step.statement.fill();
    step.statementDigest.value.set(sha256Of(statement));
    putText(step.payload.value, statement.toString('base64url'));
  }

  private append({ seq, leaf, chain, forms }: Entry, position: number, head: Buffer, sink: RowSink): Buffer {
    const form = forms.get(varintLength(position));
    if (!form) throw new Error('the log is longer than a loader makes');
    putInt8(seq.value, position);
    putVarint(form.seq.value, position);
    leaf.value.set(sha256Of(form.hashed.fill()));
    this.chained.set(head, 1);
    this.chained.set(leaf.value, 1 + HASH_BYTES);
    chain.value.set(sha256Of(this.chained));
    sink.add('audit_entries', form.row);
    return chain.value;
  }

  private named() {
    const { effectId, eventId, effectKey, eventContent, eventRecord, decimals, random } = this;
    return [effectId, eventId, effectKey, eventContent, eventRecord, ...decimals, ...random];
  }

  /** Everything that differs from life to life, integers apart. */
  private slots(): Slot[] {
    const { decisionId, grantId, second, nanos, fenceVarint, ids } = this;
    return [
      ...[...this.named(), decisionId, grantId, second, ...nanos, fenceVarint, ...ids],
      ...this.digests.slots,
      ...(this.steps ?? []).flatMap((step) => [
        ...[step.evidenceDigest, step.statementDigest, step.payload, step.nonce, step.nonceDigest],
        { name: 'evidence', pattern: Buffer.from(step.evidence.bytes), value: step.evidence.bytes },
      ]),
      ...(this.entries ?? []).flatMap(({ leaf, chain }) => [leaf, chain]),
    ];
  }

  private rowOf(row: StoredRow, further: readonly Slot[] = [], position?: Slot): ByteTemplate {
    const { times, fence, startBefore, lostAt } = this;
    const integers = [...times, fence, startBefore.slot, ...(lostAt ? [lostAt.slot] : [])];
    const positions = position ? [position] : (this.entries ?? []).map(({ seq }) => seq);
    return rowTemplate(row, [...this.slots(), ...further], [...integers, ...positions]);
  }

  private stepOf(row: StoredRow, nonceRow: StoredRow | undefined, number: number): Step {
    const evidence = evidencePattern(bytesOf(row, 'evidence'), textOf(row, 'to_state'), number);
    const { payload } = proofParts(bytesOf(row, 'proof'));
    const statement = statementPattern(payload, number);
    const nonce = slotOf('nonce', Buffer.from(statement.nonce));
    const evidenceDigest = slotOf('evidence_digest', bytesOf(row, 'evidence_digest'));
    const slots = [...this.slots(), nonce, evidenceDigest];
    return {
      evidence: new ByteTemplate(evidence, this.slots()),
      evidenceDigest,
      statement: new ByteTemplate(statement.bytes, slots),
      statementDigest: slotOf('statement_digest', bytesOf(row, 'statement_digest')),
      payload: slotOf('payload', Buffer.from(statement.bytes.toString('base64url'))),
      nonce,
      nonceDigest: slotOf(
        'nonce_digest',
        nonceRow ? bytesOf(nonceRow, 'nonce_digest') : Buffer.from(statement.nonce),
      ),
      nonceBytes: this.digests.nonce(statement.nonce, nonce, nonceRow),
    };
  }

  private entryOf(rows: LifeRows, row: StoredRow, index: number): Entry {
    // The decision and the reservation are of one moment.
    const step = Math.max(0, index - 1);
    const [seq, leaf, chain] = [
      slotOf('seq', bytesOf(row, 'seq')),
      slotOf('leaf', bytesOf(row, 'leaf_hash')),
      slotOf('chain', bytesOf(row, 'chain_hash')),
    ];
    const forms = new Map<number, { hashed: ByteTemplate; seq: Slot; row: ByteTemplate }>();
    for (let length = 1; length <= LONGEST_SEQ; length += 1) {
      const entry = entryPattern(bytesOf(row, 'entry'), step, length);
      const varint: Slot = {
        name: 'seq',
        pattern: entryBeginning(DOMAIN, length),
        value: varintOf(leastOfLength(length)),
      };
      const hashed = new ByteTemplate(Buffer.concat([Buffer.from([LEAF_PREFIX]), entry]), [
        ...this.slots(),
        varint,
      ]);
      const whole: Slot = { name: 'entry', pattern: entry, value: hashed.bytes.subarray(1) };
      const form = this.rowOf(withBytes(row, { entry }), [whole, leaf, chain], seq);
      forms.set(length, { hashed, seq: varint, row: form });
    }
    if (rows.audit_entries.length > MOST_STEPS + 2)
      throw new Error('a life of more steps than a loader makes');
    return { step, seq, leaf, chain, forms };
  }

  /** A row whose evidence, proof and times are those that the bytes above speak of. */
  private rewritten(table: GrowingTable, row: StoredRow, index: number, times: readonly number[]): StoredRow {
    if (table === 'provenance_steps') return withBytes(row, { completed_at: int8Of(times[MOST_STEPS] ?? 0) });
    if (table !== 'transitions') return row;
    const step = this.steps[index] as Step;
    const { header, signature } = proofParts(bytesOf(row, 'proof'));
    const proof = Buffer.from(`${header}.${step.payload.pattern.toString('latin1')}.${signature}`);
    const evidence = evidencePattern(bytesOf(row, 'evidence'), textOf(row, 'to_state'), index + 1);
    return withBytes(row, { evidence, proof, skew: int8Of(0) });
  }
}

const NONCE = Buffer.alloc(NONCE_BYTES);

/** A time that lies by so much behind another one. */
function fromTime(row: StoredRow, column: string, time: number): { slot: Slot; after: number } {
  return { slot: slotOf(column, bytesOf(row, column)), after: numberOf(row, column) - time };
}
