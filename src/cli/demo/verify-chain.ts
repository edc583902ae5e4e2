import { AuditService } from '../../gen/surety/audit/v1/audit_service_pb.js';
import type { Channel } from '../client/service-client.js';

/** Has the service verify the log of a domain, page by page, each from where the page before ended. */
export async function verifyChain(
  auditor: Channel,
  domainId: string,
): Promise<{ entries: number; verified: boolean }> {
  const audit = auditor.service(AuditService);
  let entries = 0;
  let after = { afterSeq: 0n, afterChainHash: new Uint8Array() };
  for (;;) {
    const page = await audit.verifyChain({ domainId, ...after });
    entries += Number(page.entries);
    if (!page.verified) return { entries, verified: false };
    if (page.complete) return { entries, verified: true };
    after = { afterSeq: page.lastSeq, afterChainHash: new Uint8Array(page.lastChainHash) };
  }
}
