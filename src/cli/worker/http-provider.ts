import { request as httpRequest, type IncomingMessage, type RequestOptions } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { Doubt, Provider, ProviderAnswer } from './provider.js';
import { readAnswer } from './provider-answer.js';

/** An answer is a few fields; more is not read. */
const MAX_ANSWER_BYTES = 64 * 1024;

/**
 * A provider over HTTP: `POST <base>/executions` with the header `Idempotency-Key`, and `GET <base>/executions/<key>`; the key
 * is the execution digest in lower-case hexadecimal.
 *
 * Each request has a connection of its own, and `node:http` neither follows redirects nor sends anything twice: a client that
 * repeats by itself what a broken connection left open would make two dispatches of one.
 */
export class HttpProvider implements Provider {
  private readonly base: string;

  /** @param base `http:` or `https:`, with or without a path */
  constructor(base: URL) {
    this.base = base.href.replace(/\/+$/, '');
  }

  async send(body: Buffer, executionDigest: Uint8Array, timeoutMs: number): Promise<ProviderAnswer> {
    const headers = {
      'content-type': 'application/json',
      'content-length': body.length,
      'idempotency-key': hex(executionDigest),
    };
    const answer = await exchange(`${this.base}/executions`, { method: 'POST', headers }, timeoutMs, body);
    return typeof answer === 'string' ? { is: 'doubt', why: answer } : readAnswer(answer, executionDigest);
  }

  async read(executionDigest: Uint8Array, timeoutMs: number): Promise<ProviderAnswer> {
    const url = `${this.base}/executions/${hex(executionDigest)}`;
    const answer = await exchange(url, { method: 'GET' }, timeoutMs);
    return typeof answer === 'string' ? { is: 'doubt', why: answer } : readAnswer(answer, executionDigest);
  }
}

/** One request on a connection of its own. @returns the whole answer, or why there is none */
function exchange(
  url: string,
  options: RequestOptions,
  timeoutMs: number,
  body?: Buffer,
): Promise<Buffer | Doubt> {
  const start = url.startsWith('https:') ? httpsRequest : httpRequest;
  const signal = AbortSignal.timeout(Math.max(1, Math.floor(timeoutMs)));
  return new Promise((resolve) => {
    const fail = (): void => resolve(signal.aborted ? 'timeout' : 'disconnected');
    const request = start(url, { ...options, agent: false, signal }, (response) => {
      readAll(response).then((answer) => resolve(answer ?? 'unreadable'), fail);
    });
    request.on('error', fail);
    request.end(body);
  });
}

/** @returns undefined where there is more than an answer has */
async function readAll(response: IncomingMessage): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > MAX_ANSWER_BYTES) {
      response.destroy();
      return undefined;
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function hex(digest: Uint8Array): string {
  return Buffer.from(digest).toString('hex');
}
