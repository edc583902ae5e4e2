import { destination, type Logger, pino, stdTimeFunctions } from 'pino';

/**
 * The process's log: one JSON object a line. Times are this machine's, and decide nothing.
 *
 * @param level least level that is written
 * @param descriptor of an open file: 1 the standard output, 2 the standard error
 */
export function createLog(level: string, descriptor: 1 | 2): Logger {
  return pino(
    {
      level,
      base: { service: 'surety', pid: process.pid },
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    // Synchronous: a line that was written before a crash is there after it.
    destination({ dest: descriptor, sync: true }),
  );
}
