/** One caller of the development set (identity.md, Development SPIFFE IDs). */
export interface DevelopmentCaller {
  readonly trustDomain: string;
  /** The SPIFFE ID's path without its leading slash; also where its files are. */
  readonly path: string;
  /** Whether it also signs: an operator commands, an owner approvals, a workload its transitions. */
  readonly signs: boolean;
}

/** The trust domain of the service itself. */
export const SERVICE_TRUST_DOMAIN = 'surety.test';

/** The service. Clients of Python and Go check a DNS name, so its certificate has some. */
export const SERVICE: DevelopmentCaller = { trustDomain: SERVICE_TRUST_DOMAIN, path: 'surety', signs: false };
export const SERVICE_DNS_NAMES = ['localhost', SERVICE_TRUST_DOMAIN] as const;
export const SERVICE_IP_ADDRESSES = ['127.0.0.1'] as const;

function caller(trustDomain: string, path: string): DevelopmentCaller {
  return { trustDomain, path, signs: !path.startsWith('harness/') && !path.startsWith('auditor/') };
}

/** Everybody who calls. `globex.test` is there so that nothing works only because there is one domain. */
export const CALLERS: readonly DevelopmentCaller[] = [
  ...['operator/root', 'auditor/ann'].map((path) => caller(SERVICE_TRUST_DOMAIN, path)),
  ...[
    'harness/planner',
    'executor/payments-a',
    'executor/payments-b',
    'reconciler/bank',
    'worker/mailer',
    'worker/courier',
    'owner/olga',
  ].map((path) => caller('acme.test', path)),
  ...['harness/planner', 'executor/payments-a', 'reconciler/bank', 'worker/mailer', 'owner/olga'].map(
    (path) => caller('globex.test', path),
  ),
];

/** Trust domains of the set; each gets an authority of its own. */
export const TRUST_DOMAINS: readonly string[] = [
  ...new Set([SERVICE, ...CALLERS].map(({ trustDomain }) => trustDomain)),
];

/** A caller's SPIFFE ID. */
export function spiffeIdOf({ trustDomain, path }: DevelopmentCaller): string {
  return `spiffe://${trustDomain}/${path}`;
}
