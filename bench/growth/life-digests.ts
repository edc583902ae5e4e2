import { DOMAIN } from '../world/names.js';
import { putText } from './binary.js';
import { ByteTemplate, type Slot, slotOf } from './byte-template.js';
import { canonicalBytes, digestTemplate, sha256Of } from './canonical.js';
import type { LifeRows } from './life-rows.js';
import { bytesOf, numberOf, type StoredRow, textOf } from './table-rows.js';

/** A digest of a life, and what it is made of. */
export interface LifeDigest {
  readonly digest: Slot;
  readonly template: ByteTemplate;
}

/** The digests of a life that are made of its values by the product's canonical encoding, in their order. */
export interface LifeDigests {
  /** Of the request and its context. */
  readonly plain: readonly LifeDigest[];
  /** All slots that they fill. */
  readonly slots: readonly Slot[];
  /** Makes the digest of the output's record, once evidence is there. */
  derive(): void;
  /** What a nonce's digest is made of. */
  nonce(nonce: string, slot: Slot, row: StoredRow | undefined): ByteTemplate;
}

/**
 * @param named what they are made of
 * @throws Error where the product makes one of them in another way by now
 */
export function lifeDigests(rows: LifeRows, named: readonly Slot[]): LifeDigests {
  const { effect, decision } = rows;
  const [eventId, sink] = [textOf(effect, 'event_id'), textOf(effect, 'sink')];
  const request = bytesOf(effect, 'request_digest');
  const made = (
    column: string,
    row: StoredRow,
    label: string,
    parts: Parameters<typeof digestTemplate>[1],
  ) => {
    const product = bytesOf(row, column);
    return { digest: slotOf(column, product), template: digestTemplate(label, parts, product, named) };
  };
  const plain = [
    made('identity_digest', effect, 'surety-effect-identity-v1', [DOMAIN, eventId, sink, request]),
    made('key_digest', effect, 'surety-effect-key-explicit-v1', [textOf(effect, 'effect_key')]),
    made('context_digest', decision, 'surety-policy-context-v1', [
      ...[eventId, sink, textOf(effect, 'input_source')],
      BigInt(bytesOf(effect, 'data_class').readInt32BE()),
      request,
    ]),
  ];
  const output = outputDigests(rows, named);
  return {
    plain,
    slots: [...plain.map(({ digest }) => digest), ...(output?.slots ?? [])],
    derive: () => output?.derive(),
    nonce(nonce, slot, row) {
      const product = row && bytesOf(row, 'nonce_digest');
      return product
        ? digestTemplate('surety-transition-nonce-v1', [nonce], product, [slot])
        : new ByteTemplate(Buffer.from(nonce), [slot]);
    },
  };
}

/** The record of the effect's output; undefined where a life has none. */
function outputDigests(rows: LifeRows, named: readonly Slot[]) {
  const [record] = rows.provenance_records;
  const [step] = rows.provenance_steps;
  if (!record || !step) return undefined;
  const { effect, event } = rows;
  const effectId = textOf(effect, 'effect_id');
  const operation = slotOf('operation', bytesOf(step, 'operation'));
  const operationBytes = digestTemplate(
    'surety-tool-operation-v1',
    [DOMAIN, effectId, textOf(effect, 'attempt_id')],
    Buffer.from(textOf(step, 'operation'), 'hex'),
    named,
  );
  const digest = slotOf('provenance_digest', bytesOf(record, 'provenance_digest'));
  const integer = (row: StoredRow, column: string): string => String(numberOf(row, column));
  const times = [integer(step, 'started_at'), integer(record, 'recorded_at')] as const;
  const parts = (completed: string) => [
    ...[DOMAIN, 'tool_output', `effect-output:${effectId}`, 1n, bytesOf(record, 'content_digest')],
    ...[bytesOf(record, 'classification').readInt32BE(), BigInt(integer(record, 'policy_revision'))],
    ...[[], true, false, true, undefined, undefined, [bytesOf(event, 'provenance_digest')]],
    [
      [
        ...[0, 'tool', textOf(step, 'operation'), textOf(step, 'implementation')],
        ...[textOf(step, 'implementation_version'), textOf(step, 'executor')],
        ...[[bytesOf(event, 'payload_digest')], bytesOf(step, 'output_digest')],
        ...[BigInt(times[0]), BigInt(completed)],
      ],
    ],
    BigInt(times[1]),
  ];
  const label = 'surety-provenance-v1';
  const slots = [...named, operation];
  digestTemplate(label, parts(integer(step, 'completed_at')), digest.pattern, slots);
  // A life's own step ends when its record is made: see how its evidence is dated.
  const template = new ByteTemplate(canonicalBytes(label, parts(times[1])), slots);
  return {
    slots: [operation, digest],
    derive(): void {
      putText(operation.value, sha256Of(operationBytes.fill()).toString('hex'));
      digest.value.set(sha256Of(template.fill()));
    },
  };
}
