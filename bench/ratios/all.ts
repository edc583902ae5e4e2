import { b1 } from './b1.js';
import { b2 } from './b2.js';
import { b3 } from './b3.js';
import { b4 } from './b4.js';
import { b5 } from './b5.js';
import { b6 } from './b6.js';
import { b7 } from './b7.js';
import { b8Fresh } from './b8-fresh.js';
import { b8Stored } from './b8-stored.js';
import { b9 } from './b9.js';
import type { Ratio } from './ratio.js';
import { SCALES } from './scale.js';

/** In the order in which they run; B9 comes last, since it makes the store large and starts a service of its own. */
export const RATIOS: readonly Ratio[] = [b1, b2, ...b3, ...b4, b5, ...b6, b7, b8Stored, b8Fresh, b9];

/** What is measured where it is asked for by name. */
export const ON_REQUEST: readonly Ratio[] = SCALES;
