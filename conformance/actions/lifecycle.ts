import { durationFromMs } from '@bufbuild/protobuf/wkt';
import type { Held } from '../../src/cli/client/worker-session.js';
import { digest } from '../../src/cli/client/workload-session.js';
import { ActionState, FailureReason } from '../../src/gen/surety/action/v1/action_pb.js';
import {
  EXECUTION,
  type GateOfAction,
  type Leased,
  PAST_SHORT_MS,
  receipt,
  SHORT_MS,
} from '../action-samples.js';
import type { ActionWorld } from '../action-world.js';
import type { Case } from '../case.js';
import { expectRefused, expectSame, expectThat, expectThere } from '../expect.js';

type Edge = 'dispatch' | 'observe' | 'deferObservation' | 'defer' | 'accept' | 'verify' | 'complete';

/** Each step of a leaseholder, whatever the state. */
function step(world: ActionWorld, edge: Edge, held: Held, gate: GateOfAction): Promise<unknown> {
  const known = { ...held, action: { ...held.action, executionDigest: EXECUTION } };
  switch (edge) {
    case 'dispatch':
      return world.dispatch(held, gate);
    case 'observe':
      return world.worker.beginObservation(known);
    case 'deferObservation':
      return world.worker.deferObservation(known, 0, 1_000);
    case 'defer':
      return world.worker.defer(held, 1_000);
    case 'accept':
      return world.worker.accept(held, receipt('out of turn'));
    case 'verify':
      return world.worker.verify(held, ['accepted', 'out of turn']);
    case 'complete':
      return world.worker.complete(held, digest('out of turn'));
  }
}

/** The steps that no edge of a state is. */
const NO_EDGES: readonly (readonly [
  state: string,
  reach: (world: ActionWorld) => Promise<Leased>,
  steps: Edge[],
])[] = [
  ['GATED', (world) => world.leased(), ['observe', 'deferObservation', 'accept', 'verify', 'complete']],
  ['DISPATCHED', (world) => world.dispatched(), ['dispatch', 'defer', 'verify', 'complete']],
  [
    'ACCEPTED',
    (world) => world.accepted(),
    ['dispatch', 'observe', 'deferObservation', 'accept', 'complete'],
  ],
  ['VERIFIED', (world) => world.verified(), ['dispatch', 'observe', 'deferObservation', 'accept', 'verify']],
  [
    'COMPLETED',
    completed,
    ['dispatch', 'observe', 'deferObservation', 'defer', 'accept', 'verify', 'complete'],
  ],
  ['FAILED', failed, ['dispatch', 'observe', 'deferObservation', 'defer', 'accept', 'verify', 'complete']],
];

async function completed(world: ActionWorld): Promise<Leased> {
  const leased = await world.verified();
  return { ...leased, action: await world.worker.complete(leased.held, digest('done')) };
}

async function failed(world: ActionWorld): Promise<Leased> {
  const leased = await world.dispatched();
  return { ...leased, action: await world.worker.fail(leased.held, { detail: 'it broke', retryable: true }) };
}

/** States that a leaseholder can fail an action in. */
const FAILABLE: readonly (readonly [state: string, reach: (world: ActionWorld) => Promise<Leased>])[] = [
  ['GATED', (world) => world.leased()],
  ['DISPATCHED', (world) => world.dispatched()],
  ['ACCEPTED', (world) => world.accepted()],
  ['VERIFIED', (world) => world.verified()],
];

/** I8 and I10: only forward, and a failure is terminal and evident. */
export const LIFECYCLE_CASES: readonly Case<ActionWorld>[] = [
  ...NO_EDGES.map(
    ([state, reach, steps]): Case<ActionWorld> => ({
      id: `life.no-edge.${state}`,
      rule: 'I8',
      title: `From ${state} lead only its own edges.`,
      run: async (world) => {
        const { action, gate, held } = await reach(world);
        expectSame('state', ActionState[(await world.look(action)).state], state);
        const calls = steps.map((edge) => [edge, () => step(world, edge, held, gate)] as const);
        await world.allRefused(action, calls, 'ACTION_STATE_CONFLICT', 'LEASE_LOST');
      },
    }),
  ),
  {
    id: 'life.no-gate-behind-the-dispatch',
    rule: 'GateAction',
    title: 'Nothing is gated or rejected that is dispatched or has ended.',
    run: async (world) => {
      for (const reach of [(w: ActionWorld) => w.dispatched(), completed, failed]) {
        const { action } = await reach(world);
        const approval = await world.approval(action);
        const rejection = await world.rejection(action);
        const owner = world.actions('owner');
        const calls = [
          ['the gate', () => owner.gateAction(approval)],
          ['the refusal', () => owner.rejectAction(rejection)],
        ] as const;
        await world.allRefused(action, calls, 'ACTION_STATE_CONFLICT');
      }
    },
  },
  {
    id: 'life.events',
    rule: 'I8',
    title:
      'Each edge appends an event: numbered from 1 without a gap, each from where the one before led to.',
    run: async (world) => {
      const { action } = await completed(world);
      const events = await world.events(action);
      const { UNSPECIFIED, PROPOSED, GATED, DISPATCHED, ACCEPTED, VERIFIED, COMPLETED } = ActionState;
      const edges = [UNSPECIFIED, PROPOSED, GATED, DISPATCHED, ACCEPTED, VERIFIED, COMPLETED];
      const moved = events.filter(({ fromState, toState }) => fromState !== toState);
      expectSame(
        'edges',
        moved.map(({ toState }) => toState),
        edges.slice(1),
      );
      expectSame(
        'from',
        moved.map(({ fromState }) => fromState),
        edges.slice(0, -1),
      );
      expectSame(
        'numbers',
        events.map(({ eventNumber }) => eventNumber),
        events.map((_, i) => BigInt(i + 1)),
      );
      const positions = events.map(({ auditPosition }) => auditPosition);
      expectThat(
        positions.every((at, i) => i === 0 || at > (positions[i - 1] ?? at)),
        'audit positions ascend',
      );
      expectSame('event_count', (await world.look(action)).eventCount, BigInt(events.length));
    },
  },
  {
    id: 'life.watch',
    rule: 'RPCs',
    title: 'A watcher gets the events of an action in order, as they are listed.',
    run: async (world) => {
      const { action } = await completed(world);
      const listed = await world.events(action);
      const abort = new AbortController();
      const { domainId } = world;
      const request = {
        domainId,
        actionId: action.actionId,
        afterPosition: (listed[0]?.auditPosition ?? 1n) - 1n,
      };
      const seen: bigint[] = [];
      const stream = world
        .actions('auditor')
        .watchActions(request, { signal: abort.signal, timeoutMs: 20_000 });
      for await (const { event } of stream) {
        if (event) seen.push(event.eventNumber);
        if (seen.length === listed.length) break;
      }
      expectSame(
        'events',
        seen,
        listed.map(({ eventNumber }) => eventNumber),
      );
    },
  },
  ...FAILABLE.map(
    ([state, reach]): Case<ActionWorld> => ({
      id: `fail.from.${state}`,
      rule: 'I10',
      title: `A failure from ${state} is terminal: FAILED, no lease, a dead letter with the action as it was.`,
      run: async (world) => {
        const { action, held } = await reach(world);
        const failure = await world.worker.actions.failAction({
          actionId: action.actionId,
          leaseToken: held.lease.leaseToken,
          detail: 'it broke',
          resultDigest: digest('pieces'),
        });
        const ended = await world.look(action);
        expectSame('state', ActionState[ended.state], 'FAILED');
        expectSame('failure_reason', ended.failureReason, FailureReason.WORKER);
        expectSame('lease', ended.lease, undefined);
        expectSame('result_digest', ended.resultDigest, digest('pieces'));
        const letter = expectThere('the dead letter', await world.deadLetter(ended));
        expectSame('the answered dead letter', failure.deadLetter?.auditPosition, letter.auditPosition);
        expectSame('from_state', ActionState[letter.fromState], state);
        expectSame('detail', letter.detail, 'it broke');
        expectSame('snapshot_digest', letter.snapshotDigest, digest(letter.snapshot));
        const events = await world.events(action);
        expectSame('the last event', events.at(-1)?.toState, ActionState.FAILED);
        expectSame('its position', events.at(-1)?.auditPosition, letter.auditPosition);
      },
    }),
  ),
  {
    id: 'fail.retryable',
    rule: 'I10',
    title:
      '`retryable` is recorded and never honoured: nothing hands the action out again, and nobody gates it.',
    alone: true,
    run: async (world) => {
      const { action, held } = await world.leased();
      await world.worker.fail(held, { detail: 'try again', retryable: true });
      await world.advance(PAST_SHORT_MS);
      const ended = await world.look(action);
      expectSame('state and mark', [ended.state, ended.retryable], [ActionState.FAILED, true]);
      expectSame('the dead letter’s', (await world.deadLetter(ended))?.retryable, true);
      const scope = { actionIds: [action.actionId] };
      expectSame('LeaseNext', await world.worker.leaseNext({ scope }), undefined);
      expectSame('LeaseObservation', await world.worker.leaseObservation({ scope }), undefined);
      const approval = await world.approval(action);
      const gate = () => world.actions('owner').gateAction(approval);
      await world.refusedWithoutTrace('another gate', action, gate, 'ACTION_STATE_CONFLICT');
    },
  },
  {
    id: 'fail.without-a-reason',
    rule: 'FailAction',
    title: 'A failure says why.',
    run: async (world) => {
      const { action, held } = await world.leased();
      const call = () => world.worker.fail(held, { detail: '' });
      await world.refusedWithoutTrace('the failure', action, call, 'FIELD_INVALID');
    },
  },
  {
    id: 'proposal.expires',
    rule: 'ProposeAction, I11',
    title:
      'A proposal that nobody approves in its time fails by itself, with a dead letter; what was approved stays.',
    alone: true,
    run: async (world) => {
      const ttl = { proposalTtl: durationFromMs(SHORT_MS) };
      const forgotten = await world.propose(ttl);
      const approved = await world.gated(ttl);
      const patient = await world.propose();
      await world.advance(PAST_SHORT_MS);
      const ended = await world.look(forgotten);
      expectSame('state', ActionState[ended.state], 'FAILED');
      expectSame('failure_reason', ended.failureReason, FailureReason.PROPOSAL_EXPIRED);
      expectThere('the dead letter', await world.deadLetter(ended));
      expectSame('the approved one', ActionState[(await world.look(approved.action)).state], 'GATED');
      expectSame('one without a time', ActionState[(await world.look(patient)).state], 'PROPOSED');
      const approval = await world.approval(forgotten);
      const gate = () => world.actions('owner').gateAction(approval);
      await world.refusedWithoutTrace('a late approval', forgotten, gate, 'ACTION_STATE_CONFLICT');
    },
  },
  {
    id: 'proposal.ttl-bounds',
    rule: 'ProposeAction',
    title: 'A proposal waits a second to thirty days; other times are refused.',
    run: async (world) => {
      for (const ms of [0, 999, 30 * 86_400_000 + 1]) {
        const call = world
          .actions('harness')
          .proposeAction(world.proposal({ proposalTtl: durationFromMs(ms) }));
        await expectRefused(`${ms} ms`, call, 'FIELD_INVALID');
      }
    },
  },
];
