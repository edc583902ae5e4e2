import type { Refusal } from './refusal.js';
import type { Reads } from './reads.js';
import type { Draft } from './working-set.js';

/** What every command carries besides its own fields. All ids come in from outside: a retry of the lane reuses them. */
export interface CommandBase {
  /** The domain whose lane runs the command. */
  readonly domainId: string;
  /** Minted once per call by the rpc layer. */
  readonly commandId: string;
}

/** What a decision answers. */
export type Outcome<Reply> =
  | { readonly ok: true; readonly reply: Reply }
  | {
      readonly ok: false;
      readonly refusal: Refusal;
      /** A recorded refusal keeps what the decision wrote (authority.md: a denial is recorded); any other leaves no trace. */
      readonly recorded: boolean;
    };

/** Accepts: everything that was written into the draft is kept. */
export function accept<Reply>(reply: Reply): Outcome<Reply> {
  return { ok: true, reply };
}

/** Refuses: nothing that was written into the draft is kept. */
export function refuse(refusal: Refusal): { ok: false; refusal: Refusal; recorded: false } {
  return { ok: false, refusal, recorded: false };
}

/** Refuses, and keeps what was written into the draft: the record of the refusal. */
export function refuseRecorded(refusal: Refusal): { ok: false; refusal: Refusal; recorded: true } {
  return { ok: false, refusal, recorded: true };
}

/**
 * One kind of command: what it reads and how it is decided. Both are pure: no I/O, no clock, no randomness
 * (architecture.md, Decide).
 */
export interface Decision<Command extends CommandBase, Reply> {
  /** Stable name, for logs and metrics. */
  readonly kind: string;
  /** The rows that the decision will look at. Reading another one throws. */
  readonly reads: (command: Command) => Reads;
  /** The decision itself, against rows that the transaction read. `now` is the store's clock. */
  readonly decide: (draft: Draft, command: Command, now: bigint) => Outcome<Reply>;
  /**
   * Commands with the same key never share a batch: the database sees one edge per effect at a time. Undefined: no
   * such limit.
   */
  readonly serializeBy?: (command: Command) => string | undefined;
  /** Runs in a batch of its own: administration, whose changes touch what other commands have gathered as lists. */
  readonly exclusive?: boolean;
}
