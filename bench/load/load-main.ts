import { serveParent } from '../measure/serve-parent.js';
import { LoadProcess } from './load-process.js';
import type { LoadOrder } from './messages.js';

/** The process that makes the load over gRPC. */
const load = new LoadProcess();
serveParent((order) => load.run(order as LoadOrder));
