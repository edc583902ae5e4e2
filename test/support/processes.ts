import { execFileSync } from 'node:child_process';
import { processInfo } from '../../src/embedded/process-info.js';

/** A process that lives. */
export interface LivingProcess {
  readonly pid: number;
  readonly parentPid: number;
  /** Its arguments, joined by spaces. */
  readonly command: string;
}

/** Every process of this machine that lives now. */
export function livingProcesses(): LivingProcess[] {
  const pids = execFileSync('ps', ['-A', '-o', 'pid='], { encoding: 'utf8' }).trim().split(/\s+/).map(Number);
  return pids.flatMap((pid) => {
    const info = processInfo(pid);
    return info === undefined ? [] : [{ pid, ...info }];
  });
}

/** Those whose arguments hold a text, a folder of the test's own, say. */
export function processesNaming(text: string): LivingProcess[] {
  return livingProcesses().filter(({ command }) => command.includes(text));
}

/** The children of a process, their children and so on. */
export function descendantsOf(pid: number): LivingProcess[] {
  const all = livingProcesses();
  const found: LivingProcess[] = [];
  for (const parents = [pid]; parents.length > 0; ) {
    const parent = parents.shift();
    const children = all.filter(({ parentPid }) => parentPid === parent);
    found.push(...children);
    parents.push(...children.map((child) => child.pid));
  }
  return found;
}
