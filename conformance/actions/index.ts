import type { ActionWorld } from '../action-world.js';
import type { Case } from '../case.js';
import { BOUNDED_GRANT_CASES } from './bounded-grants.js';
import { CALLER_CASES } from './callers.js';
import { DISPATCH_CASES } from './dispatch.js';
import { DISPATCH_GATE_CASES } from './dispatch-gate.js';
import { GATING_CASES } from './gating.js';
import { IDENTITY_CASES } from './identity.js';
import { JSON_CASES } from './json.js';
import { LEASE_CASES } from './leases.js';
import { LIFECYCLE_CASES } from './lifecycle.js';
import { OBSERVATION_CASES } from './observation.js';
import { RECEIPT_CASES } from './receipts.js';
import { REPEAT_CASES } from './repeats.js';
import { WITNESS_CASES } from './witness.js';

/** Every case of governed actions (actions.md), in the order in which they are shown. */
export const ACTION_CASES: readonly Case<ActionWorld>[] = [
  ...IDENTITY_CASES,
  ...JSON_CASES,
  ...RECEIPT_CASES,
  ...GATING_CASES,
  ...DISPATCH_GATE_CASES,
  ...BOUNDED_GRANT_CASES,
  ...LEASE_CASES,
  ...DISPATCH_CASES,
  ...OBSERVATION_CASES,
  ...LIFECYCLE_CASES,
  ...WITNESS_CASES,
  ...REPEAT_CASES,
  ...CALLER_CASES,
];
