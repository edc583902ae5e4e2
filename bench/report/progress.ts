import type { Step } from '../measure/interleave.js';
import { rounded } from './result.js';

/** Says on the standard error what is being done, as one line that changes where somebody looks, else line by line. */
export class Progress {
  private readonly started = Date.now();
  private readonly isTerminal = process.stderr.isTTY;

  say(what: string): void {
    const seconds = Math.round((Date.now() - this.started) / 1000);
    const line = `bench: ${what} · ${seconds} s`;
    process.stderr.write(this.isTerminal ? `\r\x1b[2K${line}` : `${line}\n`);
  }

  step(where: string, rounds: number, { side, round }: Step, value: number, unit: string): void {
    const which = round === 0 ? 'warming up' : `round ${round} of ${rounds}`;
    this.say(`${where}, ${which}, ${side.toUpperCase()} ${rounded(value)} ${unit}`);
  }

  end(): void {
    if (this.isTerminal) process.stderr.write('\n');
  }
}
