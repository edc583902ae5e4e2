import type { ActionReceiptRow, ActionRow } from '../../src/ledger/action/records.js';
import type { CommandBase, Decision, Outcome } from '../../src/ledger/decision.js';
import { ActionWorld } from '../ledger/action/action-world.js';
import { type EffectWorld, nowMicros, type Replica } from './effect-world.js';

/**
 * Governed actions on a real store: the commands are built as in memory, and run by the lanes. What they answer is put into the
 * memory, where the next command finds it.
 */
export class LaneActions {
  readonly memory = new ActionWorld();

  private constructor(private readonly replica: Replica) {
    this.memory.store.now = nowMicros();
  }

  /** Enters the owner, the workers and the tool into the domain; its harness is there. */
  static async open(world: EffectWorld, replica: Replica): Promise<LaneActions> {
    const actions = new LaneActions(replica);
    const { store } = actions.memory;
    await world.seed('owners', store.all('owners'));
    await world.seed('tools', store.all('tools'));
    await world.seed('registrations', store.all('registrations'));
    const callers = store.all('callers').filter(({ kind }) => kind !== 'harness');
    await world.seed('callers', callers);
    return actions;
  }

  async run<Command extends CommandBase, Reply>(
    decision: Decision<Command, Reply>,
    command: Command,
    replica: Replica = this.replica,
  ): Promise<Outcome<Reply>> {
    const outcome = await replica.lanes.submit(decision, command);
    if (outcome.ok) this.remember(outcome.reply);
    this.memory.store.now = nowMicros();
    return outcome;
  }

  async done<Command extends CommandBase, Reply>(
    decision: Decision<Command, Reply>,
    command: Command,
    replica: Replica = this.replica,
  ): Promise<Reply> {
    const outcome = await this.run(decision, command, replica);
    if (!outcome.ok) throw new Error(`${decision.kind}: ${JSON.stringify(outcome.refusal)}`);
    return outcome.reply;
  }

  /** What a command is refused for, with its metadata, or `done`. */
  async refused<Command extends CommandBase, Reply>(
    decision: Decision<Command, Reply>,
    command: Command,
  ): Promise<string> {
    const outcome = await this.run(decision, command);
    if (outcome.ok) return 'done';
    return [outcome.refusal.reason, ...Object.values(outcome.refusal.metadata ?? {})].join(' ');
  }

  private remember(reply: unknown): void {
    const { store } = this.memory;
    const found = reply as {
      readonly action?: ActionRow;
      readonly receipt?: ActionReceiptRow;
      readonly leased?: { readonly action: ActionRow };
    };
    const action = found.action ?? found.leased?.action;
    if (action) store.put('actions', action);
    if (found.receipt) store.put('action_receipts', found.receipt);
  }
}
