/** Of the gRPC library and what is below it: their words, and what they mean to somebody who called a command. */
const MEANINGS: readonly (readonly [RegExp, (target: string) => string])[] = [
  [/ECONNREFUSED/, (target) => `nothing answers at ${target}`],
  [/ENOTFOUND|EAI_AGAIN|Name resolution failed/, (target) => `the name in ${target} is not known`],
  [
    /self[- ]signed certificate|unable to (?:verify|get)|UNABLE_TO_|issuer certificate|SELF_SIGNED|certificate signature failure/i,
    (target) => `the service's certificate is not of --roots: ${target} is not trusted`,
  ],
  [/certificate has expired|CERT_HAS_EXPIRED/, (target) => `the certificate of ${target} has expired`],
  [/certificate is not yet valid/, (target) => `the certificate of ${target} does not hold yet`],
  [/Hostname\/IP does not match/, (target) => `the certificate of ${target} is not for that name`],
  [/wrong version number|packet length too long|protocol version|http_request/i, speaksOther],
  [/alert|certificate required/i, (target) => `${target} does not take the certificate of --cert`],
  [
    /ECONNRESET|EPIPE|socket hang up|disconnected before secure/,
    // TLS 1.3: a client counts as connected before the server has looked at its certificate.
    (target) => `${target} ended the connection; it may not trust the certificate of --cert`,
  ],
  [/ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL/, (target) => `${target} cannot be reached`],
];

/** Of the check that health makes of the service's name; it is ours already. */
const OTHER_NAME = /it is spiffe:\/\/\S+, not spiffe:\/\/[^\s.]+(?:\.[^\s.]+)*/;
const REJECTED = /certificate rejected: [A-Z_]+/;

function speaksOther(target: string): string {
  return `what answers at ${target} does not speak TLS 1.3`;
}

/** Codes that the library itself ends a call with where there was no answer of the service. */
const OF_THE_LIBRARY: ReadonlySet<string> = new Set([
  'UNAVAILABLE',
  'DEADLINE_EXCEEDED',
  'INTERNAL',
  'UNKNOWN',
]);

/**
 * A sentence for a call that the service did not answer.
 *
 * @param code the gRPC code's name
 * @param details what the library says; never shown
 * @param target `host:port`
 * @returns undefined where the code is one that only a service gives
 */
export function noAnswerSentence(code: string, details: string, target: string): string | undefined {
  if (!OF_THE_LIBRARY.has(code)) return undefined;
  const ours = OTHER_NAME.exec(details) ?? REJECTED.exec(details);
  if (ours !== null) return `the certificate of ${target} is not the service's: ${ours[0]}`;
  const meaning = MEANINGS.find(([words]) => words.test(details));
  if (meaning !== undefined) return meaning[1](target);
  if (code === 'DEADLINE_EXCEEDED') return `${target} did not answer in time`;
  return code === 'UNAVAILABLE' ? `${target} cannot be reached` : `the call to ${target} broke off`;
}
