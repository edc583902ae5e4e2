import { setImmediate as turn } from 'node:timers/promises';
import { type Measured, measuredOf } from '../measure/measured.js';
import { serveParent } from '../measure/serve-parent.js';
import type { OpenPeerOrder, PeerOrder, PeerRoundOrder } from './messages.js';
import type { Peer } from './peer.js';

/** Runs a peer's orders, in the process that was started for it. */
export function servePeer(open: (order: OpenPeerOrder) => Promise<Peer>): void {
  let rounds: PeerRounds | undefined;
  serveParent(async (message) => {
    const order = message as PeerOrder;
    if (order.kind === 'open') {
      rounds = new PeerRounds(await open(order));
      return undefined;
    }
    if (!rounds) throw new Error('nothing is open');
    return rounds.run(order);
  });
}

/** Rounds of one peer, with callers in this process. */
export class PeerRounds {
  private started = 0;
  private done = 0;

  constructor(private readonly peer: Peer) {}

  /** @throws Error where one piece of work failed, or another number of them is stored than was counted */
  async run({ callers, seconds }: PeerRoundOrder): Promise<Measured> {
    const latencies: number[] = [];
    await turn();
    const processorBefore = this.peer.processorMs?.() ?? {};
    const usage = process.cpuUsage();
    const started = performance.now();
    const deadline = started + seconds * 1000;
    let last = started;
    const caller = async (): Promise<void> => {
      for (let begun = started; begun < deadline; begun = last) {
        this.started += 1;
        await this.peer.runOnce(`life-${this.started}`);
        last = performance.now();
        latencies.push(last - begun);
      }
    };
    await Promise.all(Array.from({ length: callers }, caller));
    const measured = measuredOf(latencies, last - started, process.cpuUsage(usage));
    const tierMs = differences(processorBefore, this.peer.processorMs?.() ?? {});
    await this.check(latencies.length);
    return { ...measured, tierMs };
  }

  private async check(counted: number): Promise<void> {
    this.done += counted;
    const stored = await this.peer.countDone();
    if (stored !== this.done) {
      throw new Error(`its callers counted ${this.done} that were done, and ${stored} are stored`);
    }
  }
}

function differences(
  before: Readonly<Record<string, number | undefined>>,
  after: Readonly<Record<string, number | undefined>>,
): Record<string, number> {
  const spent: Record<string, number> = {};
  for (const [name, ms] of Object.entries(after)) {
    const from = before[name];
    if (ms !== undefined && from !== undefined) spent[name] = ms - from;
  }
  return spent;
}
