import { DataClass } from '../../src/gen/surety/provenance/v1/record_pb.js';

/** Who and what the benchmark's domains hold. */
export const SERVICE_DOMAIN = 'surety.test';
export const SERVICE = `spiffe://${SERVICE_DOMAIN}/surety`;
export const OPERATOR = `spiffe://${SERVICE_DOMAIN}/operator/root`;
/** Where the load goes. */
export const DOMAIN = 'acme.test';
/** The same once more, for the lane without a chain (B4): its log would have no entries for what it holds. */
export const UNCHAINED_DOMAIN = 'unchained.test';

export const PRINCIPAL = 'paula';
export const SINK = 'payments';
export const AUTHORITY_SYSTEM = 'bank-ledger';
export const ACTION = 'refund.create';
export const RESOURCE = 'order-1184';
export const INPUT_SOURCE = 'crm';
export const DATA_CLASS = DataClass.C2_RESTRICTED;

/** Several actors, each with a connection of its own, as a domain has them. */
export const HARNESSES: readonly string[] = ['planner-1', 'planner-2', 'planner-3', 'planner-4'];
/** Effects are spread over so many events of each harness. */
export const EVENTS_PER_HARNESS = 16;

export function harnessSpiffeId(domainId: string, harnessId: string): string {
  return `spiffe://${domainId}/harness/${harnessId}`;
}

export function executorSpiffeId(domainId: string): string {
  return `spiffe://${domainId}/executor/payments`;
}
