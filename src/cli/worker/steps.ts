import { type Action, ActionState, FailureReason } from '../../gen/surety/action/v1/action_pb.js';
import { OutcomeUnknown } from '../client/send-exactly.js';
import { SuretyError } from '../client/surety-error.js';

/** Everything that a worker does, by the name of the method or of the request to the provider. */
export type StepName =
  | 'LeaseNext'
  | 'LeaseObservation'
  | 'GetDispatchView'
  | 'BeginDispatch'
  | 'StartExecution'
  | 'Send'
  | 'AcknowledgeTerminal'
  | 'MarkUnknown'
  | 'BeginObservation'
  | 'Read'
  | 'DeferObservation'
  | 'DeferLeased'
  | 'AcceptAction'
  | 'AddReceipt'
  | 'VerifyAction'
  | 'CompleteAction'
  | 'FailAction';

/** One step as it is logged: ids, states, codes and reasons, nothing of any content. */
export interface WorkerEntry {
  readonly step: StepName;
  readonly outcome: 'ok' | 'refused' | 'no_answer';
  readonly actionId: string;
  /** Of the action, or of the effect, after the step; for requests to the provider what it answered. */
  readonly state: string;
  /** Of a refusal; or why the action failed, or why nothing is known. */
  readonly reason: string;
  /** Of a refusal: the gRPC code's name. */
  readonly code: string;
}

/** Where a step stands: before its call is made, or after its answer came. */
export type Moment = 'before' | 'after';

/** Told each step before and after; a test ends the worker there. */
export type StepHook = (moment: Moment, step: StepName, actionId: string) => void | Promise<void>;

/** What a step says of its answer. */
export type Told = Partial<Pick<WorkerEntry, 'actionId' | 'state' | 'reason'>>;

/** Makes the steps, tells of each, and adds nothing to what they do. */
export class Steps {
  constructor(
    private readonly tell: (entry: WorkerEntry) => void = () => {},
    private readonly hook: StepHook = () => {},
  ) {}

  /** @param told reads what is logged from the answer */
  async take<Answer>(
    step: StepName,
    actionId: string,
    run: () => Promise<Answer>,
    told: (answer: Answer) => Told,
  ): Promise<Answer> {
    await this.hook('before', step, actionId);
    let answer: Answer;
    try {
      answer = await run();
    } catch (error) {
      this.tell(entryOf(step, actionId, error));
      throw error;
    }
    this.tell({ step, outcome: 'ok', actionId, state: '', reason: '', code: '', ...told(answer) });
    await this.hook('after', step, actionId);
    return answer;
  }
}

function entryOf(step: StepName, actionId: string, error: unknown): WorkerEntry {
  const refused = error instanceof SuretyError && error.reason !== '';
  return {
    step,
    outcome: refused ? 'refused' : 'no_answer',
    actionId,
    state: refused ? (error.metadata['state'] ?? '') : '',
    reason: refused ? error.reason : '',
    code:
      error instanceof SuretyError ? error.code : error instanceof OutcomeUnknown ? 'UNKNOWN' : 'INTERNAL',
  };
}

/** An action's state and, where it failed, why. */
export function stateOf(action: Action | undefined): Readonly<Record<string, string>> {
  if (!action) return {};
  const { state, failureReason } = action;
  const reason = failureReason === FailureReason.UNSPECIFIED ? '' : FailureReason[failureReason];
  return { actionId: action.actionId, state: ActionState[state], reason };
}
