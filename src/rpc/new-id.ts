import { randomFillSync } from 'node:crypto';

const ALPHABET = 'abcdefghijklmnopqrstuvwxyz234567';
const RANDOM_BYTES = 16;

/** Random bytes are drawn for many ids at a time: one call into the system costs more than an id. */
const pool = Buffer.alloc(RANDOM_BYTES * 256);
let used = pool.length;

/**
 * A fresh id: the prefix, `_`, and 128 random bits in lower-case base32 (26 characters), for example
 * `eff_k5vqz…`. Nobody can guess the next one.
 */
export function newId(prefix: string): string {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  const start = used;
  used += RANDOM_BYTES;
  let text = `${prefix}_`;
  let bits = 0;
  let held = 0;
  for (let index = start; index < used; index += 1) {
    held = ((held << 8) | (pool[index] as number)) & 0xfff;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      text += ALPHABET[(held >>> bits) & 31];
    }
  }
  // Three bits are left of 128.
  return text + ALPHABET[(held << (5 - bits)) & 31];
}
