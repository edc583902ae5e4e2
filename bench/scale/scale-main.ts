import { serveParent } from '../measure/serve-parent.js';
import type { ScaleOrder } from './messages.js';
import { ScaleLoad } from './scale-load.js';

/** The process that makes the load on several replicas. */
const load = new ScaleLoad();
serveParent((order) => load.run(order as ScaleOrder));
