import { canonicalDigest } from '../encoding.js';
import type { Digest } from '../types.js';
import type { ActionRow } from './records.js';

/** What an owner approves: all that never changes of an action, but who proposed it and when. */
export type ActionIdentity = Pick<
  ActionRow,
  'actionId' | 'idempotencyKey' | 'source' | 'sourceRef' | 'type' | 'toolName' | 'payloadDigest'
>;

/** actions.md, I1: the digest that an approval names beside the payload's. */
export function actionDigest(domainId: string, action: ActionIdentity): Digest {
  return canonicalDigest('surety-action-v1', [
    domainId,
    action.actionId,
    action.idempotencyKey,
    action.source,
    action.sourceRef,
    action.type,
    action.toolName,
    action.payloadDigest,
  ]);
}

/** What a condition was evaluated as, so that the transaction sees whether it is still that. */
export function conditionDigest(expression: string): Digest {
  return canonicalDigest('surety-action-condition-v1', [expression]);
}
