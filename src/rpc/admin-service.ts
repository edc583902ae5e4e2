import { AdminService } from '../gen/surety/authority/v1/admin_service_pb.js';
import { type ExecutedCommand, executeCommand } from '../ledger/authority/execute-command.js';
import { getAdmissionStatus } from './admin/admission-status.js';
import { getDomain, listDomains } from './admin/domains.js';
import { readCommand } from './admin/read-command.js';
import {
  ACTION_CONDITIONS,
  CREDENTIALS,
  ENTITLEMENTS,
  GATE_SHAPES,
  GRANTS,
  GUESTS,
  getRecord,
  HARNESSES,
  listRecords,
  OPERATORS,
  OWNERS,
  PRINCIPALS,
  SINKS,
  TOOLS,
} from './admin/records.js';
import { bind, type HandlerTools, type ServiceBinding } from './handler.js';
import { repeatedCommand } from './admin/repeated-command.js';
import { replyOf } from './reply-of.js';

/** Administration: one signed command for every mutation, and reads of each record (authority.md, Signed commands). */
export function adminService(tools: HandlerTools): ServiceBinding {
  return bind(AdminService, {
    executeCommand: async (request, context) => {
      const { commandJws } = request;
      try {
        const command = await readCommand(tools.reader, context, commandJws);
        return wireResult(await replyOf(tools, context, executeCommand, command));
      } catch (error) {
        const row = await repeatedCommand(tools.reader, context, commandJws, error);
        if (row) return wireResult({ row, duplicate: true });
        throw error;
      }
    },

    getDomain: async (_request, context) => ({ domain: await getDomain(tools, context) }),
    listDomains: async (request, context) => {
      const { records, nextPageToken } = await listDomains(tools, context, request);
      return { domains: records, nextPageToken };
    },

    getPrincipal: async (request, context) => ({
      principal: await getRecord(tools, context, PRINCIPALS, request.principalId),
    }),
    listPrincipals: async (request, context) => {
      const { records, nextPageToken } = await listRecords(tools, context, PRINCIPALS, request);
      return { principals: records, nextPageToken };
    },

    getGuest: async (request, context) => ({
      guest: await getRecord(tools, context, GUESTS, request.guestId),
    }),
    listGuests: async (request, context) => {
      const { records, nextPageToken } = await listRecords(tools, context, GUESTS, request);
      return { guests: records, nextPageToken };
    },

    getHarness: async (request, context) => ({
      harness: await getRecord(tools, context, HARNESSES, request.harnessId),
    }),
    listHarnesses: async (request, context) => {
      const { records, nextPageToken } = await listRecords(tools, context, HARNESSES, request);
      return { harnesses: records, nextPageToken };
    },

    getCredential: async (request, context) => ({
      credential: await getRecord(tools, context, CREDENTIALS, request.credentialId),
    }),
    listCredentials: async (request, context) => {
      const { records, nextPageToken } = await listRecords(tools, context, CREDENTIALS, request);
      return { credentials: records, nextPageToken };
    },

    getEntitlement: async (request, context) => ({
      entitlement: await getRecord(tools, context, ENTITLEMENTS, request.entitlementId),
    }),
    listEntitlements: async (request, context) => {
      const { records, nextPageToken } = await listRecords(tools, context, ENTITLEMENTS, request);
      return { entitlements: records, nextPageToken };
    },

    getGrant: async (request, context) => ({
      grant: await getRecord(tools, context, GRANTS, request.grantId),
    }),
    listGrants: async (request, context) => {
      const { records, nextPageToken } = await listRecords(tools, context, GRANTS, request);
      return { grants: records, nextPageToken };
    },

    getOperator: async (request, context) => ({
      operator: await getRecord(tools, context, OPERATORS, request.spiffeId),
    }),
    listOperators: async (request, context) => {
      const { records, nextPageToken } = await listRecords(tools, context, OPERATORS, request);
      return { operators: records, nextPageToken };
    },

    getOwner: async (request, context) => ({
      owner: await getRecord(tools, context, OWNERS, request.spiffeId),
    }),
    listOwners: async (request, context) => {
      const { records, nextPageToken } = await listRecords(tools, context, OWNERS, request);
      return { owners: records, nextPageToken };
    },

    getGateShape: async (request, context) => ({
      gateShape: await getRecord(tools, context, GATE_SHAPES, request.gateShapeId),
    }),
    listGateShapes: async (request, context) => {
      const { records, nextPageToken } = await listRecords(tools, context, GATE_SHAPES, request);
      return { gateShapes: records, nextPageToken };
    },

    getActionCondition: async (request, context) => ({
      actionCondition: await getRecord(tools, context, ACTION_CONDITIONS, request.actionType),
    }),
    listActionConditions: async (request, context) => {
      const { records, nextPageToken } = await listRecords(tools, context, ACTION_CONDITIONS, request);
      return { actionConditions: records, nextPageToken };
    },

    getTool: async (request, context) => ({
      tool: await getRecord(tools, context, TOOLS, request.toolName),
    }),
    listTools: async (request, context) => {
      const { records, nextPageToken } = await listRecords(tools, context, TOOLS, request);
      return { tools: records, nextPageToken };
    },

    getSink: async (request, context) => ({
      sink: await getRecord(tools, context, SINKS, request.sink),
    }),
    listSinks: async (request, context) => {
      const { records, nextPageToken } = await listRecords(tools, context, SINKS, request);
      return { sinks: records, nextPageToken };
    },

    getAdmissionStatus: (request, context) => getAdmissionStatus(tools, context, request),
  });
}

function wireResult({ row, duplicate }: ExecutedCommand) {
  return {
    result: {
      commandId: row.adminCommandId,
      auditPosition: row.auditSeq,
      entityRevision: row.entityRevision,
      policyRevision: row.policyRevision,
      revocationEpoch: row.revocationEpoch,
    },
    duplicate,
  };
}
