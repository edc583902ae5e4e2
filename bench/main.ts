import { BENCH_HELP, BenchUsage, readOptions } from './options.js';
import { runBenchmark } from './run.js';

/** `npm run bench`. */
async function main(): Promise<number> {
  try {
    const options = readOptions(process.argv.slice(2));
    if (options.help) {
      process.stdout.write(`${BENCH_HELP}\n`);
      return 0;
    }
    return await runBenchmark(options);
  } catch (error) {
    process.stderr.write(`bench: ${error instanceof Error ? error.message : 'failed'}\n`);
    return error instanceof BenchUsage ? 2 : 1;
  }
}

// Whoever reads may go; what was started is ended all the same.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
process.exitCode = await main();
