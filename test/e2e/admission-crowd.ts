import { randomBytes, randomUUID } from 'node:crypto';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { expect } from 'vitest';
import type { Channel } from '../../src/cli/client/service-client.js';
import { SuretyError } from '../../src/cli/client/surety-error.js';
import { digest, type WorkloadSession } from '../../src/cli/client/workload-session.js';
import { DEMO_AUTHORITY_SYSTEM } from '../../src/cli/demo/set-up-domain.js';
import { PolicyService } from '../../src/gen/surety/authority/v1/policy_service_pb.js';
import { type Effect, EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { EffectService } from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import type { LivingHarness, ReplicatedWorld } from '../support/replicated-world.js';

/** What admission refuses ordinary calls with. */
const HELD: ReadonlySet<string> = new Set([
  'QUOTA_EXHAUSTED',
  'FAIRNESS_HOLD',
  'CIRCUIT_OPEN',
  'UNKNOWN_CEILING',
]);

/** An effect on its way through the crowd. */
interface Work {
  readonly effectId: string;
  readonly harness: LivingHarness;
  readonly attemptId: string;
}

interface Counts {
  readonly ordinary: number;
  readonly safety: number;
}

/** Workloads as they work on each replica. */
type Team = readonly (readonly WorkloadSession[])[];

/**
 * Harnesses, executors and reconcilers who all call at once, on both replicas, and keep count of what they were answered:
 * the count of whoever is served, which the rows are held against.
 */
export class AdmissionCrowd {
  /** Reasons of the calls that were refused. */
  readonly refused = new Map<string, number>();
  /** The most that can have been pending at once of what this crowd reserved. */
  mostPending = 0;
  private pending = 0;
  private readonly counts = new Map<string, Counts>();
  private readonly prepared: Work[] = [];
  private readonly doubtful: Work[] = [];
  private reserving = 0;
  private executing = 0;
  private turn = 0;

  constructor(
    private readonly living: ReplicatedWorld,
    private readonly who: {
      readonly harnesses: readonly LivingHarness[];
      readonly executors: Team;
      readonly reconcilers: Team;
    },
  ) {}

  of(harnessId: string): Counts {
    return this.counts.get(harnessId) ?? { ordinary: 0, safety: 0 };
  }

  /** Ordinary calls that were served. */
  get served(): number {
    return [...this.counts.values()].reduce((sum, { ordinary }) => sum + ordinary, 0);
  }

  /** Calls of the safety lane, all of which were served. */
  get safety(): number {
    return [...this.counts.values()].reduce((sum, { safety }) => sum + safety, 0);
  }

  /** Everybody at once, until all that was reserved is executed and all doubt settled. */
  async run(plan: {
    /** How many call at once for each harness. */
    readonly callers: readonly number[];
    /** How often each of them tries to reserve. */
    readonly tries: number;
    /** How many work at once for each executor and each replica. */
    readonly executorLoops: number;
    readonly reconcilerLoops: number;
  }): Promise<void> {
    const { harnesses, executors, reconcilers } = this.who;
    const planners = harnesses.flatMap((harness, i) =>
      Array<LivingHarness>(plan.callers[i] ?? 0).fill(harness),
    );
    this.reserving = planners.length;
    const workers = executors.flatMap((team) =>
      team.flatMap((one) => Array<WorkloadSession>(plan.executorLoops).fill(one)),
    );
    this.executing = workers.length;
    const settlers = reconcilers.flatMap((team) =>
      team.flatMap((one) => Array<WorkloadSession>(plan.reconcilerLoops).fill(one)),
    );
    await Promise.all([
      ...planners.map((harness, i) =>
        this.plan(harness, i % 2, plan.tries).finally(() => (this.reserving -= 1)),
      ),
      ...workers.map((session) => this.work(session).finally(() => (this.executing -= 1))),
      ...settlers.map((session) => this.settle(session)),
    ]);
  }

  /** Reserves effects, each of which must be let through. */
  async prepare(count: number): Promise<Work[]> {
    const { harnesses } = this.who;
    return Promise.all(
      Array.from({ length: count }, async (_, i) => {
        const work = await this.reserve(harnesses[i % harnesses.length] as LivingHarness, i % 2);
        if (!work) throw new Error('a reservation was refused');
        return work;
      }),
    );
  }

  /** Has all of them started at the same moment, by two executors on two replicas. */
  startAll(all: readonly Work[]): Promise<string[]> {
    return Promise.all(all.map((work, i) => this.start(work, i)));
  }

  /** Starts an effect and ends it. */
  async execute(work: Work, ending: EffectState): Promise<void> {
    expect(await this.start(work, 0)).toBe('done');
    await this.end(work, ending);
  }

  /** Ends an execution, by whoever started it. */
  async end(work: Work, ending: EffectState): Promise<void> {
    const session = await this.starterOf(work);
    await this.finish(session, work, await session.look(work.effectId), ending);
  }

  private async starterOf({ effectId }: Work): Promise<WorkloadSession> {
    const [any] = this.who.executors[0] as readonly [WorkloadSession];
    const { executorRegistrationId } = await any.look(effectId);
    const found = this.who.executors
      .flat()
      .find(({ registration }) => registration.registrationId === executorRegistrationId);
    if (!found) throw new Error('nobody started it');
    return found;
  }

  private async start(work: Work, turn: number): Promise<string> {
    const team = this.who.executors[turn % 2] as readonly WorkloadSession[];
    const session = team[(turn >> 1) % team.length] as WorkloadSession;
    return this.startOn(session, work);
  }

  private async startOn(session: WorkloadSession, work: Work): Promise<string> {
    const request = await session.start(await session.look(work.effectId), work.attemptId);
    return this.ordinary(work.harness, session.channel.service(EffectService).startExecution(request));
  }

  private async plan(harness: LivingHarness, replica: number, tries: number): Promise<void> {
    for (let i = 0; i < tries; i += 1) {
      const work = await this.reserve(harness, (replica + i) % 2);
      this.turn += 1;
      if (work && this.turn % 6 === 0) await this.cancel(work, replica);
      else if (work) this.prepared.push(work);
    }
  }

  private async reserve(harness: LivingHarness, replica: number): Promise<Work | undefined> {
    let effectId = '';
    const call = this.living.reserve(harness, harness.channels[replica] as Channel).then((reply) => {
      effectId = reply.effectId;
    });
    if ((await this.ordinary(harness, call)) !== 'done') return undefined;
    this.pending += 1;
    this.mostPending = Math.max(this.mostPending, this.pending);
    return { effectId, harness, attemptId: `attempt-${randomBytes(12).toString('hex')}` };
  }

  private async cancel({ harness, effectId }: Work, replica: number): Promise<void> {
    const channel = harness.channels[replica] as Channel;
    const question = { action: 'effect.cancel', resource: effectId, requestDigest: digest('') };
    const { decision } = await this.safe(harness, channel.service(PolicyService).decide(question));
    this.pending -= 1;
    const wish = { effectId, decisionId: decision?.decisionId ?? '' };
    await this.safe(harness, channel.service(EffectService).cancelEffect(wish));
  }

  private async work(session: WorkloadSession): Promise<void> {
    while (this.reserving > 0 || this.prepared.length > 0) {
      const work = this.prepared.shift();
      if (!work) {
        await pause();
        continue;
      }
      if ((await this.startOn(session, work)) !== 'done') continue;
      this.turn += 1;
      const endings = [EffectState.SUCCEEDED, EffectState.UNKNOWN, EffectState.FAILED, EffectState.SUCCEEDED];
      await this.finish(
        session,
        work,
        await session.look(work.effectId),
        endings[this.turn % 4] as EffectState,
      );
    }
  }

  private async finish(
    session: WorkloadSession,
    work: Work,
    effect: Effect,
    ending: EffectState,
  ): Promise<void> {
    const effects = session.channel.service(EffectService);
    const { attemptId, harness } = work;
    if (ending === EffectState.UNKNOWN) {
      const doubt = {
        attemptId,
        reason: 1,
        observationDigest: digest('nothing came back'),
        observedTime: timestampFromMs(session.clock()),
      };
      await this.safe(harness, effects.markUnknown(await session.markUnknown(effect, doubt)));
      this.doubtful.push(work);
      return;
    }
    const receipt = { attemptId, receiptId: `receipt-${randomUUID()}`, receipt: 'done' };
    this.pending -= 1;
    await this.safe(harness, effects.acknowledgeTerminal(await session.acknowledge(effect, ending, receipt)));
  }

  private async settle(session: WorkloadSession): Promise<void> {
    while (this.reserving > 0 || this.executing > 0 || this.doubtful.length > 0) {
      const work = this.doubtful.shift();
      if (!work) {
        await pause();
        continue;
      }
      const request = await session.reconcile(await session.look(work.effectId), EffectState.SUCCEEDED, {
        attemptId: work.attemptId,
        authoritySystemId: DEMO_AUTHORITY_SYSTEM,
        queryId: `query-${work.effectId}`,
        response: 'what the ledger says',
      });
      this.pending -= 1;
      await this.safe(work.harness, session.channel.service(EffectService).reconcile(request));
    }
  }

  /** An ordinary call: served and counted, or refused by admission with the time to come back. */
  private async ordinary({ harnessId }: LivingHarness, call: Promise<unknown>): Promise<string> {
    try {
      await call;
    } catch (error) {
      if (!(error instanceof SuretyError) || !HELD.has(error.reason)) throw error;
      expect(error.retryAfterMs, error.reason).toBeGreaterThan(0);
      this.refused.set(error.reason, (this.refused.get(error.reason) ?? 0) + 1);
      return error.reason;
    }
    const { ordinary, safety } = this.of(harnessId);
    this.counts.set(harnessId, { ordinary: ordinary + 1, safety });
    return 'done';
  }

  /** A call of the safety lane: whatever it is refused with fails the test. */
  private async safe<Reply>({ harnessId }: LivingHarness, call: Promise<Reply>): Promise<Reply> {
    const reply = await call;
    const { ordinary, safety } = this.of(harnessId);
    this.counts.set(harnessId, { ordinary, safety: safety + 1 });
    return reply;
  }
}

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 5));
}
