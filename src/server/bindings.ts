import type { Configuration } from '../config/configuration.js';
import { actionService } from '../rpc/action-service.js';
import { adminService } from '../rpc/admin-service.js';
import { auditService } from '../rpc/audit-service.js';
import { type ClockTools, clockService } from '../rpc/clock-service.js';
import { effectService } from '../rpc/effect-service.js';
import { eventService } from '../rpc/event-service.js';
import type { HandlerTools, ServiceBinding } from '../rpc/handler.js';
import { healthService } from '../rpc/health-service.js';
import { HealthState } from '../rpc/health-state.js';
import { policyService } from '../rpc/policy-service.js';
import { provenanceService } from '../rpc/provenance-service.js';
import { reflectionServices } from '../rpc/reflection-service.js';
import { replayService } from '../rpc/replay-service.js';
import type { PositionPoller } from '../rpc/watch/position-poller.js';
import { workloadService } from '../rpc/workload-service.js';

/** A name that health knows only where the clock is one for tests (architecture.md, Time and faults in tests). */
export const TEST_CLOCK = 'surety.testing.TestClock';

/** Every service of the contract, and the state of health that is told of them. */
export interface Bindings {
  readonly bindings: readonly ServiceBinding[];
  readonly health: HealthState;
}

/**
 * Every service, from the same tools.
 *
 * @param clock undefined: the process has no test clock, and the service says so
 */
export function allBindings(
  tools: HandlerTools,
  positions: PositionPoller,
  clock: ClockTools | undefined,
  { reflection }: Pick<Configuration, 'reflection'>,
): Bindings {
  const ours = [
    effectService(tools, positions),
    actionService(tools, positions),
    eventService(tools),
    policyService(tools),
    replayService(tools),
    provenanceService(tools),
    auditService(tools, positions),
    workloadService(tools),
    adminService(tools),
    clockService(tools, clock),
  ];
  const names = ours.map(({ service }) => service.typeName);
  const health = new HealthState(clock === undefined ? names : [...names, TEST_CLOCK]);
  const healthBinding = healthService(health);
  const listed = [...names, healthBinding.service.typeName];
  return { health, bindings: [...ours, healthBinding, ...(reflection ? reflectionServices(listed) : [])] };
}
