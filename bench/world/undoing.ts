/** What is to be undone at the end, the last first. */
export class Undoing {
  private readonly steps: (() => Promise<unknown>)[] = [];
  private running: Promise<void> | undefined;

  /** Something was begun. Where the end has come already, it is undone at once. */
  add(step: () => Promise<unknown>): void {
    this.steps.push(step);
    if (this.running) this.running = this.running.then(() => this.rest());
  }

  /** Undoes all of it; may be called again. */
  run(): Promise<void> {
    return (this.running ??= this.rest());
  }

  private async rest(): Promise<void> {
    for (let step = this.steps.pop(); step; step = this.steps.pop()) {
      // What is gone already is undone.
      await step().catch(() => undefined);
    }
  }
}
