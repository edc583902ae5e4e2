import { durationFromMs } from '@bufbuild/protobuf/wkt';
import { digest } from '../../src/cli/client/workload-session.js';
import { type Action, ActionState } from '../../src/gen/surety/action/v1/action_pb.js';
import { canonicalDigest } from '../../src/ledger/encoding.js';
import { bytes, type Proposal, SHORT_MS, TOOL } from '../action-samples.js';
import type { ActionWorld } from '../action-world.js';
import type { Case } from '../case.js';
import { expectRefused, expectSame, expectThat, expectThere } from '../expect.js';

/** What never changes of an action. */
const IDENTITY = [
  'actionId',
  'domainId',
  'idempotencyKey',
  'source',
  'sourceRef',
  'type',
  'toolName',
  'payload',
  'payloadDigest',
  'actionDigest',
  'maxAttempts',
  'proposerSpiffeId',
] as const satisfies readonly (keyof Action)[];

function identityOf(action: Action): readonly unknown[] {
  const created = action.createTime;
  return [...IDENTITY.map((field) => action[field]), created?.seconds, created?.nanos];
}

/** Other content under the same key, by the field that differs. */
const OTHER_CONTENT: readonly (readonly [field: string, over: Proposal])[] = [
  ['source', { source: 'another source' }],
  ['source_ref', { sourceRef: 'another ref' }],
  ['type', { type: 'another type' }],
  ['payload', { payload: bytes(JSON.stringify({ tool_name: TOOL, text: 'another' })) }],
  ['tool_name', { toolName: 'another.tool', payload: bytes(JSON.stringify({ tool_name: 'another.tool' })) }],
  ['proposal_ttl', { proposalTtl: durationFromMs(SHORT_MS) }],
];

/** I1, and what ProposeAction says of the idempotency key. */
export const IDENTITY_CASES: readonly Case<ActionWorld>[] = [
  {
    id: 'identity.never-changes',
    rule: 'I1',
    title: 'What an action is stays byte for byte through its whole life.',
    run: async (world) => {
      const { action, held } = await world.verified();
      const before = identityOf(action);
      const completed = await world.worker.complete(held, digest('done'));
      expectSame('the identity of the completed action', identityOf(completed), before);
      expectSame('the identity as it is read', identityOf(await world.look(action)), before);
      expectSame('max_attempts', completed.maxAttempts, 1);
    },
  },
  {
    id: 'identity.digests',
    rule: 'I1',
    title: 'The digests of an action are those of the bytes that came and of all that never changes.',
    run: async (world) => {
      const proposal = world.proposal();
      const { action } = await world.actions('harness').proposeAction(proposal);
      const stored = expectThere('the action', action);
      expectSame('payload', stored.payload, proposal.payload);
      expectSame('payload_digest', stored.payloadDigest, digest(stored.payload));
      const { actionId, idempotencyKey, source, sourceRef, type, toolName, payloadDigest } = stored;
      const parts = [
        world.domainId,
        actionId,
        idempotencyKey,
        source,
        sourceRef,
        type,
        toolName,
        payloadDigest,
      ];
      expectSame('action_digest', stored.actionDigest, canonicalDigest('surety-action-v1', parts));
      expectSame('state', stored.state, ActionState.PROPOSED);
      expectSame('attempt_count', stored.attemptCount, 0);
    },
  },
  {
    id: 'identity.same-proposal',
    rule: 'I1, ProposeAction',
    title: 'The same proposal answers the stored action and changes nothing.',
    run: async (world) => {
      const proposal = world.proposal();
      const first = await world.actions('harness').proposeAction(proposal);
      const again = await world.actions('harness').proposeAction(proposal);
      expectSame('duplicate', [first.duplicate, again.duplicate], [false, true]);
      expectSame('action_id', again.action?.actionId, first.action?.actionId);
      expectSame('event_count', again.action?.eventCount, 1n);
    },
  },
  ...OTHER_CONTENT.map(
    ([field, over]): Case<ActionWorld> => ({
      id: `identity.other-content.${field}`,
      rule: 'I1, ProposeAction',
      title: `An idempotency key that is used again with another ${field} is a conflict.`,
      run: async (world) => {
        const proposal = world.proposal();
        const { action } = await world.actions('harness').proposeAction(proposal);
        await world.refusedWithoutTrace(
          'the other proposal',
          expectThere('the action', action),
          () => world.actions('harness').proposeAction({ ...proposal, ...over }),
          'ACTION_IDEMPOTENCY_CONFLICT',
        );
      },
    }),
  ),
  {
    id: 'identity.key-of-another-proposer',
    rule: 'RPCs',
    title:
      "An idempotency key is unique in the domain: another proposer's is a conflict, whatever the content.",
    run: async (world) => {
      const proposal = world.proposal();
      await world.actions('harness').proposeAction(proposal);
      const refused = await expectRefused(
        "the other proposer's",
        world.actions('worker').proposeAction(proposal),
        'ACTION_IDEMPOTENCY_CONFLICT',
      );
      expectThat(!refused.message.includes(proposal.source ?? ''), 'the refusal tells nothing of the action');
    },
  },
  {
    id: 'identity.worker-proposes',
    rule: 'RPCs',
    title: 'A worker proposes as a harness does, and is the proposer.',
    run: async (world) => {
      const { action } = await world.actions('worker').proposeAction(world.proposal());
      expectSame('proposer', action?.proposerSpiffeId, world.names.worker);
    },
  },
];
