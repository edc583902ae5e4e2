import { type RegisterWorkload, registerWorkload } from '../identity/register-workload.js';
import { type RenewWorkloadCommand, renewWorkloadCommand } from '../identity/renew-workload-command.js';
import { type RevokeWorkload, revokeWorkload } from '../identity/revoke-workload.js';
import { type BumpCredentialEpoch, bumpCredentialEpoch } from './commands/bump-credential-epoch.js';
import { type BumpPolicyRevision, bumpPolicyRevision } from './commands/bump-policy-revision.js';
import { type BumpRevocationEpoch, bumpRevocationEpoch } from './commands/bump-revocation-epoch.js';
import { type CreateCredential, createCredential } from './commands/create-credential.js';
import { type CreateDomain, createDomain } from './commands/create-domain.js';
import { type CreateGrant, createGrant } from './commands/create-grant.js';
import { type PutActionCondition, putActionCondition } from './commands/put-action-condition.js';
import { type PutEntitlement, putEntitlement } from './commands/put-entitlement.js';
import { type PutGateShape, putGateShape } from './commands/put-gate-shape.js';
import { type PutGuest, putGuest } from './commands/put-guest.js';
import { type PutHarness, putHarness } from './commands/put-harness.js';
import { type PutOperator, putOperator } from './commands/put-operator.js';
import { type PutOwner, putOwner } from './commands/put-owner.js';
import { type PutPrincipal, putPrincipal } from './commands/put-principal.js';
import { type PutSink, putSink } from './commands/put-sink.js';
import { type PutTool, putTool } from './commands/put-tool.js';
import { type ResetBreaker, resetBreaker } from './commands/reset-breaker.js';
import { type RevokeCredential, revokeCredential } from './commands/revoke-credential.js';
import { type RevokeEntitlement, revokeEntitlement } from './commands/revoke-entitlement.js';
import { type RevokeGrant, revokeGrant } from './commands/revoke-grant.js';
import { type SetFreeze, setFreeze } from './commands/set-freeze.js';
import { type SetLimits, setLimits } from './commands/set-limits.js';
import { type SetServiceLimit, setServiceLimit } from './commands/set-service-limit.js';
import { type SetShare, setShare } from './commands/set-share.js';
import { type UpdateDomain, updateDomain } from './commands/update-domain.js';
import type { MutationRule } from './mutation-rule.js';

/** Everything that a signed command can do (authority.md, Signed commands). */
export type Mutation =
  | CreateDomain
  | UpdateDomain
  | PutSink
  | BumpPolicyRevision
  | BumpRevocationEpoch
  | SetFreeze
  | SetLimits
  | SetShare
  | SetServiceLimit
  | ResetBreaker
  | PutPrincipal
  | PutGuest
  | PutHarness
  | BumpCredentialEpoch
  | CreateCredential
  | RevokeCredential
  | PutEntitlement
  | RevokeEntitlement
  | CreateGrant
  | RevokeGrant
  | PutOperator
  | PutOwner
  | RegisterWorkload
  | RenewWorkloadCommand
  | RevokeWorkload
  | PutGateShape
  | PutActionCondition
  | PutTool;

export type MutationKind = Mutation['kind'];

const RULES: { readonly [K in MutationKind]: MutationRule<Extract<Mutation, { kind: K }>> } = {
  create_domain: createDomain,
  update_domain: updateDomain,
  put_sink: putSink,
  bump_policy_revision: bumpPolicyRevision,
  bump_revocation_epoch: bumpRevocationEpoch,
  set_freeze: setFreeze,
  set_limits: setLimits,
  set_share: setShare,
  set_service_limit: setServiceLimit,
  reset_breaker: resetBreaker,
  put_principal: putPrincipal,
  put_guest: putGuest,
  put_harness: putHarness,
  bump_credential_epoch: bumpCredentialEpoch,
  create_credential: createCredential,
  revoke_credential: revokeCredential,
  put_entitlement: putEntitlement,
  revoke_entitlement: revokeEntitlement,
  create_grant: createGrant,
  revoke_grant: revokeGrant,
  put_operator: putOperator,
  put_owner: putOwner,
  register_workload: registerWorkload,
  renew_workload: renewWorkloadCommand,
  revoke_workload: revokeWorkload,
  put_gate_shape: putGateShape,
  put_action_condition: putActionCondition,
  put_tool: putTool,
};

/** How a mutation is done. */
export function ruleOf(mutation: Mutation): MutationRule<Mutation> {
  return RULES[mutation.kind] as MutationRule<Mutation>;
}
