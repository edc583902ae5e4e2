import { ActionService } from '../gen/surety/action/v1/action_service_pb.js';
import { acceptAction } from '../ledger/action/accept-action.js';
import { addBoundedGrant } from '../ledger/action/add-bounded-grant.js';
import { addReceipt } from '../ledger/action/add-receipt.js';
import { beginDispatch } from '../ledger/action/begin-dispatch.js';
import { beginObservation } from '../ledger/action/begin-observation.js';
import type { ActionReply, LeaseReply, ReceiptReply } from '../ledger/action/commands.js';
import { completeAction } from '../ledger/action/complete-action.js';
import { deferLeased } from '../ledger/action/defer-leased.js';
import { deferObservation } from '../ledger/action/defer-observation.js';
import { failAction } from '../ledger/action/fail-action.js';
import { gateAction } from '../ledger/action/gate-action.js';
import { leaseNext } from '../ledger/action/lease-next.js';
import { leaseObservation } from '../ledger/action/lease-observation.js';
import { proposeAction } from '../ledger/action/propose-action.js';
import { rejectAction } from '../ledger/action/reject-action.js';
import { revokeBoundedGrant } from '../ledger/action/revoke-bounded-grant.js';
import { verifyAction } from '../ledger/action/verify-action.js';
import { seeAction } from './action/action-viewer.js';
import { dispatchChecks } from './action/dispatch-checks.js';
import { getDispatchView } from './action/dispatch-view.js';
import {
  wireAction,
  wireBoundedGrant,
  wireDeadLetter,
  wireLease,
  wireReceipt,
} from './action/encode-action.js';
import { listActions } from './action/list-actions.js';
import { listDeadLetters } from './action/list-dead-letters.js';
import { listEvents } from './action/list-events.js';
import { listReceipts } from './action/list-receipts.js';
import { readBoundedGrant, readGate, readGrantRevocation, readRejection } from './action/owner-requests.js';
import { readAddedReceipt, readProposal } from './action/proposer-requests.js';
import { readActionId } from './action/read-fields.js';
import { reapLeases } from './action/reap-leases.js';
import { watchActions } from './action/watch-actions.js';
import {
  readAcceptance,
  readCompletion,
  readDeferral,
  readDeferredObservation,
  readDispatch,
  readFailure,
  readLeaseNext,
  readLeaseObservation,
  readObservation,
  readVerification,
} from './action/worker-requests.js';
import { bind, type CallContext, type HandlerTools, type ServiceBinding } from './handler.js';
import { replyOf } from './reply-of.js';
import { Violations } from './validate.js';
import type { PositionPoller } from './watch/position-poller.js';

/** Governed actions (actions.md): each handler reads its request, runs one decision in the lane, and shows the reply. */
export function actionService(tools: HandlerTools, positions: PositionPoller): ServiceBinding {
  return bind(ActionService, {
    proposeAction: async (request, context) => {
      const command = readProposal(tools, request, context);
      return shownAction(context, await replyOf(tools, context, proposeAction, command));
    },
    gateAction: async (request, context) => {
      const command = await readGate(tools, request, context);
      return shownReceipt(context, await replyOf(tools, context, gateAction, command));
    },
    rejectAction: async (request, context) => {
      const command = await readRejection(tools, request, context);
      return shownReceipt(context, await replyOf(tools, context, rejectAction, command));
    },
    addBoundedGrant: async (request, context) => {
      const command = await readBoundedGrant(tools, request, context);
      const { grant, duplicate } = await replyOf(tools, context, addBoundedGrant, command);
      return { boundedGrant: wireBoundedGrant(grant), duplicate };
    },
    revokeBoundedGrant: async (request, context) => {
      const command = readGrantRevocation(request, context);
      const { grant, duplicate } = await replyOf(tools, context, revokeBoundedGrant, command);
      return { boundedGrant: wireBoundedGrant(grant), duplicate };
    },
    addReceipt: async (request, context) => {
      const command = readAddedReceipt(request, context);
      const { receipt, duplicate } = await replyOf(tools, context, addReceipt, command);
      return { receipt: wireReceipt(receipt), duplicate };
    },

    leaseNext: async (request, context) => {
      const command = readLeaseNext(request, context);
      return shownLease(context, await replyOf(tools, context, leaseNext, command));
    },
    leaseObservation: async (request, context) => {
      const command = readLeaseObservation(request, context);
      const reply = await replyOf(tools, context, leaseObservation, command);
      return { ...shownLease(context, reply), ended: reply.ended };
    },
    getDispatchView: (request, context) => getDispatchView(tools, request, context),
    beginDispatch: async (request, context) => {
      const command = readDispatch(request, context);
      const checks = await dispatchChecks(tools.reader, command);
      const { action, contract } = await replyOf(tools, context, beginDispatch, { ...command, checks });
      return { action: wireAction(context.domainId, action), contract: wireReceipt(contract) };
    },
    beginObservation: async (request, context) => {
      const command = readObservation(request, context);
      const reply = await replyOf(tools, context, beginObservation, command);
      const { observation, observationNumber } = reply;
      return {
        ...shownAction(context, reply),
        ...(observation && { observation: wireReceipt(observation) }),
        observationNumber,
      };
    },
    deferObservation: async (request, context) => {
      const command = readDeferredObservation(request, context);
      return shownAction(context, await replyOf(tools, context, deferObservation, command));
    },
    deferLeased: async (request, context) => {
      const command = readDeferral(request, context);
      return shownAction(context, await replyOf(tools, context, deferLeased, command));
    },
    acceptAction: async (request, context) => {
      const command = readAcceptance(request, context);
      return shownReceipt(context, await replyOf(tools, context, acceptAction, command));
    },
    verifyAction: async (request, context) => {
      const command = readVerification(request, context);
      const reply = await replyOf(tools, context, verifyAction, command);
      return {
        ...shownAction(context, reply),
        ...(reply.receipt && { receipt: wireReceipt(reply.receipt) }),
      };
    },
    completeAction: async (request, context) => {
      const command = readCompletion(request, context);
      return shownAction(context, await replyOf(tools, context, completeAction, command));
    },
    failAction: async (request, context) => {
      const command = readFailure(request, context);
      const reply = await replyOf(tools, context, failAction, command);
      return { ...shownAction(context, reply), deadLetter: wireDeadLetter(reply.deadLetter) };
    },

    reapLeases: (request, context) => reapLeases(tools, request, context),
    getAction: async (request, context) => {
      const violations = new Violations();
      const actionId = readActionId(violations, request.actionId);
      violations.throwIfAny();
      return { action: wireAction(context.domainId, await seeAction(tools.reader, context, actionId)) };
    },
    listActions: (request, context) => listActions(tools, request, context),
    listReceipts: (request, context) => listReceipts(tools, request, context),
    listEvents: (request, context) => listEvents(tools, request, context),
    listDeadLetters: (request, context) => listDeadLetters(tools, request, context),
    watchActions: (request, context) => watchActions(tools, positions, request, context),
  });
}

function shownAction({ domainId }: CallContext, { action, duplicate }: ActionReply) {
  return { action: wireAction(domainId, action), duplicate };
}

function shownReceipt(context: CallContext, reply: ReceiptReply) {
  return { ...shownAction(context, reply), receipt: wireReceipt(reply.receipt) };
}

/** Without an action nothing is ready. */
function shownLease({ domainId }: CallContext, { leased, duplicate }: LeaseReply) {
  if (!leased) return { duplicate };
  return { action: wireAction(domainId, leased.action), lease: wireLease(leased.lease), duplicate };
}
