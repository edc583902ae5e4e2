import { create, fromBinary, fromJsonString, toBinary } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { type Effect, EffectState } from '../../gen/surety/effect/v1/effect_pb.js';
import { EffectService, type TransitionResult } from '../../gen/surety/effect/v1/effect_service_pb.js';
import { ExecutionEvidenceSchema, UncertaintyReason } from '../../gen/surety/effect/v1/evidence_pb.js';
import { TransitionStatementSchema } from '../../gen/surety/effect/v1/proof_pb.js';
import { type RegistrationSpec, RegistrationSpecSchema } from '../../gen/surety/identity/v1/workload_pb.js';
import { createSigningKey } from '../../identity/sign.js';
import { possession } from '../client/register-workload.js';
import type { Channel } from '../client/service-client.js';
import { digest, type TransitionRequest, WorkloadSession } from '../client/workload-session.js';
import type { RoleAction } from './role-protocol.js';

/** An executor or a reconciler: its proof key is made in this process and never leaves it. */
export function workloadActions(channel: Channel): Readonly<Record<string, RoleAction>> {
  const key = createSigningKey();
  const effects = channel.service(EffectService);
  const spent = new Map<string, string>();
  let session: WorkloadSession | undefined;
  const me = (): WorkloadSession => {
    if (!session) throw new Error('not registered');
    return session;
  };

  return {
    key: async () => ({ jwk: key.publicKey.jwk, processId: String(process.pid) }),
    register: async ({ spec = '', audience = '', incarnation = '1' }) => {
      const registration: RegistrationSpec = fromJsonString(RegistrationSpecSchema, spec);
      const service = { audience, incarnation: BigInt(incarnation) };
      session = new WorkloadSession(channel, registration, key, service);
      return { possessionJws: await possession(registration, service, key) };
    },
    start: async ({ effectId = '', attemptId = '' }) => {
      const effect = await me().look(effectId);
      const request = await me().start(effect, attemptId);
      const { result } = await effects.startExecution(request);
      spent.set(effectId, nonceOf(request));
      return summary(result);
    },
    startWithSpentNonce: async ({ effectId = '', attemptId = '', spentOn = '' }) => {
      const effect = await me().look(effectId);
      const nonce = spent.get(spentOn) ?? '';
      const request = await startWith(me(), effect, attemptId, nonce);
      const { result } = await effects.startExecution(request);
      return summary(result);
    },
    acknowledge: async ({ effectId = '', attemptId = '', receiptId = '', receipt = '' }) => {
      const effect = await me().look(effectId);
      const request = await me().acknowledge(effect, EffectState.SUCCEEDED, {
        attemptId,
        receiptId,
        receipt,
      });
      const { result } = await effects.acknowledgeTerminal(request);
      return summary(result);
    },
    markUnknown: async ({ effectId = '', attemptId = '' }) => {
      const effect = await me().look(effectId);
      const request = await me().markUnknown(effect, {
        attemptId,
        reason: UncertaintyReason.COMMIT_RESPONSE_LOST,
        observationDigest: digest('connection reset after the request was sent'),
        observedTime: timestampFromMs(Date.now()),
      });
      const { result } = await effects.markUnknown(request);
      return summary(result);
    },
    reconcile: async ({
      effectId = '',
      attemptId = '',
      authoritySystemId = '',
      queryId = '',
      response = '',
    }) => {
      const effect = await me().look(effectId);
      const request = await me().reconcile(effect, EffectState.SUCCEEDED, {
        attemptId,
        authoritySystemId,
        queryId,
        response,
      });
      const { result } = await effects.reconcile(request);
      return summary(result);
    },
  };
}

/** The nonce inside of a proof of one's own. */
function nonceOf(request: TransitionRequest): string {
  const [, payload = ''] = request.proof.encoding.value.split('.');
  return fromBinary(TransitionStatementSchema, Buffer.from(payload, 'base64url')).nonce;
}

/** A start whose statement carries a nonce that another statement has spent. */
async function startWith(
  session: WorkloadSession,
  effect: Effect,
  attemptId: string,
  nonce: string,
): Promise<TransitionRequest> {
  const evidence = toBinary(
    ExecutionEvidenceSchema,
    create(ExecutionEvidenceSchema, {
      attemptId,
      executorInstanceId: session.instanceId,
      requestDigest: effect.requestDigest,
      startTime: timestampFromMs(Date.now()),
    }),
  );
  const value = await session.sign(effect, EffectState.PREPARED, EffectState.EXECUTING, evidence, { nonce });
  return { effectId: effect.effectId, evidence, proof: { encoding: { case: 'jws', value } } };
}

function summary(result: TransitionResult | undefined): Record<string, string> {
  return {
    effectId: result?.effectId ?? '',
    state: EffectState[result?.state ?? EffectState.UNSPECIFIED],
  };
}
