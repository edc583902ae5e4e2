import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Channel } from '../../src/cli/client/service-client.js';
import type { WorkloadSession } from '../../src/cli/client/workload-session.js';
import { digest } from '../../src/cli/client/workload-session.js';
import { DEMO_ACTION } from '../../src/cli/demo/set-up-domain.js';
import { AdminService } from '../../src/gen/surety/authority/v1/admin_service_pb.js';
import { type DecideResponse, PolicyService } from '../../src/gen/surety/authority/v1/policy_service_pb.js';
import { OperatorRole } from '../../src/gen/surety/authority/v1/records_pb.js';
import { type Effect, EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { EffectService } from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { Reason } from '../../src/gen/surety/error/v1/reason_pb.js';
import { RecordStatus, WorkloadRole } from '../../src/gen/surety/identity/v1/workload_pb.js';
import { ClearancePurpose } from '../../src/gen/surety/provenance/v1/record_pb.js';
import { createSigningKey, type SigningKey } from '../../src/identity/sign.js';
import { entitle, findingsOfLog, put, WHOLE_LOG } from '../support/e2e-parties.js';
import { ACME, type E2eWorld, HARNESS, OPERATOR, refusedWith } from '../support/e2e-world.js';
import { ProvenanceParty, signed } from '../support/provenance-party.js';
import { beginStream, type LivingHarness, ReplicatedWorld } from '../support/replicated-world.js';

// What is taken back is refused at the very next call that depends on it, on both replicas, over connections that were
// there before (authority.md). What a caller itself loses is in living-connections.test.ts.

const { EFFECT_EXECUTOR, EFFECT_RECONCILER } = WorkloadRole;
const OLGA = `spiffe://${ACME}/owner/olga`;

let living: ReplicatedWorld;
let world: E2eWorld;

beforeAll(async () => {
  // No sweep: it would call off what is not to be started any more.
  living = await ReplicatedWorld.open({ env: { SURETY_SWEEP_INTERVAL_MS: '600000' } });
  world = living.world;
});
afterAll(() => living?.close());

const effects = (channel: Channel) => channel.service(EffectService);

/** An effect of a harness for each replica, as its executor there sees it. */
async function preparedOn(harness: LivingHarness, executor: readonly WorkloadSession[]): Promise<Effect[]> {
  const found: Effect[] = [];
  for (const [index, session] of executor.entries()) {
    const { effectId } = await living.reserve(harness, harness.channels[index] as Channel);
    found.push(await session.look(effectId));
  }
  return found;
}

async function startOf(session: WorkloadSession, effect: Effect): Promise<unknown> {
  const request = await session.start(effect, `attempt-${randomUUID()}`, await world.now());
  return effects(session.channel).startExecution(request);
}

/** Each replica refuses the start at once, and the effect stays as it was. */
async function expectNoStart(
  executor: readonly WorkloadSession[],
  prepared: readonly Effect[],
  told: object,
) {
  for (const [index, session] of executor.entries()) {
    const effect = prepared[index] as Effect;
    expect(await refusedWith(startOf(session, effect))).toMatchObject(told);
    const { effectId } = effect;
    const shown = await effects(world.channel(OPERATOR)).getEffect({ domainId: ACME, effectId });
    expect(shown.effect?.state).toBe(EffectState.PREPARED);
  }
}

async function expectNoReservation(harness: LivingHarness, reason: keyof typeof Reason): Promise<void> {
  for (const channel of harness.channels) {
    expect(await refusedWith(living.reserve(harness, channel))).toMatchObject({ reason });
  }
}

function decideCancel(channel: Channel, effectId: string): Promise<DecideResponse> {
  const question = { action: 'effect.cancel', resource: effectId, requestDigest: digest('') };
  return channel.service(PolicyService).decide(question);
}

describe('the next call', () => {
  test('for a grant that is revoked: none is reserved, none is started', async () => {
    const harness = await living.newHarness();
    const executor = await living.newWorkload(EFFECT_EXECUTOR);
    const prepared = await preparedOn(harness, executor);
    await put(world, { case: 'revokeGrant', value: { grantId: harness.grantId } });
    await expectNoReservation(harness, 'GRANT_REVOKED');
    await expectNoStart(executor, prepared, { reason: 'GRANT_NOT_CURRENT' });
  });

  test('for an entitlement that is revoked: none is reserved, and a decision on it is evidence no more', async () => {
    const harness = await living.newHarness();
    const executor = await living.newWorkload(EFFECT_EXECUTOR);
    const prepared = await preparedOn(harness, executor);
    const decisions: string[] = [];
    for (const [index, channel] of harness.channels.entries()) {
      const { decision } = await decideCancel(channel, prepared[index]?.effectId ?? '');
      expect(decision?.allowed).toBe(true);
      decisions.push(decision?.decisionId ?? '');
    }
    for (const action of [DEMO_ACTION, 'effect.cancel']) {
      const entitlementId = `${harness.principalId}-${action}`;
      await put(world, { case: 'revokeEntitlement', value: { entitlementId } });
    }
    await expectNoReservation(harness, 'ENTITLEMENT_STALE');
    for (const [index, channel] of harness.channels.entries()) {
      const effectId = prepared[index]?.effectId ?? '';
      const { decision } = await decideCancel(channel, effectId);
      expect(decision).toMatchObject({ allowed: false, reason: Reason.ENTITLEMENT_STALE });
      const cancel = effects(channel).cancelEffect({ effectId, decisionId: decisions[index] ?? '' });
      expect(await refusedWith(cancel)).toMatchObject({ reason: 'DECISION_NOT_USABLE' });
    }
  });

  test('with a receipt of an owner whose key is replaced: nothing is cleared', async () => {
    const party = (index: number) =>
      new ProvenanceParty(world.channel(HARNESS, living.replicas[index]), clock);
    const clock = await world.now();
    const parent = await party(0).origin('cleared-by-olga');
    const derivations = await Promise.all(
      [0, 1].map(async (index) => {
        const derivation = party(index).derivation(`derived-${index}`, [parent]);
        const of = (purpose: ClearancePurpose, who: string) =>
          party(index).statement(derivation, purpose, who);
        const review = await signed(of(ClearancePurpose.REVIEW, OLGA), world.signingKey(OLGA));
        const scan = await signed(of(ClearancePurpose.SCAN, OPERATOR), world.signingKey(OPERATOR));
        return { ...derivation, clearanceJws: [review, scan] };
      }),
    );
    const setKey = (key: SigningKey) =>
      put(world, {
        case: 'putOwner',
        value: {
          owner: {
            ...{ spiffeId: OLGA, sourceScopes: ['*'], typeScopes: ['*'] },
            ...{ signingKeyJwk: key.publicKey.jwk, status: RecordStatus.ACTIVE },
          },
        },
      });
    await setKey(createSigningKey());
    for (const [index, derivation] of derivations.entries()) {
      expect(await party(index).refusal(derivation)).toBe('CLEARANCE_INVALID key clearance_jws[0]');
    }
    await setKey(world.signingKey(OLGA));
  });

  test('under a policy revision that is over: none is reserved, none is started, no command is done', async () => {
    const harness = await living.newHarness();
    const executor = await living.newWorkload(EFFECT_EXECUTOR);
    const prepared = await preparedOn(harness, executor);
    const operator = await living.newOperator([OperatorRole.ADMIN], { homeDomainId: ACME });
    const status = RecordStatus.ACTIVE;
    const late = await Promise.all(
      operator.sessions.map((session, index) =>
        session.sign(
          ACME,
          { case: 'putPrincipal', value: { principal: { principalId: `late-${index}`, status } } },
          'late',
        ),
      ),
    );
    await put(world, { case: 'bumpPolicyRevision', value: {} });
    await expectNoReservation(harness, 'POLICY_REVISION_STALE');
    await expectNoStart(executor, prepared, { reason: 'GRANT_NOT_CURRENT' });
    for (const [index, channel] of operator.channels.entries()) {
      const command = channel.service(AdminService).executeCommand({ commandJws: late[index] ?? '' });
      expect(await refusedWith(command)).toMatchObject({ code: 'ABORTED', reason: 'REVISION_STALE' });
    }
    await entitle(world);
    await entitle(world, harness.principalId);
  });

  test('of every workload, when the revocation epoch is over; what they watched ends', async () => {
    const harness = await living.newHarness();
    const executor = await living.newWorkload(EFFECT_EXECUTOR);
    const reconciler = await living.newWorkload(EFFECT_RECONCILER);
    const prepared = await preparedOn(harness, executor);
    const watched = await Promise.all(
      reconciler.map(({ channel }) => beginStream(effects(channel).watchEffects({}))),
    );
    await put(world, { case: 'bumpRevocationEpoch', value: {} });
    const told = { reason: 'WORKLOAD_NOT_CURRENT', metadata: { rule: 'revocation_epoch' } };
    await expectNoStart(executor, prepared, told);
    for (const session of [...executor, ...reconciler]) {
      expect(await refusedWith(session.look(prepared[0]?.effectId ?? ''))).toMatchObject(told);
    }
    for (const stream of watched) expect(await stream.ended).toMatchObject(told);
    // It is the registrations that are over: the harness goes on over its connections.
    await living.expectServed(harness);
  });
});

test('the log of all this verifies', async () => {
  expect(await findingsOfLog(world)).toEqual(WHOLE_LOG);
});
