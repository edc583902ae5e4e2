import { request as httpRequest, type IncomingMessage, type RequestOptions } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { Doubt, Provider, ProviderAnswer, SendAnswer } from './provider.js';
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

  /**
   * @param base `http:` or `https:`, with or without a path
   * @param clock milliseconds of a clock that only goes forward, the one that each `untilMs` is of
   */
  constructor(
    base: URL,
    private readonly clock: () => number,
  ) {
    this.base = base.href.replace(/\/+$/, '');
  }

  async send(body: Buffer, executionDigest: Uint8Array, untilMs: number): Promise<SendAnswer> {
    const headers = {
      'content-type': 'application/json',
      'content-length': body.length,
      'idempotency-key': hex(executionDigest),
    };
    const url = `${this.base}/executions`;
    const answer = await this.exchange(url, { method: 'POST', headers }, untilMs, body);
    if (Buffer.isBuffer(answer)) return readAnswer(answer, executionDigest);
    return answer.sent ? { is: 'doubt', why: answer.why } : { is: 'not_sent' };
  }

  async read(executionDigest: Uint8Array, untilMs: number): Promise<ProviderAnswer> {
    const url = `${this.base}/executions/${hex(executionDigest)}`;
    const answer = await this.exchange(url, { method: 'GET' }, untilMs);
    return Buffer.isBuffer(answer) ? readAnswer(answer, executionDigest) : { is: 'doubt', why: answer.why };
  }

  /**
   * One request on a connection of its own. The connection is made first: name, connection and handshake may take longer than
   * there is time, and what is queued before would be sent after.
   */
  private exchange(
    url: string,
    options: RequestOptions,
    untilMs: number,
    body?: Buffer,
  ): Promise<Buffer | Unanswered> {
    const secure = url.startsWith('https:');
    const start = secure ? httpsRequest : httpRequest;
    return new Promise((resolve) => {
      let sent = false;
      const end = (outcome: Buffer | Doubt): void => {
        clearTimeout(timer);
        resolve(Buffer.isBuffer(outcome) ? outcome : { why: outcome, sent });
      };
      const request = start(url, { ...options, agent: false }, (response) => {
        readAll(response).then(
          (answer) => end(answer ?? 'unreadable'),
          () => end('disconnected'),
        );
      });
      const giveUp = (): void => {
        end('timeout');
        request.destroy();
      };
      const timer = setTimeout(giveUp, Math.max(0, untilMs - this.clock()));
      request.on('error', () => end('disconnected'));
      const sendInTime = (): void => {
        if (this.clock() >= untilMs) return giveUp();
        sent = true;
        // Nothing of a request is written before this: it has its head in the first piece.
        request.end(body);
      };
      request.on('socket', (socket) => {
        if (request.reusedSocket) sendInTime();
        else socket.once(secure ? 'secureConnect' : 'connect', sendInTime);
      });
    });
  }
}

/** A request without an answer. */
interface Unanswered {
  readonly why: Doubt;
  /** Whether any octet of it was written. */
  readonly sent: boolean;
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
