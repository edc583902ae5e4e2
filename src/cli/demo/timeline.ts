import { SuretyError } from '../client/surety-error.js';

/** One step of the story as it is told, and as `--json` prints it. */
export interface Step {
  readonly name: string;
  readonly actor: string;
  readonly rpc: string;
  readonly outcome: 'ok' | 'refused';
  readonly code: string;
  /** Of a refusal; of an action that failed, or a provider that told nothing, why. */
  readonly reason: string;
  /** What the story is about: one of the two. */
  readonly effect_id?: string;
  readonly action_id?: string;
  readonly state: string;
}

/** What a story is about, as a step names it. */
export type Subject = 'effect_id' | 'action_id';

/** What a step must come to. */
export type Expectation =
  | { readonly outcome: 'ok'; readonly state: string }
  | { readonly outcome: 'refused'; readonly code: string; readonly reason: string };

/** Collects the steps, checks each against what it must come to, and tells it as it happens. */
export class Timeline {
  readonly steps: Step[] = [];
  readonly surprises: string[] = [];
  private verified: { entries: number; verified: boolean } = { entries: 0, verified: false };

  /** @param tell prints one line; undefined: nothing is told */
  constructor(
    private readonly tell: ((line: string) => void) | undefined,
    private readonly subject: Subject = 'effect_id',
  ) {}

  /** A line above the steps that follow, for people. */
  scene(title: string): void {
    if (this.steps.length > 0) this.tell?.('');
    this.tell?.(title);
  }

  /** Runs one step. A refusal is an outcome; what it must come to is compared. */
  async step(
    who: Pick<Step, 'name' | 'actor' | 'rpc'> & { readonly effectId?: string; readonly actionId?: string },
    run: () => Promise<Readonly<Record<string, string>>>,
    expected: Expectation,
  ): Promise<Readonly<Record<string, string>>> {
    const { effectId = '', actionId = effectId, ...told } = who;
    let result: Readonly<Record<string, string>> = {};
    let step: Step;
    let why = '';
    try {
      result = await run();
      const { state = '', reason = '' } = result;
      const id = result['effectId'] ?? result['actionId'] ?? '';
      step = { ...told, outcome: 'ok', code: 'OK', reason, [this.subject]: id, state };
    } catch (error) {
      if (!(error instanceof SuretyError)) throw error;
      const { code, reason, metadata, message } = error;
      why = message;
      step = {
        ...told,
        outcome: 'refused',
        code,
        reason,
        [this.subject]: metadata[this.subject] ?? actionId,
        state: metadata['state'] ?? '',
      };
    }
    this.steps.push(step);
    const surprise = differs(step, expected);
    if (surprise) this.surprises.push(`${who.name}: ${surprise}`);
    this.print(step, why, surprise);
    return result;
  }

  /** What the verification of the log came to. */
  chain(result: { entries: number; verified: boolean }): void {
    this.verified = result;
    if (!result.verified) this.surprises.push('the chain does not verify');
    this.tell?.('');
    this.tell?.(
      result.verified
        ? `The log proves it: ${result.entries} entries, every hash and every step in its place.`
        : `The log does not verify (${result.entries} entries read).`,
    );
  }

  get succeeded(): boolean {
    return this.surprises.length === 0;
  }

  toJson(): object {
    return { steps: this.steps, chain: this.verified };
  }

  private print(step: Step, why: string, surprise: string | undefined): void {
    const mark = surprise ? '!' : step.outcome === 'ok' ? '+' : 'x';
    const actor = step.actor.replace(/^spiffe:\/\/[^/]+\//, '');
    const found = step.reason === '' ? step.state : `${step.state}: ${step.reason}`;
    const result = step.outcome === 'ok' ? found : `refused: ${step.reason} (${step.code})`;
    this.tell?.(` ${mark} ${step.name}`);
    this.tell?.(`     ${actor.padEnd(22)} ${step.rpc.padEnd(20)} ${result}`);
    if (why !== '') this.tell?.(`     ${''.padEnd(22)} ${why}`);
    if (surprise) this.tell?.(`     expected otherwise: ${surprise}`);
  }
}

function differs(step: Step, expected: Expectation): string | undefined {
  if (step.outcome !== expected.outcome)
    return `${expected.outcome}, but it was ${step.outcome} ${step.reason}`;
  if (expected.outcome === 'ok') return step.state === expected.state ? undefined : `state ${expected.state}`;
  return step.code === expected.code && step.reason === expected.reason
    ? undefined
    : `${expected.code} ${expected.reason}`;
}
