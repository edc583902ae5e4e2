import { create } from '@bufbuild/protobuf';
import { DomainSchema, type Sink, SinkSchema } from '../../gen/surety/authority/v1/records_pb.js';
import { notVisible } from '../../ledger/audit/current-reader.js';
import type { DomainLimits } from '../../ledger/admission/records.js';
import type { DomainRow, SinkRow } from '../../ledger/authority/records.js';
import { Refused } from '../../ledger/run-decision.js';
import { PageBudget } from '../fill-page.js';
import type { CallContext, HandlerTools } from '../handler.js';
import { type Page, type RecordList, readPage } from '../paged-list.js';
import { requireReader } from '../reader-access.js';
import { wireDomain, wireSink } from './wire-records.js';

/** A domain as the statements read it: its limits lie beside its other columns. */
type NamedDomain = Omit<DomainRow, 'limits'> &
  DomainLimits & {
    readonly domainId: string;
    /** The service's limit where it is the service's own domain, else 0. */
    readonly serviceRequestsPerMinute: number;
  };
type NamedSink = SinkRow & { readonly domainId: string };

/** A domain has a handful of sinks; no answer grows without limit, and one domain must fit behind a full page. */
const MAX_SINKS_SHOWN = 1000;
const MAX_SINK_BYTES = 1024 * 1024;

/** Domains are read few at a time: each brings its sinks. */
const DOMAINS_PER_READ = 10;

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
): Promise<Page<typeof DomainSchema>> {
  const { domainId } = context;
  const draft = await requireReader(tools, context, domainId, ['operator']);
  const everywhere = draft.platformOperator(context.caller.spiffeId)?.scopeDomainId === null;
  if (domainId !== draft.facts.serviceDomainId || !everywhere) throw new Refused(notVisible());
  return readPage(tools.reader, domainsOf(tools), domainId, request);
}

function domainsOf(tools: HandlerTools): RecordList<NamedDomain, typeof DomainSchema> {
  return {
    name: 'domains_page',
    key: (row) => row.domainId,
    schema: DomainSchema,
    wire: (rows) => withSinks(tools, rows),
    chunk: DOMAINS_PER_READ,
  };
}

async function withSinks(tools: HandlerTools, domains: readonly NamedDomain[]) {
  const ids = domains.map((domain) => domain.domainId);
  const sinks = await tools.reader.query<NamedSink>('sinks_of_domains', [ids, MAX_SINKS_SHOWN]);
  return domains.map((domain) =>
    wireDomain(
      domain.domainId,
      { ...domain, limits: limitsOf(domain) },
      shownSinks(sinks.filter((sink) => sink.domainId === domain.domainId)),
      domain.serviceRequestsPerMinute,
    ),
  );
}

function shownSinks(rows: readonly SinkRow[]): Sink[] {
  const budget = new PageBudget(MAX_SINK_BYTES);
  const shown: Sink[] = [];
  for (const row of rows) {
    const sink = create(SinkSchema, wireSink(row));
    if (!budget.takesMessage(SinkSchema, sink)) break;
    shown.push(sink);
  }
  return shown;
}

function limitsOf(domain: NamedDomain): DomainLimits {
  const { requestsPerMinute, actorRequestsPerMinute, pendingCeiling, fairnessBurst, maxHops } = domain;
  return { requestsPerMinute, actorRequestsPerMinute, pendingCeiling, fairnessBurst, maxHops };
}
