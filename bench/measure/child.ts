import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Measured } from './measured.js';
import type { ChildAnswer } from './serve-parent.js';

/** A process of the benchmark that runs orders (`serve-parent.ts`). */
export class Child<Order extends object> {
  private constructor(private readonly child: ChildProcess) {}

  /**
   * @param main the compiled file, relative to the folder `bench`
   * @param profile the folder for its CPU profile, where one is wanted
   * @param execPath the Node that it runs on
   */
  static start<Order extends object>(
    main: string,
    profile?: string,
    execPath = process.execPath,
  ): Child<Order> {
    const file = fileURLToPath(new URL(`../${main}`, import.meta.url));
    const execArgv = profileArguments(profile);
    return new Child<Order>(
      fork(file, [], { execPath, execArgv, stdio: ['ignore', 'ignore', 'inherit', 'ipc'] }),
    );
  }

  /** @throws Error with what the child says, or that it ended */
  send(order: Order): Promise<Measured | undefined> {
    const { child } = this;
    return new Promise((resolve, reject) => {
      const ended = (): void => reject(new Error('a process of the benchmark ended'));
      child.once('exit', ended);
      child.once('message', (answer) => {
        child.off('exit', ended);
        const said = answer as ChildAnswer;
        if (said.ok) resolve(said.measured);
        else reject(new Error(said.message));
      });
      child.send(order);
    });
  }

  /** @throws Error as `send`, or where the order measured nothing */
  async measure(order: Order): Promise<Measured> {
    const measured = await this.send(order);
    if (!measured) throw new Error('nothing was measured');
    return measured;
  }

  get pid(): number {
    return this.child.pid ?? 0;
  }

  async stop(): Promise<void> {
    const { child } = this;
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.disconnect();
    await ended;
  }
}

/** What makes Node write a CPU profile when it ends. */
export function profileArguments(folder: string | undefined): string[] {
  return folder === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${folder}`];
}
