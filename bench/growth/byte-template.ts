/** A place in a template that each life fills with its own. */
export interface Slot {
  readonly name: string;
  /** What stands there in the template. The value takes its end; what is before it only tells it from other bytes. */
  readonly pattern: Buffer;
  /** What is written instead, set anew for each life. */
  readonly value: Buffer;
}

interface Hole {
  readonly offset: number;
  readonly slot: Slot;
}

/** A slot for a text or bytes of the template. @throws Error where it is too short to be recognized */
export function slotOf(name: string, pattern: Buffer): Slot {
  if (pattern.length < LEAST_PATTERN) throw new Error(`${name} cannot be told from other bytes`);
  return { name, pattern, value: Buffer.from(pattern) };
}

/** Shorter ones could stand somewhere by chance. */
const LEAST_PATTERN = 5;

/** Bytes of a real life with places that differ from life to life. All lives are as wide as the template. */
export class ByteTemplate {
  readonly bytes: Buffer;
  private readonly holes: readonly Hole[];

  constructor(bytes: Buffer, slots: readonly Slot[]) {
    this.bytes = Buffer.from(bytes);
    this.holes = holesIn(bytes, slots);
  }

  /** Puts the slots' values into `bytes`. */
  fill(): Buffer {
    const { bytes } = this;
    for (const { offset, slot } of this.holes) bytes.set(slot.value, offset);
    return bytes;
  }

  /** Writes the filled template at an offset. @returns the offset behind it */
  writeTo(target: Buffer, offset: number): number {
    target.set(this.fill(), offset);
    return offset + this.bytes.length;
  }

  get slotNames(): readonly string[] {
    return this.holes.map(({ slot }) => slot.name);
  }
}

/** Longer patterns first: what one of them covers is not looked at for shorter ones. */
function holesIn(bytes: Buffer, slots: readonly Slot[]): Hole[] {
  const holes: Hole[] = [];
  const covered = new Uint8Array(bytes.length);
  for (const slot of [...slots].sort((a, b) => b.pattern.length - a.pattern.length)) {
    const { length } = slot.pattern;
    for (let at = bytes.indexOf(slot.pattern); at >= 0; at = bytes.indexOf(slot.pattern, at + 1)) {
      if (covered[at] === 1) continue;
      covered.fill(1, at, at + length);
      holes.push({ offset: at + length - slot.value.length, slot });
    }
  }
  return holes;
}
