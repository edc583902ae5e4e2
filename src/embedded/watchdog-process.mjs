// Started by watchdog.ts with the folders to remove as arguments. Plain JavaScript without imports of ours, so
// that the same file runs from the sources and from the build.
//
// Orders come as lines of JSON on standard input. Its end without the order `release` means that whoever gave
// them has died.
import { readFileSync, rmSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** As in end-postmaster.ts. */
const ways = [
  ['SIGINT', 15_000],
  ['SIGQUIT', 5_000],
  ['SIGKILL', 5_000],
];
const pollMs = 20;

/** An initdb that was under way ends by itself, and may still write for a moment after a folder was removed. */
const removeRounds = 5;
const removePauseMs = 500;

const folders = process.argv.slice(2);
/** @type {{ pid: number, pidFile: string } | undefined} */
let watched;

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => {});

let text = '';
try {
  for await (const chunk of process.stdin.setEncoding('utf8')) {
    text += chunk;
    for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n')) {
      obey(JSON.parse(text.slice(0, end)));
      text = text.slice(end + 1);
    }
  }
} catch {
  // A broken pipe is the same news as its end.
}
if (watched !== undefined) await stop(watched);
await removeFolders();

/** @param {{ watch?: { pid: number, pidFile: string }, forget?: true, release?: true }} order */
function obey(order) {
  if (order.watch !== undefined) watched = order.watch;
  if (order.forget === true) watched = undefined;
  if (order.release === true) process.exit(0);
}

/** @param {{ pid: number, pidFile: string }} server */
async function stop(server) {
  for (const [signal, waitMs] of ways) {
    if (isGone(server)) return;
    try {
      process.kill(server.pid, signal);
    } catch {
      return;
    }
    for (const until = Date.now() + waitMs; Date.now() < until; await sleep(pollMs)) {
      if (isGone(server)) return;
    }
  }
}

/**
 * A server removes its file at its end, and one that the next start put in its place has another pid in it.
 *
 * @param {{ pid: number, pidFile: string }} server
 */
function isGone(server) {
  try {
    if (Number(readFileSync(server.pidFile, 'utf8').split('\n')[0]) !== server.pid) return true;
    process.kill(server.pid, 0);
    return false;
  } catch {
    return true;
  }
}

async function removeFolders() {
  for (let round = 0; folders.length > 0 && round < removeRounds; round++) {
    for (const folder of folders) {
      try {
        rmSync(folder, { recursive: true, force: true });
      } catch {
        // Something was written while we removed; the next round takes it.
      }
    }
    await sleep(removePauseMs);
  }
}
