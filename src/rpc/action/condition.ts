import type { CelResult } from '@bufbuild/cel';
import { type Json, parseIJson } from '../../ledger/action/i-json.js';
import type { ActionRow } from '../../ledger/action/records.js';
import { utf8Length } from '../../ledger/text.js';
import { type CelExpression, expressionFault } from './condition-rules.js';

/** actions.md, Gate validator: a longer condition is a program. */
export const MAX_CONDITION_OCTETS = 2048;
/** Conditions that are kept planned: a domain has a few types that have one. */
const MAX_PLANNED = 256;
/** Longest text that is looked for in another: the time of a search is the product of both. */
const MAX_NEEDLE = 512;
/** Longest text that a condition builds; a payload is not longer. */
const MAX_BUILT_TEXT = 64 * 1024;
const NOT_CEL = 'must be CEL';

/** What a condition is evaluated on. */
export interface ConditionInput {
  readonly action: Pick<ActionRow, 'source' | 'sourceRef' | 'type' | 'toolName'>;
  /** The exact bytes, whose digests the transaction compares. */
  readonly payload: Uint8Array;
  readonly evidence: Uint8Array;
}

/** What a condition says; `error` where it raised, or answered something else than a boolean. */
export type ConditionVerdict = 'true' | 'false' | 'error';

type Evaluate = (variables: Record<string, unknown>) => CelResult;

/** The evaluator, loaded when a domain has a condition: it is large, and most need none. */
let loading: Promise<Evaluator> | undefined;
const planned = new Map<string, Evaluate>();

/**
 * What is wrong with an expression that a domain wants as its condition (actions.md, Gate validator: "compiled when set"), as
 * a rule without the value; undefined: nothing.
 */
export async function conditionFault(expression: string): Promise<string | undefined> {
  const octets = utf8Length(expression);
  if (octets < 1 || octets > MAX_CONDITION_OCTETS)
    return `must be 1 to ${MAX_CONDITION_OCTETS} octets of UTF-8`;
  const { parse, plan: planExpression } = await evaluator();
  let where: string | undefined;
  const root = parse(expression, (place) => {
    where = place;
  });
  if (root === undefined) return where === undefined ? NOT_CEL : `${NOT_CEL}; it is not from ${where} on`;
  return expressionFault(root) ?? (planExpression(root) === undefined ? NOT_CEL : undefined);
}

/**
 * Evaluates a condition. It never throws for what the expression or its input is: whatever is not the boolean true refuses
 * the dispatch, and the transaction decides so from the verdict. Its time is bounded by the sizes of expression and input:
 * nothing in it loops.
 */
export async function evaluateCondition(
  expression: string,
  input: ConditionInput,
): Promise<ConditionVerdict> {
  const { action } = input;
  const payload = parsed(input.payload);
  const evidence = parsed(input.evidence);
  if (payload === undefined || evidence === undefined) return 'error';
  const evaluate = planned.get(expression) ?? (await plan(expression));
  if (evaluate === undefined) return 'error';
  const result = evaluate({
    action: new Map([
      ['source', action.source],
      ['source_ref', action.sourceRef],
      ['type', action.type],
      ['tool_name', action.toolName],
    ]),
    payload,
    evidence,
  });
  if (typeof result !== 'boolean') return 'error';
  return result ? 'true' : 'false';
}

/** Objects stay maps, so that no member's name means anything to the runtime. */
function parsed(bytes: Uint8Array): Json | undefined {
  const result = parseIJson(bytes);
  return 'fault' in result ? undefined : result.value;
}

/** Undefined where the expression breaks a rule by now: what is stored was compiled by an older service. */
async function plan(expression: string): Promise<Evaluate | undefined> {
  const { parse, plan: planExpression } = await evaluator();
  const root = parse(expression);
  if (root === undefined || expressionFault(root) !== undefined) return undefined;
  const evaluate = planExpression(root);
  if (evaluate === undefined) return undefined;
  if (planned.size >= MAX_PLANNED) planned.delete(planned.keys().next().value as string);
  planned.set(expression, evaluate);
  return evaluate;
}

interface Evaluator {
  /** Tells where it stopped, for example `line 1, column 3`, where the library knows. */
  readonly parse: (expression: string, onFault?: (where: string) => void) => CelExpression | undefined;
  readonly plan: (root: CelExpression) => Evaluate | undefined;
}

function evaluator(): Promise<Evaluator> {
  loading ??= load().catch((error: unknown) => {
    loading = undefined;
    throw error;
  });
  return loading;
}

async function load(): Promise<Evaluator> {
  const cel = await import('@bufbuild/cel');
  const { STRING, BOOL, DYN } = cel.CelScalar;
  const list = cel.listType(DYN);
  const environment = cel.celEnv({
    funcs: [
      cel.celMethod('contains', STRING, [STRING], BOOL, function (needle) {
        if (needle.length > MAX_NEEDLE) throw new Error('too long a text to look for');
        return this.includes(needle);
      }),
      cel.celFunc('_+_', [STRING, STRING], STRING, (left, right) => {
        if (left.length + right.length > MAX_BUILT_TEXT) throw new Error('too long a text');
        return left + right;
      }),
      // Otherwise a short expression builds and compares lists that are far longer than its input.
      cel.celFunc('_+_', [list, list], list, () => {
        throw new Error('lists are not joined');
      }),
    ],
  });
  return {
    parse: (expression, onFault) =>
      orUndefined(
        () => cel.parse(expression).expr,
        (error) => {
          const where = placeOf(error);
          if (where !== undefined) onFault?.(where);
        },
      ),
    plan: (root) => orUndefined(() => cel.plan(environment, root) as Evaluate),
  };
}

/** The library throws for what it does not take, a stack that is too deep among it. */
function orUndefined<Value>(call: () => Value, onError?: (error: unknown) => void): Value | undefined {
  try {
    return call();
  } catch (error) {
    onError?.(error);
    return undefined;
  }
}

/** Where a syntax error of the library is: it goes back to the last place at which the expression could have ended. */
function placeOf(error: unknown): string | undefined {
  const { location } = error as {
    readonly location?: { readonly start?: { line?: unknown; column?: unknown } };
  };
  const { line, column } = location?.start ?? {};
  return typeof line === 'number' && typeof column === 'number'
    ? `line ${line}, column ${column}`
    : undefined;
}
