import { type LaneObserver, SILENT_OBSERVER } from '../../src/lane/lane-observer.js';

/** What the batches of a lane came to, for whoever looks for where the time goes. */
export class BatchFigures {
  private batches = 0;
  private commands = 0;
  private gatherMs = 0;
  private decideMs = 0;
  private commitMs = 0;

  readonly observer: LaneObserver = {
    ...SILENT_OBSERVER,
    batchDone: (size) => {
      this.batches += 1;
      this.commands += size;
    },
    phases: (gatherMs, decideMs, commitMs) => {
      this.gatherMs += gatherMs;
      this.decideMs += decideMs;
      this.commitMs += commitMs;
    },
  };

  /** Means since the last call: commands of a batch, and milliseconds of its phases. */
  take(): Readonly<Record<string, number>> {
    const { batches, commands, gatherMs, decideMs, commitMs } = this;
    this.batches = this.commands = this.gatherMs = this.decideMs = this.commitMs = 0;
    const each = (sum: number): number => (batches === 0 ? 0 : Number((sum / batches).toFixed(3)));
    return {
      commands_per_batch: each(commands),
      gather_ms: each(gatherMs),
      decide_ms: each(decideMs),
      commit_ms: each(commitMs),
    };
  }
}
