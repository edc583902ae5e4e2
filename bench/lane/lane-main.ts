import { serveParent } from '../measure/serve-parent.js';
import { LaneProcess } from './lane-process.js';
import type { LaneOrder } from './messages.js';

/** The process that the lane runs in when it is measured without RPC. */
const lane = new LaneProcess();
serveParent((order) => lane.run(order as LaneOrder));
