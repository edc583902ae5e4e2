import { mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { percentile } from './statistics.js';

const SYNCS = 200;
/** A page of the write-ahead log. */
const PAGE_BYTES = 8_192;
const MICROS_PER_MS = 1_000;

/** How long the disk takes to have one page for good, where the databases of the benchmark lie: the median, in microseconds. */
export async function fdatasyncMicros(): Promise<number> {
  const folder = await mkdtemp(path.join(tmpdir(), 'surety-bench-disk-'));
  const file = await open(path.join(folder, 'page'), 'w');
  try {
    const took: number[] = [];
    for (let i = 0; i < SYNCS; i += 1) {
      await file.write(Buffer.alloc(PAGE_BYTES, i), 0, PAGE_BYTES, 0);
      const started = performance.now();
      await file.datasync();
      took.push((performance.now() - started) * MICROS_PER_MS);
    }
    return Math.round(percentile(took, 0.5));
  } finally {
    await file.close();
    await rm(folder, { recursive: true });
  }
}
