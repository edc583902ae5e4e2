import { readFileSync } from 'node:fs';
import type pg from 'pg';

/** Memory of a process that it shares with none, in KiB; undefined where it cannot be read. proc_pid_smaps(5). */
function ownKib(pid: number): number | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'latin1');
    return [...text.matchAll(/^Private_(?:Clean|Dirty):\s+(\d+) kB$/gm)].reduce(
      (sum, [, kib]) => sum + Number(kib),
      0,
    );
  } catch {
    return undefined;
  }
}

/** What a connection of a service costs Postgres beside the shared buffers: the mean of those that are open, in KiB. */
export async function connectionKib(sql: pg.Client): Promise<number | undefined> {
  const { rows } = await sql.query<{ pid: number }>(
    "SELECT pid FROM pg_stat_activity WHERE application_name = 'surety'",
  );
  const sizes = rows.map(({ pid }) => ownKib(pid)).filter((kib) => kib !== undefined);
  return sizes.length === 0 ? undefined : Math.round(sizes.reduce((a, b) => a + b, 0) / sizes.length);
}
