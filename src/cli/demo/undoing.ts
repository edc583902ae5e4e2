/** Undoes one thing. */
type Undo = () => Promise<void> | void;

/**
 * What is to be undone at the end, the last thing first. The end may come, by a signal, while something is just being
 * begun: that is undone as soon as it is there, and nothing more is begun.
 */
export class Undoing {
  private readonly steps: Undo[] = [];
  private over = false;

  /**
   * Begins something, and remembers how to undo it.
   *
   * @throws Error where the end has come
   */
  async begin<T>(start: () => T | Promise<T>, undo: (begun: T) => Promise<void> | void): Promise<T> {
    this.throwIfOver();
    const begun = await start();
    if (this.over) await undo(begun);
    this.throwIfOver();
    this.steps.push(() => undo(begun));
    return begun;
  }

  /** The end: undoes everything that was begun. */
  async run(): Promise<void> {
    this.over = true;
    for (const undo of this.steps.splice(0).reverse()) await undo();
  }

  private throwIfOver(): void {
    if (this.over) throw new Error('it is over');
  }
}
