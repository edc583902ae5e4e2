import { WorkloadRegistrationSchema } from '../gen/surety/identity/v1/workload_pb.js';
import { type ListWorkloadsRequest, WorkloadService } from '../gen/surety/identity/v1/workload_service_pb.js';
import { parsePublicJwk } from '../identity/jwk.js';
import { microsToTimestamp } from '../identity/timestamp.js';
import { verifyRenewal } from '../identity/verify-signed-message.js';
import { notVisible } from '../ledger/audit/current-reader.js';
import type { RegistrationRow } from '../ledger/identity/records.js';
import { type RenewWorkload, renewWorkload } from '../ledger/identity/renew-workload.js';
import { Refused } from '../ledger/run-decision.js';
import type { CallerKind } from '../ledger/types.js';
import { bind, type CallContext, type HandlerTools, type ServiceBinding } from './handler.js';
import { readSpiffeId } from './identity-fields.js';
import { type RecordList, readPage } from './paged-list.js';
import { readProved } from './read-proved.js';
import { requireReader } from './reader-access.js';
import { wireRegistration } from './registration-codec.js';
import { replyOf } from './reply-of.js';
import { Violations } from './validate.js';
import { STATUSES, WIRE_CALLER_KINDS } from './wire-enums.js';

const MAX_ID_OCTETS = 256;

/** A registration with its proof key, as the statements read it. */
type StoredWorkload = RegistrationRow & { readonly publicJwk: string };

/** The kinds of caller that see what is theirs; the others read all of a domain. */
const OVERSEEN: ReadonlySet<CallerKind> = new Set(['executor', 'reconciler', 'worker']);

/** Registered workloads, and who one is (identity.md, Workload registration and Callers). */
export function workloadService(tools: HandlerTools): ServiceBinding {
  return bind(WorkloadService, {
    renewWorkload: async (request, context) => {
      const command = await readRenewal(tools, context, request);
      const { registration, proofKeyJwk, duplicate } = await replyOf(tools, context, renewWorkload, command);
      return { registration: wireRegistration(context.domainId, registration, proofKeyJwk), duplicate };
    },

    getWorkload: async (request, context) => {
      const violations = new Violations();
      const registrationId = violations.id('registration_id', request.registrationId, 1, MAX_ID_OCTETS);
      violations.throwIfAny();
      const own = OVERSEEN.has(context.kind);
      if (!own) await requireReader(tools, context, context.domainId);
      const parameters = [context.domainId, registrationId];
      const [row] = await tools.reader.query<StoredWorkload>('workload_by_key', parameters);
      if (!row || (own && row.spiffeId !== context.caller.spiffeId)) throw new Refused(notVisible());
      return { registration: wireRegistration(context.domainId, row, row.publicJwk) };
    },

    listWorkloads: async (request, context) => {
      await requireReader(tools, context, context.domainId);
      const { records, nextPageToken } = await listWorkloads(tools, context, request);
      return { registrations: records, nextPageToken };
    },

    whoAmI: async (_request, context) => whoAmI(tools, context),
  });
}

/** Verifies both signatures, the second under the key that the domain knows by its thumbprint; it decides nothing yet. */
async function readRenewal(
  tools: HandlerTools,
  context: CallContext,
  request: { readonly possessionJws: string; readonly authorizationJws: string },
): Promise<RenewWorkload> {
  const violations = new Violations();
  const { proved, possession } = await readProved(violations.at('possession_jws'), request.possessionJws);
  violations.throwIfAny();
  const authorization = await verifyRenewal(request.authorizationJws, possession, async (thumbprint) => {
    const parameters = [context.domainId, thumbprint];
    const [row] = await tools.reader.query<{ publicJwk: string }>('proof_key', parameters);
    return row && parsePublicJwk(row.publicJwk).key;
  });
  return {
    domainId: context.domainId,
    commandId: context.requestId,
    caller: context.caller,
    proved,
    authorizationKeyThumbprint: authorization.keyThumbprint,
  };
}

function listWorkloads(tools: HandlerTools, context: CallContext, request: ListWorkloadsRequest) {
  const violations = new Violations();
  const { spiffeId } = request;
  if (spiffeId !== '') readSpiffeId(violations, 'spiffe_id', spiffeId);
  const status = request.status === 0 ? '' : violations.choice('status', request.status, STATUSES);
  const list: RecordList<StoredWorkload, typeof WorkloadRegistrationSchema> = {
    name: spiffeId === '' ? 'workloads_page' : 'workloads_of_spiffe_id_page',
    key: (row) => row.registrationId,
    schema: WorkloadRegistrationSchema,
    wire: (rows) => rows.map((row) => wireRegistration(context.domainId, row, row.publicJwk)),
  };
  const filter = [spiffeId, status];
  const more = spiffeId === '' ? [status] : [status, spiffeId];
  return readPage(tools.reader, list, context.domainId, request, filter, more, violations);
}

async function whoAmI(tools: HandlerTools, context: CallContext) {
  const set = await tools.reader.gather(context.domainId, {});
  if (!set) throw new Refused(notVisible());
  return {
    spiffeId: context.caller.spiffeId,
    kind: WIRE_CALLER_KINDS[context.kind],
    domainId: context.domainId,
    certificateDigest: Uint8Array.from(context.caller.leafDigest),
    audience: set.facts.audience,
    incarnation: set.facts.incarnation,
    nowTime: microsToTimestamp(set.now),
    policyRevision: set.domain.policyRevision,
    revocationEpoch: set.domain.revocationEpoch,
  };
}
