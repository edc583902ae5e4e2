import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

/** What the provider makes of a request. */
export type ProviderConduct =
  /** Does it and says so. */
  | 'honest'
  /** Does it, and closes the connection without an answer. */
  | 'loses_answer'
  /** Does it, and answers too late. */
  | 'late'
  /** Does it, and answers with another request's digest. */
  | 'wrong_digest'
  /** Says that it did it, and did not; a reading tells. */
  | 'false_done'
  /** Does not do it, for good. */
  | 'refuses'
  /** Does not do it, and would take another try, which must never come. */
  | 'retryable'
  /** Loses the request, and closes the connection. */
  | 'loses_request';

/** A way to deal with one request. */
export interface ProviderBehaviour {
  readonly conduct: ProviderConduct;
  /** So many readings say `pending` before the outcome shows. */
  readonly pendingReads?: number;
  /** How late a late answer comes, in milliseconds; {@link LATE_MS} unless given. */
  readonly lateMs?: number;
}

/** What the provider knows of one execution digest. */
export interface ProviderRecord {
  /** How many requests came: never more than one. */
  requests: number;
  /** How often it was done. */
  done: number;
  /** How often it was asked about. */
  reads: number;
  behaviour: ProviderBehaviour;
}

/** Later than a short patience lasts, in milliseconds. */
const LATE_MS = 400;

/** An outside system over HTTP, on this machine, that counts what it is asked to do, and can be as unreliable as real ones. */
export class FakeProvider {
  /** By execution digest in hexadecimal. */
  readonly records = new Map<string, ProviderRecord>();
  /** Requests whose key was not the digest of their body. */
  mismatches = 0;
  private readonly server: Server;

  /** @param behave says what to make of a request, by its body */
  private constructor(private readonly behave: (body: string) => ProviderBehaviour) {
    this.server = createServer((request, response) => {
      this.serve(request, response).catch(() => response.destroy());
    });
  }

  /** Starts it on a free port. */
  static async start(
    behave: (body: string) => ProviderBehaviour = () => ({ conduct: 'honest' }),
  ): Promise<FakeProvider> {
    const provider = new FakeProvider(behave);
    await new Promise<void>((resolve) => provider.server.listen(0, '127.0.0.1', resolve));
    return provider;
  }

  get url(): string {
    const address = this.server.address();
    if (address === null || typeof address === 'string') throw new Error('the provider does not listen');
    return `http://127.0.0.1:${address.port}/provider`;
  }

  /** How many requests came at most for one digest. */
  get mostRequests(): number {
    return Math.max(0, ...[...this.records.values()].map(({ requests }) => requests));
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  private async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [, , kind, digest = ''] = (request.url ?? '').split('/');
    if (kind !== 'executions') return answer(response, 404, { error: 'no such place' });
    if (request.method === 'GET') return this.read(digest, response);
    const chunks: Buffer[] = [];
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
    await this.receive(Buffer.concat(chunks), String(request.headers['idempotency-key']), response);
  }

  private async receive(body: Buffer, key: string, response: ServerResponse): Promise<void> {
    if (createHash('sha256').update(body).digest('hex') !== key) this.mismatches += 1;
    const behaviour = this.behave(body.toString('utf8'));
    const record = this.records.get(key) ?? { requests: 0, done: 0, reads: 0, behaviour };
    this.records.set(key, record);
    record.requests += 1;
    const { conduct } = behaviour;
    if (conduct === 'loses_request') return void response.destroy();
    if (conduct === 'refuses' || conduct === 'retryable') {
      return answer(response, conduct === 'refuses' ? 422 : 503, outcomeOf(key, record));
    }
    if (conduct !== 'false_done') record.done += 1;
    if (conduct === 'loses_answer') return void response.destroy();
    if (conduct === 'late') await sleep(behaviour.lateMs ?? LATE_MS);
    const digest = conduct === 'wrong_digest' ? '0'.repeat(key.length) : key;
    answer(response, 200, { execution_digest: digest, status: 'done', id: idOf(key) });
  }

  private read(key: string, response: ServerResponse): void {
    const record = this.records.get(key);
    if (!record) return answer(response, 404, { execution_digest: key, status: 'unknown' });
    record.reads += 1;
    answer(response, 200, outcomeOf(key, record));
  }
}

/** What a reading shows. */
function outcomeOf(key: string, { behaviour, reads, done }: ProviderRecord): object {
  const { conduct, pendingReads = 0 } = behaviour;
  const answered = { execution_digest: key, id: idOf(key) };
  if (conduct === 'refuses' || conduct === 'retryable') {
    return { ...answered, status: 'refused', retryable: conduct === 'retryable' };
  }
  if (reads > 0 && reads <= pendingReads) return { execution_digest: key, status: 'pending' };
  return done > 0 ? { ...answered, status: 'done' } : { execution_digest: key, status: 'unknown' };
}

function idOf(key: string): string {
  return `message-${key.slice(0, 16)}`;
}

function answer(response: ServerResponse, status: number, document: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(document));
}
