import { rmSync } from 'node:fs';
import os from 'node:os';
import { EmbeddedPostgresError } from './embedded-error.js';
import { endPostmaster } from './end-postmaster.js';
import { postmasterPidFile, readPostmasterPid } from './postmaster-pid.js';
import { processInfo } from './process-info.js';
import { ownerSetting } from './server-settings.js';

/**
 * Stops the server that an earlier process of ours left behind when it died hard.
 *
 * It is one of ours if it is a postmaster on this data folder with our owner setting, and an orphan if its
 * parent is not that owner any more: the system gives a process another parent the moment its own dies, so
 * neither a reused pid nor a stale file can make a living owner look dead, or a dead one alive.
 *
 * @param data - the data folder, its real path
 * @throws EmbeddedPostgresError ALREADY_RUNNING, STOP_FAILED
 */
export async function stopOrphan(data: string, log: (message: string) => void): Promise<void> {
  const lock = readPostmasterPid(data);
  if (lock === undefined) return;
  const found = processInfo(lock.pid);
  if (found === undefined) return; // Postgres replaces the file itself.
  if (!isPostmasterOf(found.command, data)) {
    // The machine restarted and gave the number to somebody else. Postgres would refuse to start if it is a
    // process of the same user. Nothing that ran before the machine started can still have the data open.
    if (lock.startedAtSeconds < Date.now() / 1000 - os.uptime())
      rmSync(postmasterPidFile(data), { force: true });
    return;
  }
  const owner = ownerOf(found.command);
  if (owner === undefined || owner === found.parentPid) {
    throw new EmbeddedPostgresError(
      'ALREADY_RUNNING',
      `Postgres (process ${lock.pid}) has ${data} open` +
        (owner === undefined ? '.' : `, started by process ${owner}, which is still there.`),
    );
  }
  log(`stopping the Postgres (process ${lock.pid}) that process ${owner} left behind`);
  await endPostmaster(lock.pid, () => processInfo(lock.pid) === undefined);
}

function isPostmasterOf(command: string, data: string): boolean {
  const [before, after] = command.split(` -D ${data}`, 2);
  return /(^|\/)postgres$/.test(before ?? '') && (after === '' || after?.startsWith(' ') === true);
}

function ownerOf(command: string): number | undefined {
  const found = command.split(`-c ${ownerSetting}=`, 2)[1];
  const pid = Number.parseInt(found ?? '', 10);
  return Number.isNaN(pid) ? undefined : pid;
}
