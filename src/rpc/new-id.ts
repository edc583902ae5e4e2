import { randomFillSync } from 'node:crypto';

/** Base32 in the order of ASCII, so that texts sort as the numbers do. */
const ALPHABET = '234567abcdefghijklmnopqrstuvwxyz';
/** Milliseconds since the epoch, 45 bits: enough for a thousand years. */
const TIME_LETTERS = 9;
/** 85 bits that nobody can guess. */
const RANDOM_LETTERS = 17;

/** Random bytes are drawn for many ids at a time: one call into the system costs more than an id. */
const pool = Buffer.alloc(RANDOM_LETTERS * 256);
let used = pool.length;

let lastMs = -1;
let lastTime = '';

/**
 * A fresh id: the prefix, `_`, the time in nine letters and 85 random bits in seventeen, lower-case base32, for example
 * `eff_4jx2a…`. Ids that are made one after the other lie together in an index: where they were random all over, each of
 * millions of stored rows would cost a page of its own, read, and written whole into the log after each checkpoint.
 *
 * @param ms the time that it begins with; it orders, and proves nothing
 */
export function newId(prefix: string, ms = Date.now()): string {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  if (ms !== lastMs) {
    lastMs = ms;
    lastTime = timeLetters(ms);
  }
  let text = `${prefix}_${lastTime}`;
  for (const end = used + RANDOM_LETTERS; used < end; used += 1)
    text += ALPHABET[(pool[used] as number) & 31];
  return text;
}

function timeLetters(ms: number): string {
  let text = '';
  let rest = ms;
  for (let place = 0; place < TIME_LETTERS; place += 1) {
    text = ALPHABET[rest % 32] + text;
    rest = Math.floor(rest / 32);
  }
  return text;
}
