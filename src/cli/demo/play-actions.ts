import { WorkloadRole } from '../../gen/surety/identity/v1/workload_pb.js';
import { tellActions } from './action-story.js';
import { FakeProvider, type ProviderBehaviour } from './fake-provider.js';
import { registerRole } from './register-role.js';
import type { Stage } from './stage.js';
import type { Timeline } from './timeline.js';

export const ACTIONS_OPENING =
  'Surety demo: a service, a harness, an owner and two workers, each with its own certificate, and a provider of mail.';

/** The story of four governed actions. */
export async function playActions(stage: Stage, timeline: Timeline): Promise<void> {
  const { role, undoing } = stage;
  const provider = await undoing.begin(
    () => FakeProvider.start(conductOf),
    (started) => started.close(),
  );
  const cast = {
    ...stage,
    harness: await role('harness/planner', 'harness'),
    owner: await role('owner/olga', 'owner'),
    mailer: await role('worker/mailer', 'worker'),
    courier: await role('worker/courier', 'worker'),
  };
  for (const handle of [cast.mailer, cast.courier]) {
    const wish = { role: WorkloadRole.ACTION_WORKER, workloadId: handle.name };
    await registerRole(stage, handle, wish, { provider: provider.url });
  }
  await tellActions(cast, timeline);
  if (provider.mostRequests > 1) timeline.surprises.push('the provider was asked twice for one action');
}

/** The provider is unreliable where the story needs it. */
function conductOf(body: string): ProviderBehaviour {
  if (body.includes('loses the answer')) return { conduct: 'loses_answer', pendingReads: 1 };
  if (body.includes('loses the request')) return { conduct: 'loses_request' };
  return { conduct: 'honest' };
}
