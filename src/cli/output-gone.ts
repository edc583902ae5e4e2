import { EXIT_FAILED, fileSentence } from './failure.js';

/** What a shell says of a process that a pipe without a reader ended: 128, and the number of SIGPIPE. */
export const EXIT_NO_READER = 141;

/** The part of the process that this needs. */
export interface OutputProcess extends Pick<NodeJS.Process, 'pid' | 'kill' | 'once' | 'listenerCount'> {
  readonly stdout: Pick<NodeJS.WriteStream, 'on'>;
  readonly stderr: Pick<NodeJS.WriteStream, 'on' | 'write'>;
  exitCode?: NodeJS.Process['exitCode'];
  exit(code: number): void;
}

/**
 * Ends a command whose output goes nowhere any more, as in `surety … | head`, without a word: Node hides SIGPIPE, and what
 * comes instead would be an error of ours. A command that ends in order when it is asked to is asked; any other ends at
 * once, as SIGPIPE would end it. Output that cannot be written for another reason is told.
 */
export function endWithoutOutput(command: string, own: OutputProcess = process): void {
  let gone = false;
  own.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (gone) return;
    gone = true;
    const code = error.code === 'EPIPE' ? EXIT_NO_READER : EXIT_FAILED;
    if (error.code !== 'EPIPE') {
      own.stderr.write(`${command}: ${fileSentence('the standard output', error)}\n`);
    }
    if (own.listenerCount('SIGTERM') === 0) return own.exit(code);
    // It was told to end, and says that it did; why is what its caller is to learn.
    own.once('exit', () => {
      own.exitCode = code;
    });
    own.kill(own.pid, 'SIGTERM');
  });
  // Nobody is left to be told.
  own.stderr.on('error', () => {});
}
