import { type ChildProcess, fork } from 'node:child_process';
import { SuretyError } from '../client/surety-error.js';
import type { RoleAnswer, RoleName } from './role-protocol.js';

/** Where a role's process finds its certificate, its key and the CA of the service. */
export interface RoleFiles {
  readonly certificate: string;
  readonly key: string;
  readonly roots: string;
  /** Of a role that signs with a registered key. */
  readonly signingKey?: string;
}

/** How long a role may take to answer, in milliseconds. */
const ANSWER_TIMEOUT_MS = 30_000;

/** One process of the demo, as its parent sees it. */
export class RoleHandle {
  private next = 1;
  private readonly waiting = new Map<number, (answer: RoleAnswer) => void>();
  private readonly greeting: Promise<RoleAnswer>;

  private constructor(
    readonly name: string,
    readonly spiffeId: string,
    private readonly child: ChildProcess,
  ) {
    child.on('message', (answer: RoleAnswer) => {
      this.waiting.get(answer.id)?.(answer);
      this.waiting.delete(answer.id);
    });
    child.on('exit', () => {
      for (const [id, resolve] of this.waiting) {
        resolve({ id, ok: false, code: 'UNKNOWN', reason: '', message: `${name} ended`, metadata: {} });
      }
      this.waiting.clear();
    });
    this.greeting = this.answer(0);
  }

  /** Starts the process. */
  static start(
    name: string,
    spiffeId: string,
    input: { readonly role: RoleName; readonly target: string; readonly files: RoleFiles },
  ): RoleHandle {
    const main = new URL('./role-main.js', import.meta.url);
    const { certificate, key, roots, signingKey = '' } = input.files;
    const child = fork(main, [input.role, input.target, certificate, key, roots, signingKey], {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    return new RoleHandle(name, spiffeId, child);
  }

  /** Waits until the process listens. @throws Error where it ended before, or says nothing */
  async listening(): Promise<void> {
    const greeting = await this.greeting;
    if (!greeting.ok) throw new Error(greeting.message);
  }

  get pid(): number {
    return this.child.pid ?? 0;
  }

  /** Has the role do something. @throws SuretyError where the service refused it */
  async call(
    action: string,
    parameters: Readonly<Record<string, string>>,
  ): Promise<Readonly<Record<string, string>>> {
    if (!this.child.connected) throw new Error(`${this.name} has ended`);
    const id = this.next;
    this.next += 1;
    const answered = this.answer(id);
    this.child.send({ id, action, parameters });
    const answer = await answered;
    if (answer.ok) return answer.result;
    throw new SuretyError(answer.code, answer.reason, answer.message, answer.metadata, [], undefined);
  }

  /** The same, for what the story takes for granted. */
  async must(
    action: string,
    parameters: Readonly<Record<string, string>>,
  ): Promise<Readonly<Record<string, string>>> {
    try {
      return await this.call(action, parameters);
    } catch (error) {
      throw new Error(`${this.name} could not ${action}: ${String(error)}`, { cause: error });
    }
  }

  /** Ends the process. */
  async stop(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const ended = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.kill();
    await ended;
  }

  private answer(id: number): Promise<RoleAnswer> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.waiting.delete(id);
        resolve({
          id,
          ok: false,
          code: 'UNKNOWN',
          reason: '',
          message: `${this.name} did not answer`,
          metadata: {},
        });
      }, ANSWER_TIMEOUT_MS);
      this.waiting.set(id, (answer) => {
        clearTimeout(timer);
        resolve(answer);
      });
    });
  }
}
