import { microsToTimestamp } from '../../src/identity/timestamp.js';
import type { SinkRow } from '../../src/ledger/authority/records.js';
import { DAY, MINUTE } from '../../src/ledger/types.js';

/** A sink whose breaker and ceilings never hold, for tests of other rules. */
export const ADMITS_ALL = {
  breakerThreshold: 1_000_000_000,
  breakerReset: MINUTE,
  unknownCeiling: 1_000_000_000,
  unknownAge: 366n * DAY,
} as const satisfies Partial<SinkRow>;

/** The same, as a command says it. */
export const ADMITS_ALL_SINK = {
  breakerThreshold: ADMITS_ALL.breakerThreshold,
  unknownCeiling: ADMITS_ALL.unknownCeiling,
  unknownAge: microsToTimestamp(ADMITS_ALL.unknownAge),
};
