import { randomUUID } from 'node:crypto';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import type { GrantRequest } from '../src/cli/client/owner-session.js';
import type { Action } from '../src/gen/surety/action/v1/action_pb.js';
import { type SigningKey, signBoundedGrant } from '../src/identity/sign.js';
import type { DomainWorld } from './domain-world.js';

/** How a grant differs from one that covers the action. */
export interface GrantWish {
  readonly grantId?: string;
  readonly sources?: string[];
  readonly types?: string[];
  readonly tools?: string[];
  readonly maxUses?: bigint;
  /** Undefined: it does not end by itself. */
  readonly expiresAtMs?: number | undefined;
  readonly key?: SigningKey;
  readonly domainId?: string;
  readonly ownerSpiffeId?: string;
}

/** What an owner signs in advance: good for this action, but for what is wished otherwise. */
export async function grantRequest(
  world: DomainWorld,
  action: Action,
  wish: GrantWish = {},
): Promise<GrantRequest> {
  const { expiresAtMs, key = world.signingKey('owner'), grantId = `grant-${randomUUID()}`, ...over } = wish;
  const statement = {
    ...world.service,
    domainId: world.domainId,
    boundedGrantId: grantId,
    ownerSpiffeId: world.names.owner,
    sources: [action.source],
    types: [action.type],
    tools: [action.toolName],
    maxUses: 10n,
    issuedTime: timestampFromMs(world.now()),
    ...(expiresAtMs === undefined ? {} : { expireTime: timestampFromMs(expiresAtMs) }),
    ...over,
  };
  return { domainId: world.domainId, grantJws: await signBoundedGrant(statement, key) };
}
