import { randomUUID } from 'node:crypto';
import { boundedGrantFields } from '../../src/cli/client/approval-evidence.js';
import type { Action } from '../../src/gen/surety/action/v1/action_pb.js';
import { RecordStatus } from '../../src/gen/surety/identity/v1/workload_pb.js';
import { createSigningKey } from '../../src/identity/sign.js';
import {
  type ApprovalWish,
  gateOf,
  type Leased,
  LONG_MS,
  MARKED_TOOL,
  PAST_SHORT_MS,
  type Proposal,
  SHORT_MS,
  TOOL,
  TYPE,
  UNKNOWN_TOOL,
} from '../action-samples.js';
import type { ActionWorld } from '../action-world.js';
import { type GrantWish, grantRequest } from '../bounded-grant-samples.js';
import type { Case } from '../case.js';
import { expectRefused, expectSame, expectThere } from '../expect.js';

const SUSPENDED_TOOL = 'conformance.suspended';

/** An action with a gate under a bounded grant, leased: all of it good, but for what is wished otherwise. */
async function underGrant(
  world: ActionWorld,
  over: { proposal?: Proposal; grant?: GrantWish; approval?: ApprovalWish; by?: 'harness' | 'worker' } = {},
): Promise<Leased & { readonly grantId: string }> {
  const action = await world.propose(over.proposal);
  const grantId = over.grant?.grantId ?? `grant-${randomUUID()}`;
  const added = await world
    .actions('owner')
    .addBoundedGrant(await grantRequest(world, action, { ...over.grant, grantId }));
  const expires = expectThere('the grant', added.boundedGrant).expireTime;
  const expiresAtMicros = expires && expires.seconds * 1_000_000n + BigInt(expires.nanos / 1_000);
  return { ...(await gatedUnder(world, action, grantId, expiresAtMicros, over)), grantId };
}

async function gatedUnder(
  world: ActionWorld,
  action: Action,
  grantId: string,
  expiresAtMicros: bigint | undefined,
  { approval = {}, by = 'worker' }: { approval?: ApprovalWish; by?: 'harness' | 'worker' } = {},
): Promise<Leased> {
  const fields = boundedGrantFields({ boundedGrantId: grantId, expiresAtMicros, sourceRequest: 'ask-7' });
  const wish = { ...approval, fields: { ...fields, ...approval.fields }, key: null };
  const request = { ...(await world.approval(action, wish)), domainId: '' };
  const gated = expectThere('the gated action', (await world.actions(by).gateAction(request)).action);
  return { action: gated, gate: gateOf(request), request, held: await world.lease(gated) };
}

/** A dispatch under a grant that is refused, and changes nothing. */
async function grantRefused(world: ActionWorld, { action, gate, held }: Leased, ...reasons: string[]) {
  await world.refusedWithoutTrace('the dispatch', action, () => world.dispatch(held, gate), ...reasons);
}

/** Whole seconds: what a statement and the evidence say is then the same in milliseconds and microseconds. */
function inMs(world: ActionWorld, ms: number): number {
  return Math.floor((world.now() + ms) / 1_000) * 1_000;
}

/** Scopes of a grant that do not cover the action. */
const OUT_OF_SCOPE: readonly (readonly [field: string, grant: GrantWish])[] = [
  ['source', { sources: ['elsewhere'] }],
  ['type', { types: ['another type'] }],
  ['tool', { tools: ['another.tool'] }],
];

/** Bounded grants: signed by an owner, used up dispatch by dispatch. */
export const BOUNDED_GRANT_CASES: readonly Case<ActionWorld>[] = [
  ...(['worker', 'harness'] as const).map(
    (by): Case<ActionWorld> => ({
      id: `grant.good.${by}`,
      rule: 'GateAction, Bounded grant',
      title: `A ${by} gates an action under a bounded grant, whose signature stands for the owner's.`,
      run: async (world) => {
        const { gate, held } = await underGrant(world, { by });
        await world.dispatch(held, gate);
      },
    }),
  ),
  {
    id: 'grant.expired.gate-alive',
    rule: 'Gate validator, Bounded grant',
    title: 'A bounded grant whose own expiry passed allows nothing while the approval under it is alive.',
    alone: true,
    run: async (world) => {
      const leased = await underGrant(world, { grant: { expiresAtMs: inMs(world, SHORT_MS) } });
      await world.advance(PAST_SHORT_MS);
      await grantRefused(world, leased, 'APPROVAL_EXPIRED', 'BOUNDED_GRANT_NOT_USABLE');
    },
  },
  {
    id: 'grant.expiry.other-than-the-grants',
    rule: 'Bounded grant',
    title: "Evidence that names another expiry than the grant's allows nothing.",
    run: async (world) => {
      const expiresAtMs = inMs(world, LONG_MS);
      for (const claimed of ['unlimited', (expiresAtMs + 1_000) * 1000]) {
        const approval = { fields: { grant_expires_at: claimed } };
        const leased = await underGrant(world, { grant: { expiresAtMs }, approval });
        await grantRefused(world, leased, 'BOUNDED_GRANT_NOT_USABLE', 'GATE_INVALID');
      }
    },
  },
  {
    id: 'grant.tool.non-grantable',
    rule: 'Gate validator',
    title:
      'A tool that the catalogue marks as non-grantable is never covered, under a grant that is perfect otherwise.',
    run: async (world) => {
      const leased = await underGrant(world, { proposal: { toolName: MARKED_TOOL } });
      await grantRefused(world, leased, 'BOUNDED_GRANT_NOT_USABLE');
    },
  },
  {
    id: 'grant.tool.non-grantable-approved',
    rule: 'Gate validator',
    title: 'The same tool is dispatched with an approval of its own.',
    run: async (world) => {
      const { gate, held } = await world.leased({ toolName: MARKED_TOOL });
      await world.dispatch(held, gate);
    },
  },
  {
    id: 'grant.tool.unknown',
    rule: 'Gate validator',
    title: 'A tool that the catalogue does not know is never covered.',
    run: async (world) => {
      const leased = await underGrant(world, { proposal: { toolName: UNKNOWN_TOOL } });
      await grantRefused(world, leased, 'BOUNDED_GRANT_NOT_USABLE');
    },
  },
  {
    id: 'grant.tool.suspended',
    rule: 'Gate validator',
    title: 'A suspended tool of the catalogue counts as unknown, from the moment on.',
    run: async (world) => {
      const put = (status: RecordStatus) => {
        const tool = { toolName: SUSPENDED_TOOL, nonGrantable: false, status };
        return world.command({ case: 'putTool', value: { tool } });
      };
      await put(RecordStatus.ACTIVE);
      const leased = await underGrant(world, { proposal: { toolName: SUSPENDED_TOOL } });
      await put(RecordStatus.SUSPENDED);
      await grantRefused(world, leased, 'BOUNDED_GRANT_NOT_USABLE');
      await put(RecordStatus.ACTIVE);
      await world.dispatch(leased.held, leased.gate);
    },
  },
  ...OUT_OF_SCOPE.map(
    ([field, grant]): Case<ActionWorld> => ({
      id: `grant.out-of-scope.${field}`,
      rule: 'Bounded grant',
      title: `A grant for another ${field} allows nothing.`,
      run: async (world) => {
        const leased = await underGrant(world, { grant });
        await grantRefused(world, leased, 'BOUNDED_GRANT_NOT_USABLE');
      },
    }),
  ),
  {
    id: 'grant.revoked',
    rule: 'RevokeBoundedGrant',
    title: 'A grant that its owner ended allows nothing, also where the gate was there before.',
    run: async (world) => {
      const leased = await underGrant(world);
      const request = { domainId: world.domainId, boundedGrantId: leased.grantId };
      const { boundedGrant } = await world.actions('owner').revokeBoundedGrant(request);
      expectSame('whether it says when', boundedGrant?.revokeTime !== undefined, true);
      await grantRefused(world, leased, 'BOUNDED_GRANT_NOT_USABLE');
    },
  },
  {
    id: 'grant.revoked-by-another',
    rule: 'RevokeBoundedGrant',
    title: "An owner ends no other owner's grant.",
    run: async (world) => {
      const { grantId, gate, held } = await underGrant(world);
      const request = { domainId: world.domainId, boundedGrantId: grantId };
      await expectRefused('the end', world.actions('secondOwner').revokeBoundedGrant(request), 'NOT_VISIBLE');
      await world.dispatch(held, gate);
    },
  },
  {
    id: 'grant.uses',
    rule: 'Bounded grant',
    title: 'A use is consumed by the dispatch and by nothing else; where none is left nothing is allowed.',
    run: async (world) => {
      const grant = { maxUses: 1n };
      const first = await underGrant(world, { grant });
      const action = await world.propose({ source: first.action.source });
      const second = await gatedUnder(world, action, first.grantId, undefined);
      // Refused for another reason, it consumes nothing.
      const call = world.dispatch(second.held, second.gate, { type: 'another type' });
      await expectRefused('with another type', call, 'EXPECTATION_MISMATCH');
      await world.dispatch(first.held, first.gate);
      await grantRefused(world, second, 'BOUNDED_GRANT_NOT_USABLE');
    },
  },
  {
    id: 'grant.missing',
    rule: 'GateAction',
    title: 'Nothing is gated under a grant that is not there.',
    run: async (world) => {
      const action = await world.propose();
      const fields = boundedGrantFields({
        boundedGrantId: `grant-${randomUUID()}`,
        expiresAtMicros: undefined,
        sourceRequest: 'ask-7',
      });
      const request = { ...(await world.approval(action, { fields, key: null })), domainId: '' };
      const call = () => world.actions('worker').gateAction(request);
      await world.refusedWithoutTrace('the gate', action, call, 'BOUNDED_GRANT_NOT_USABLE');
    },
  },
  {
    id: 'grant.other-content',
    rule: 'AddBoundedGrant',
    title: 'The same grant again is a duplicate; its id with other content is a conflict.',
    run: async (world) => {
      const action = await world.propose();
      const grantId = `grant-${randomUUID()}`;
      const request = await grantRequest(world, action, { grantId });
      const owner = world.actions('owner');
      const first = await owner.addBoundedGrant(request);
      const again = await owner.addBoundedGrant(request);
      expectSame('duplicate', [first.duplicate, again.duplicate], [false, true]);
      const other = await grantRequest(world, action, { grantId, maxUses: 11n });
      await expectRefused('the other grant', owner.addBoundedGrant(other), 'BOUNDED_GRANT_CONFLICT');
    },
  },
  {
    id: 'grant.signed-by-another',
    rule: 'AddBoundedGrant',
    title: "A grant is signed by the calling owner's own key, for itself and for this domain.",
    run: async (world) => {
      const action = await world.propose();
      const wrong: readonly (readonly [string, GrantWish])[] = [
        ['by an unknown key', { key: createSigningKey() }],
        ["by another owner's key", { key: world.signingKey('secondOwner') }],
        ['for another owner', { ownerSpiffeId: world.names.secondOwner }],
        ['for another domain', { domainId: 'another.test' }],
      ];
      for (const [how, wish] of wrong) {
        const call = world.actions('owner').addBoundedGrant(await grantRequest(world, action, wish));
        await expectRefused(how, call, 'APPROVAL_SIGNATURE_INVALID', 'OWNER_NOT_CURRENT');
      }
    },
  },
  {
    id: 'grant.beyond-the-owners-scopes',
    rule: 'AddBoundedGrant',
    title: 'An owner grants nothing outside of its scopes.',
    alone: true,
    run: async (world) => {
      const action = await world.propose();
      const request = await grantRequest(world, action, {
        key: world.signingKey('secondOwner'),
        ownerSpiffeId: world.names.secondOwner,
      });
      await world.putSecondOwner({ typeScopes: ['elsewhere'] });
      try {
        const call = world.actions('secondOwner').addBoundedGrant(request);
        await expectRefused('the grant', call, 'OWNER_SCOPE_MISSING');
      } finally {
        await world.putSecondOwner();
      }
    },
  },
  {
    id: 'grant.owner-suspended',
    rule: "Bounded grant, Owner's signature",
    title: 'A grant is as good as its owner: while that is not active it allows nothing.',
    alone: true,
    run: async (world) => {
      const { secondOwner } = world.names;
      const action = await world.propose({ type: TYPE, toolName: TOOL });
      const grantId = `grant-${randomUUID()}`;
      const wish = { grantId, key: world.signingKey('secondOwner'), ownerSpiffeId: secondOwner };
      await world.actions('secondOwner').addBoundedGrant(await grantRequest(world, action, wish));
      const leased = await gatedUnder(world, action, grantId, undefined);
      await world.putSecondOwner({ status: RecordStatus.SUSPENDED });
      try {
        await grantRefused(world, leased, 'OWNER_NOT_CURRENT');
      } finally {
        await world.putSecondOwner();
      }
      await world.dispatch(leased.held, leased.gate);
    },
  },
];
