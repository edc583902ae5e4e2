import { readFileSync, writeFileSync } from 'node:fs';

const KIB_PER_MIB = 1024;

/** Resident memory of a process in MiB: now, or the most since {@link forgetPeak}. Linux only, as the suite is. */
function residentMib(pid: number, field: 'VmRSS' | 'VmHWM'): number {
  const line = new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  if (!line) throw new Error(`no ${field} of process ${pid}`);
  return Number(line[1]) / KIB_PER_MIB;
}

/** Makes the kernel count the peak from now on. */
function forgetPeak(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
}

/** By how much a process grew at most while something was done to it, in MiB. The kernel notes the peak: none is missed. */
export async function growthOf(pid: number, act: () => Promise<unknown>): Promise<number> {
  forgetPeak(pid);
  const before = residentMib(pid, 'VmRSS');
  await act();
  return residentMib(pid, 'VmHWM') - before;
}
