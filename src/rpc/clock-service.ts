import { ClockService } from '../gen/surety/testing/v1/clock_service_pb.js';
import { microsToTimestamp } from '../identity/timestamp.js';
import { refusal } from '../ledger/refusal.js';
import { Refused } from '../ledger/run-decision.js';
import { DAY, type Micros } from '../ledger/types.js';
import { bind, type HandlerTools, type ServiceBinding } from './handler.js';
import { requireReader } from './reader-access.js';
import { Violations } from './validate.js';

/** The longest that anything of the service lasts is a day; a year is enough for whatever a test wants to see expire. */
const MAX_ADVANCE: Micros = 366n * DAY;
const MIN_ADVANCE: Micros = 1n;

/** The clock of a test database (`src/store/test-clock.ts`). */
export interface TestClock {
  /** The store's clock with the offset; undefined where the database is not one for tests. */
  now(): Promise<Micros | undefined>;
  /** Moves the clock forward and answers where it is then; undefined where the database is not one for tests. */
  advance(by: Micros): Promise<Micros | undefined>;
}

/** What moves the clock; undefined: this process was started without a test clock. */
export interface ClockTools {
  readonly clock: TestClock;
  /** One round of every sweep, to its end. */
  readonly sweepOnce: () => Promise<void>;
}

/** architecture.md, Time and faults in tests. Callers: operators, only on a test database. */
export function clockService(tools: HandlerTools, test: ClockTools | undefined): ServiceBinding {
  return bind(ClockService, {
    now: async (_request, context) => {
      await requireReader(tools, context, context.domainId, ['operator']);
      const now = await testOnly(test).clock.now();
      return { nowTime: microsToTimestamp(present(now)) };
    },
    advance: async (request, context) => {
      await requireReader(tools, context, context.domainId, ['operator']);
      const { clock, sweepOnce } = testOnly(test);
      const violations = new Violations();
      const by = violations.duration('by', request.by, MIN_ADVANCE, MAX_ADVANCE);
      violations.throwIfAny();
      present(await clock.advance(by));
      await sweepOnce();
      return { nowTime: microsToTimestamp(present(await clock.now())) };
    },
  });
}

function testOnly(test: ClockTools | undefined): ClockTools {
  if (test) return test;
  throw absent();
}

function present(now: Micros | undefined): Micros {
  if (now !== undefined) return now;
  throw absent();
}

function absent(): Refused {
  return new Refused(
    refusal('TEST_CLOCK_ABSENT', 'Only a service with a test clock on a test database has this method.'),
  );
}
