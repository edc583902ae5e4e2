import { FakeBank } from './fake-bank.js';
import type { Stage } from './stage.js';
import { tellStory } from './story.js';
import type { Timeline } from './timeline.js';

export const EFFECTS_OPENING =
  'Surety demo: a service, a harness, two executors and a reconciler, each with its own certificate.';

/** The story of three effects. */
export async function playEffects(stage: Stage, timeline: Timeline): Promise<void> {
  const { role } = stage;
  const bank = new FakeBank();
  await tellStory(
    {
      ...stage,
      harness: await role('harness/planner', 'harness'),
      executorA: await role('executor/payments-a', 'workload'),
      executorB: await role('executor/payments-b', 'workload'),
      reconciler: await role('reconciler/bank', 'workload'),
      bank,
    },
    timeline,
  );
  if (bank.counts().some((count) => count !== 1))
    timeline.surprises.push('the bank was asked twice for one refund');
}
