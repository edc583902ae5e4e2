import { type Action, ActionState, FailureReason } from '../../src/gen/surety/action/v1/action_pb.js';
import { RecordStatus } from '../../src/gen/surety/identity/v1/workload_pb.js';
import { createSigningKey } from '../../src/identity/sign.js';
import { bytes, gateOf, LONG_MS } from '../action-samples.js';
import type { ActionWorld, OwnerChange } from '../action-world.js';
import type { Case } from '../case.js';
import { expectRefused, expectSame } from '../expect.js';

/** What may become of an owner between an approval and its use. */
const OWNER_CHANGES: readonly (readonly [
  id: string,
  what: string,
  change: () => OwnerChange,
  reasons: readonly string[],
])[] = [
  [
    'key-replaced',
    'whose registered key is another by now',
    () => ({ signingKeyJwk: createSigningKey().publicKey.jwk }),
    ['OWNER_NOT_CURRENT'],
  ],
  [
    'suspended',
    'who is not active any more',
    () => ({ status: RecordStatus.SUSPENDED }),
    ['OWNER_NOT_CURRENT'],
  ],
  [
    'source-lost',
    'whose scopes lost the source',
    () => ({ sourceScopes: ['elsewhere'] }),
    ['OWNER_SCOPE_MISSING'],
  ],
  ['type-lost', 'whose scopes lost the type', () => ({ typeScopes: ['elsewhere'] }), ['OWNER_SCOPE_MISSING']],
];

/** Runs with the second owner changed, and changes it back. */
async function whileChanged(
  world: ActionWorld,
  change: OwnerChange,
  run: () => Promise<void>,
): Promise<void> {
  await world.putSecondOwner(change);
  try {
    await run();
  } finally {
    await world.putSecondOwner();
  }
}

/** Who may approve, and what becomes of an approval before it is used. */
export const GATING_CASES: readonly Case<ActionWorld>[] = [
  {
    id: 'gate.good',
    rule: 'GateAction',
    title: 'An approval moves PROPOSED to GATED and is kept verbatim.',
    run: async (world) => {
      const { action, request } = await world.gated();
      expectSame('state', action.state, ActionState.GATED);
      const [gate] = await world.receipts(action);
      expectSame(
        'kind, status, external id',
        [gate?.kind, gate?.status, gate?.externalId],
        ['gate', 'passed', request.approvalId],
      );
      expectSame('evidence', gate?.evidence, request.evidence);
      expectSame('signature', gate?.signatureJws, request.signatureJws);
    },
  },
  {
    id: 'gate.signature.evidence-altered',
    rule: "Owner's signature",
    title:
      'A signature over other bytes than the evidence that is sent is refused, also where both mean the same.',
    run: async (world) => {
      const action = await world.propose();
      const good = await world.approval(action);
      const altered = bytes(` ${Buffer.from(good.evidence ?? []).toString('utf8')}`);
      await world.refusedWithoutTrace(
        'the altered approval',
        action,
        () => world.actions('owner').gateAction({ ...good, evidence: altered }),
        'APPROVAL_SIGNATURE_INVALID',
      );
    },
  },
  {
    id: 'gate.signature.unknown-key',
    rule: "Owner's signature",
    title: 'A signature by a key that is no registered one is refused.',
    run: async (world) => {
      const action = await world.propose();
      const request = await world.approval(action, { key: createSigningKey() });
      await world.refusedWithoutTrace(
        'the approval',
        action,
        () => world.actions('owner').gateAction(request),
        'APPROVAL_SIGNATURE_INVALID',
        'OWNER_NOT_CURRENT',
      );
    },
  },
  {
    id: 'gate.signature.another-owner',
    rule: "Owner's signature",
    title: "An approval that another owner signed is refused: the calling owner's own key signs.",
    run: async (world) => {
      const action = await world.propose();
      const request = await world.approval(action, { key: world.signingKey('secondOwner') });
      await world.refusedWithoutTrace(
        'the approval',
        action,
        () => world.actions('owner').gateAction(request),
        'APPROVAL_SIGNATURE_INVALID',
        'OWNER_NOT_CURRENT',
      );
    },
  },
  {
    id: 'gate.signature.absent',
    rule: "Owner's signature",
    title:
      'An approval without a signature and without a bounded grant is refused, from an owner and from a worker.',
    run: async (world) => {
      const action = await world.propose();
      const request = await world.approval(action, { key: null });
      const byOwner = () => world.actions('owner').gateAction(request);
      await world.refusedWithoutTrace(
        "the owner's",
        action,
        byOwner,
        'FIELD_INVALID',
        'APPROVAL_SIGNATURE_INVALID',
      );
      const byWorker = () => world.actions('worker').gateAction({ ...request, domainId: '' });
      await world.refusedWithoutTrace("the worker's", action, byWorker, 'OWNER_REQUIRED');
    },
  },
  {
    id: 'gate.sent-by-another',
    rule: 'RPCs',
    title: "A worker or harness cannot send an owner's signed approval for it.",
    run: async (world) => {
      const action = await world.propose();
      const request = { ...(await world.approval(action)), domainId: '' };
      for (const who of ['worker', 'harness'] as const) {
        const call = () => world.actions(who).gateAction(request);
        await world.refusedWithoutTrace(`the ${who}'s`, action, call, 'OWNER_REQUIRED');
      }
    },
  },
  {
    id: 'gate.reused-approval',
    rule: "Owner's signature",
    title: 'An approval id and a decision id are one gate’s each, in the whole domain.',
    run: async (world) => {
      const { request } = await world.gated();
      const { approvalId = '', decisionId = '' } = request;
      const action = await world.propose();
      for (const wish of [{ approvalId }, { decisionId }]) {
        const again = await world.approval(action, wish);
        const call = () => world.actions('owner').gateAction(again);
        await world.refusedWithoutTrace(`with ${Object.keys(wish)[0]}`, action, call, 'APPROVAL_REUSED');
      }
    },
  },
  {
    id: 'gate.reused-receipt-key',
    rule: 'I2',
    title: "A gate's receipt key that is used again for another approval is a conflict.",
    run: async (world) => {
      const { action, request } = await world.gated();
      const other = await world.approval(action, { receiptKey: request.receiptKey ?? '' });
      const call = () => world.actions('owner').gateAction(other);
      await world.refusedWithoutTrace('the other gate', action, call, 'RECEIPT_CONFLICT');
    },
  },
  {
    id: 'gate.second-gate',
    rule: 'GateAction, I4',
    title: 'A second gate that lands between the lease and the dispatch makes the dispatch impossible.',
    run: async (world) => {
      const { action, gate, held } = await world.leased();
      const second = await world.approval(action);
      const { action: now } = await world.actions('owner').gateAction(second);
      expectSame('state after the second gate', now?.state, ActionState.GATED);
      for (const named of [gate, gateOf(second)]) {
        await world.refusedWithoutTrace(
          'the dispatch',
          action,
          () => world.dispatch(held, named),
          'GATE_INVALID',
        );
      }
    },
  },
  {
    id: 'gate.proposer-approves',
    rule: "Owner's signature",
    title: "The approver is not the proposer: a key that is the proposer's signs no approval.",
    alone: true,
    run: (world) =>
      withOwnersKey(world, async () => {
        const { action } = await world.actions('courier').proposeAction(world.proposal());
        const proposed = action as Action;
        const request = await world.approval(proposed);
        await world.refusedWithoutTrace(
          'the approval',
          proposed,
          () => world.actions('owner').gateAction(request),
          'APPROVER_NOT_INDEPENDENT',
        );
      }),
  },
  {
    id: 'gate.leaseholder-approves',
    rule: "Owner's signature",
    title:
      "The approver is not the leaseholder: a key that is the worker's approved nothing that the worker dispatches.",
    alone: true,
    run: (world) =>
      withOwnersKey(world, async () => {
        const { action, gate } = await world.gated();
        const held = await world.lease(action, LONG_MS, world.courier);
        await world.refusedWithoutTrace(
          'the dispatch',
          action,
          () => world.dispatch(held, gate, {}, world.courier),
          'APPROVER_NOT_INDEPENDENT',
        );
      }),
  },
  ...OWNER_CHANGES.map(
    ([id, what, change, reasons]): Case<ActionWorld> => ({
      id: `gate.owner.${id}`,
      rule: "Owner's signature, I4",
      title: `The approval of an owner ${what} is not good at dispatch; it is again when the owner is.`,
      alone: true,
      run: async (world) => {
        const { action, gate } = await world.gated({}, {}, 'secondOwner');
        const held = await world.lease(action);
        const dispatch = () => world.dispatch(held, gate);
        await whileChanged(world, change(), () =>
          world.refusedWithoutTrace('the dispatch', action, dispatch, ...reasons),
        );
        await dispatch();
      },
    }),
  ),
  {
    id: 'gate.owner.out-of-scope',
    rule: 'RPCs',
    title:
      'An owner outside of whose scopes an action is does not see it, approve it, reject it or write to it.',
    alone: true,
    run: async (world) => {
      const action = await world.propose();
      const { actionId } = action;
      const { domainId } = world;
      const approval = await world.approval(action, {}, 'secondOwner');
      const owner = world.actions('secondOwner');
      await whileChanged(world, { sourceScopes: ['elsewhere'] }, async () => {
        await expectRefused('GetAction', owner.getAction({ actionId, domainId }), 'NOT_VISIBLE');
        const gate = () => owner.gateAction(approval);
        await world.refusedWithoutTrace('GateAction', action, gate, 'NOT_VISIBLE', 'OWNER_SCOPE_MISSING');
      });
      await owner.getAction({ actionId, domainId });
    },
  },
  {
    id: 'gate.suspended-owner-gates',
    rule: 'RPCs',
    title: 'An owner who is not active any more approves nothing.',
    alone: true,
    run: async (world) => {
      const action = await world.propose();
      const request = await world.approval(action, {}, 'secondOwner');
      await whileChanged(world, { status: RecordStatus.SUSPENDED }, async () => {
        const call = world.actions('secondOwner').gateAction(request);
        await expectRefused('the approval', call, 'OWNER_NOT_CURRENT', 'METHOD_NOT_ALLOWED');
      });
      expectSame('state', (await world.look(action)).state, ActionState.PROPOSED);
    },
  },
  {
    id: 'reject.good',
    rule: 'RejectAction',
    title: 'A refusal by an owner ends a proposal for ever, with the decision as a receipt.',
    run: async (world) => {
      const action = await world.propose();
      const request = await world.rejection(action);
      const { action: rejected, receipt } = await world.actions('owner').rejectAction(request);
      expectSame(
        'state and reason',
        [rejected?.state, rejected?.failureReason],
        [ActionState.FAILED, FailureReason.REJECTED],
      );
      expectSame('receipt', [receipt?.kind, receipt?.status], ['gate', 'rejected']);
      const letter = await world.deadLetter(await world.look(action));
      expectSame('from_state of the dead letter', letter?.fromState, ActionState.PROPOSED);
      const approval = await world.approval(action);
      const gate = () => world.actions('owner').gateAction(approval);
      await world.refusedWithoutTrace('an approval behind it', action, gate, 'ACTION_STATE_CONFLICT');
    },
  },
  {
    id: 'reject.only-proposed',
    rule: 'RejectAction',
    title: 'An action that is approved cannot be rejected any more.',
    run: async (world) => {
      const { action } = await world.gated();
      const request = await world.rejection(action);
      await world.refusedWithoutTrace(
        'the refusal',
        action,
        () => world.actions('owner').rejectAction(request),
        'ACTION_STATE_CONFLICT',
      );
    },
  },
  {
    id: 'reject.approval-is-no-refusal',
    rule: 'RejectAction',
    title: 'Evidence that says approved rejects nothing.',
    run: async (world) => {
      const action = await world.propose();
      const request = await world.rejection(action, { members: { decision: 'approved' } });
      await world.refusedWithoutTrace(
        'the refusal',
        action,
        () => world.actions('owner').rejectAction(request),
        'GATE_INVALID',
      );
    },
  },
];

/** Runs while the second worker has a registration whose proof key is the owner's signing key, and revokes that. */
async function withOwnersKey(world: ActionWorld, run: () => Promise<void>): Promise<void> {
  const { registration } = await world.registerWorker('courier', world.signingKey('owner'));
  const { registrationId } = registration;
  try {
    await run();
  } finally {
    await world.command({ case: 'revokeWorkload', value: { registrationId } });
  }
}
