import { readFile } from 'node:fs/promises';
import { SERVICE_TRUST_DOMAIN } from '../../certs/callers.js';
import type { CertificateLayout } from '../../certs/layout.js';
import { OperatorRole } from '../gen/surety/authority/v1/records_pb.js';
import { RecordStatus } from '../gen/surety/identity/v1/workload_pb.js';
import { importSigningKey } from '../identity/sign.js';
import { AdminSession } from './client/admin-session.js';
import { readRecord } from './client/record-kinds.js';
import { Channel } from './client/service-client.js';

/** The development operator (identity.md, Development SPIFFE IDs). */
export const DEVELOPMENT_OPERATOR = `spiffe://${SERVICE_TRUST_DOMAIN}/operator/root`;
/** The development auditor. */
export const DEVELOPMENT_AUDITOR = `spiffe://${SERVICE_TRUST_DOMAIN}/auditor/ann`;

/**
 * Makes sure that the development auditor is registered in the service's own domain, by a signed command of the
 * development operator: its certificate is there, and is to be of use. One that is there stays as it is, also where it
 * was suspended.
 *
 * @param target where the service listens, `host:port`
 * @throws SuretyError where the service refuses it or does not answer
 */
export async function ensureDevelopmentAuditor(target: string, layout: CertificateLayout): Promise<void> {
  const files = layout.callers[DEVELOPMENT_OPERATOR];
  const signing = layout.signingKeys[DEVELOPMENT_OPERATOR];
  if (files === undefined || signing === undefined) throw new TypeError('the operator has no certificate');
  const [certificate, key, roots, signingKey] = await Promise.all([
    readFile(files.cert),
    readFile(files.key),
    readFile(layout.serviceBundle),
    readFile(signing.pem, 'utf8'),
  ]);
  const channel = new Channel(target, { certificate, key, roots });
  try {
    const there = await readRecord(channel, SERVICE_TRUST_DOMAIN, {
      kind: 'operator',
      id: DEVELOPMENT_AUDITOR,
    });
    if (there !== undefined) return;
    const operator = {
      spiffeId: DEVELOPMENT_AUDITOR,
      roles: [OperatorRole.AUDITOR],
      status: RecordStatus.ACTIVE,
    };
    await new AdminSession(channel, importSigningKey(signingKey)).make(
      SERVICE_TRUST_DOMAIN,
      { case: 'putOperator', value: { operator } },
      'the development auditor',
    );
  } finally {
    channel.close();
  }
}
