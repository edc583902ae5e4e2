import { isJsonObject, parseIJson } from '../../ledger/action/i-json.js';
import { digest } from '../client/workload-session.js';
import type { Doubt, ProviderAnswer } from './provider.js';

/** A receipt's external id has at most so many octets; the provider's id becomes one. */
const MAX_ID_OCTETS = 256;

/**
 * Reads an answer of the provider: a JSON object with `execution_digest`, which must be the one that was asked about,
 * `status` (`done`, `refused`, `pending` or `unknown`), `id` for the first two, and optionally `retryable`. The HTTP status is
 * not looked at: a proxy on the way has one too.
 *
 * @param executionDigest that the request was about
 */
export function readAnswer(body: Buffer, executionDigest: Uint8Array): ProviderAnswer {
  const read = parseIJson(body);
  if (!('value' in read) || !isJsonObject(read.value)) return doubt('unreadable');
  const answer = read.value;
  if (answer.get('execution_digest') !== Buffer.from(executionDigest).toString('hex')) {
    return doubt('unreadable');
  }
  const [status, id, retryable = false] = ['status', 'id', 'retryable'].map((name) => answer.get(name));
  if (status === 'pending' || status === 'unknown') return doubt(status);
  if (typeof id !== 'string' || !isId(id) || typeof retryable !== 'boolean') return doubt('unreadable');
  const answerDigest = digest(body);
  if (status === 'done') return { is: 'done', id, answerDigest };
  if (status === 'refused') return { is: 'refused', id, answerDigest, retryable };
  return doubt('unreadable');
}

function isId(id: string): boolean {
  return id !== '' && Buffer.byteLength(id) <= MAX_ID_OCTETS && !/[\p{Cc}\p{Zl}\p{Zp}]/u.test(id);
}

function doubt(why: Doubt): ProviderAnswer {
  return { is: 'doubt', why };
}
