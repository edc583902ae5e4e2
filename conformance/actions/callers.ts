import { randomUUID } from 'node:crypto';
import { ActionService } from '../../src/gen/surety/action/v1/action_service_pb.js';
import { EXECUTION, LONG_MS, receipt } from '../action-samples.js';
import type { ActionWorld } from '../action-world.js';
import type { Case } from '../case.js';
import { expectRefused, expectSame, expectThat } from '../expect.js';

const KINDS = ['harness', 'worker', 'owner', 'operator', 'auditor'] as const;
type Kind = (typeof KINDS)[number];

const WORKER: readonly Kind[] = ['worker'];
const OWNER: readonly Kind[] = ['owner'];

/** Who calls what (actions.md, RPCs). The reads, which are open to all of these kinds, are judged by who sees what. */
const CALLERS: Readonly<Record<string, readonly Kind[]>> = {
  ProposeAction: ['harness', 'worker'],
  GateAction: ['harness', 'worker', 'owner'],
  RejectAction: OWNER,
  AddBoundedGrant: OWNER,
  RevokeBoundedGrant: OWNER,
  AddReceipt: ['harness', 'worker', 'owner'],
  LeaseNext: WORKER,
  LeaseObservation: WORKER,
  GetDispatchView: WORKER,
  BeginDispatch: WORKER,
  BeginObservation: WORKER,
  DeferObservation: WORKER,
  DeferLeased: WORKER,
  AcceptAction: WORKER,
  VerifyAction: WORKER,
  CompleteAction: WORKER,
  FailAction: WORKER,
  ReapLeases: ['operator'],
};

/** Calls a method by its name with nothing but the domain, where its request has one. */
function callEmpty(world: ActionWorld, kind: Kind, name: string): Promise<unknown> {
  const method = ActionService.methods.find((each) => each.name === name);
  if (!method) throw new Error(`there is no ${name}`);
  const domain = method.input.field['domainId'] ? { domainId: world.domainId } : {};
  const methods = world.actions(kind) as unknown as Record<string, (request: object) => Promise<unknown>>;
  return methods[method.localName]?.(domain) ?? Promise.reject(new Error(name));
}

/** Callers: which kinds, and which of them sees what. */
export const CALLER_CASES: readonly Case<ActionWorld>[] = [
  ...Object.entries(CALLERS).map(
    ([name, allowed]): Case<ActionWorld> => ({
      id: `caller.${name}`,
      rule: 'RPCs',
      title: `${name} is open to callers of the kind ${allowed.join(', ')}, and to no other.`,
      run: async (world) => {
        for (const kind of KINDS.filter((each) => !allowed.includes(each))) {
          await expectRefused(kind, callEmpty(world, kind, name), 'METHOD_NOT_ALLOWED');
        }
      },
    }),
  ),
  {
    id: 'party.nobody-else-sees',
    rule: 'RPCs',
    title: 'Who is no party of an action sees nothing of it and adds nothing to it, as if it were not there.',
    run: async (world) => {
      const { action } = await world.actions('worker').proposeAction(world.proposal());
      for (const actionId of [action?.actionId ?? '', `absent-${randomUUID()}`]) {
        for (const who of ['harness', 'courier'] as const) {
          const actions = world.actions(who);
          const calls = [
            () => actions.getAction({ actionId }),
            () => actions.listReceipts({ actionId }),
            () => actions.listEvents({ actionId }),
            () => actions.addReceipt({ actionId, receipt: receipt('note') }),
          ];
          for (const call of calls) await expectRefused(`${who} of ${actionId}`, call(), 'NOT_VISIBLE');
        }
      }
      const source = action?.source ?? '';
      const listed = await world.actions('harness').listActions({ source });
      expectSame('actions in the list', listed.actions.length, 0);
    },
  },
  {
    id: 'party.parties-see',
    rule: 'RPCs',
    title:
      'Proposer, owner in scope, former leaseholder, operator and auditor see an action; lists leave its payload out.',
    run: async (world) => {
      const { action, held } = await world.leased();
      const { actionId, source } = action;
      await world.worker.defer(held, LONG_MS);
      const { domainId } = world;
      const readers = [
        ['harness', ''],
        ['worker', ''],
        ['owner', domainId],
        ['operator', domainId],
        ['auditor', domainId],
      ] as const;
      for (const [who, named] of readers) {
        const actions = world.actions(who);
        const seen = await actions.getAction({ actionId, domainId: named });
        expectSame(`${who}: payload`, seen.action?.payload, action.payload);
        const { actions: listed } = await actions.listActions({ domainId: named, source });
        expectSame(
          `${who}: the list`,
          listed.map((each) => each.actionId),
          [actionId],
        );
        expectSame(`${who}: the payload in the list`, listed[0]?.payload.length, 0);
      }
    },
  },
  {
    id: 'party.adds-receipts',
    rule: 'AddReceipt',
    title: 'Proposer, owner and leaseholder record receipts in any state, each under its own name.',
    run: async (world) => {
      const { action, held } = await world.verified();
      await world.worker.complete(held, EXECUTION);
      const { actionId } = action;
      for (const who of ['harness', 'owner', 'worker'] as const) {
        const domainId = who === 'owner' ? world.domainId : '';
        const added = await world
          .actions(who)
          .addReceipt({ actionId, domainId, receipt: receipt(`by ${who}`) });
        expectSame(`${who}: the actor`, added.receipt?.actorSpiffeId, world.names[who]);
      }
      const listed = await world.receipts(action);
      expectThat(
        listed.some(({ receiptKey }) => receiptKey === 'by owner'),
        'they are listed',
      );
    },
  },
  {
    id: 'party.harness-gates-its-own',
    rule: 'GateAction',
    title: 'A harness gates nothing that another proposed.',
    run: async (world) => {
      const { action: proposed } = await world.actions('worker').proposeAction(world.proposal());
      if (!proposed) throw new Error('the service answered without an action');
      const { fields } = await world.boundedGrant(proposed);
      const request = { ...(await world.approval(proposed, { fields, key: null })), domainId: '' };
      const call = () => world.actions('harness').gateAction(request);
      await world.refusedWithoutTrace('the gate', proposed, call, 'NOT_VISIBLE');
    },
  },
];
