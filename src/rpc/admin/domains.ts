import { notVisible } from '../../ledger/audit/current-reader.js';
import type { DomainRow, SinkRow } from '../../ledger/authority/records.js';
import { Refused } from '../../ledger/run-decision.js';
import type { CallContext, HandlerTools } from '../handler.js';
import { type ListStatement, readPage } from '../paged-list.js';
import { requireReader } from '../reader-access.js';
import { wireDomain } from './wire-records.js';

type NamedDomain = DomainRow & { readonly domainId: string };
type NamedSink = SinkRow & { readonly domainId: string };

/** A domain has a handful of sinks; no answer grows without limit. */
const MAX_SINKS_SHOWN = 1000;

const DOMAINS: ListStatement<NamedDomain> = { name: 'domains_page', key: (row) => row.domainId };

/** The domain that the call acts in, with its sinks. @throws {Refused} NOT_VISIBLE */
export async function getDomain(tools: HandlerTools, context: CallContext) {
  await requireReader(tools, context, context.domainId, ['operator']);
  const rows = await tools.reader.query<NamedDomain>('domain_by_key', [context.domainId]);
  const [domain] = await withSinks(tools, rows);
  if (!domain) throw new Refused(notVisible());
  return domain;
}

/**
 * A page of all domains with their sinks, for an operator of all domains: the call acts in the service's own.
 *
 * @throws {Refused} NOT_VISIBLE, FIELD_INVALID
 */
export async function listDomains(
  tools: HandlerTools,
  context: CallContext,
  request: { readonly pageSize: number; readonly pageToken: string },
) {
  const { domainId } = context;
  const draft = await requireReader(tools, context, domainId, ['operator']);
  const everywhere = draft.platformOperator(context.caller.spiffeId)?.scopeDomainId === null;
  if (domainId !== draft.facts.serviceDomainId || !everywhere) throw new Refused(notVisible());
  const { rows, nextPageToken } = await readPage(tools.reader, DOMAINS, domainId, request);
  return { domains: await withSinks(tools, rows), nextPageToken };
}

async function withSinks(tools: HandlerTools, domains: readonly NamedDomain[]) {
  const ids = domains.map((domain) => domain.domainId);
  const sinks = await tools.reader.query<NamedSink>('sinks_of_domains', [ids, MAX_SINKS_SHOWN]);
  return domains.map((domain) =>
    wireDomain(
      domain.domainId,
      domain,
      sinks.filter((sink) => sink.domainId === domain.domainId),
    ),
  );
}
