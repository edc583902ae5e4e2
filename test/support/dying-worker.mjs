// `surety worker`, which ends itself by SIGKILL at one step: dying-worker.mjs <before|after> <step> <options of surety worker>
import { openWorker } from '../../dist/src/cli/worker/open-worker.js';
import { readWorkerOptions } from '../../dist/src/cli/worker/read-options.js';

const [moment, step, ...args] = process.argv.slice(2);
const hook = (at, taken) => {
  if (at === moment && taken === step) process.kill(process.pid, 'SIGKILL');
};
const { worker, close } = await openWorker(readWorkerOptions(args), () => {}, hook);
await worker.drain();
close();
