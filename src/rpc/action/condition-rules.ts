import type { parse } from '@bufbuild/cel';

/** A parsed expression. */
export type CelExpression = ReturnType<typeof parse>['expr'];

/** What a condition is about. */
export const CONDITION_VARIABLES = ['action', 'payload', 'evidence'] as const;

/** Deeper ones would be evaluated on a deep stack; no condition that people read is. */
const MAX_DEPTH = 64;

/** Names of types, which `type(x) == string` compares with. */
const TYPE_NAMES = ['bool', 'bytes', 'double', 'int', 'list', 'map', 'null_type', 'string', 'type', 'uint'];
const NAMES: ReadonlySet<string> = new Set([...CONDITION_VARIABLES, ...TYPE_NAMES]);

/**
 * The functions that a condition may call: each takes time that grows with what it is given and no faster. So no `matches`
 * (actions.md, Gate validator), and nothing of time zones, which there is no need for without a clock.
 */
const FUNCTIONS: ReadonlySet<string> = new Set([
  ...['_&&_', '_||_', '!_', '_?_:_', '_==_', '_!=_', '_<_', '_<=_', '_>_', '_>=_', '@in', '_[_]'],
  ...['_+_', '_-_', '_*_', '_/_', '_%_', '-_'],
  ...['size', 'contains', 'startsWith', 'endsWith'],
  ...['bool', 'bytes', 'double', 'dyn', 'duration', 'int', 'string', 'timestamp', 'type', 'uint'],
]);

/** What a parsed condition breaks (actions.md, Gate validator); undefined: nothing. */
export function expressionFault(root: CelExpression): string | undefined {
  let level: readonly CelExpression[] = [root];
  for (let depth = 1; level.length > 0; depth += 1) {
    if (depth > MAX_DEPTH) return `must be nested at most ${MAX_DEPTH} deep`;
    for (const expression of level) {
      const fault = nodeFault(expression);
      if (fault !== undefined) return fault;
    }
    level = level.flatMap(partsOf);
  }
  return undefined;
}

function nodeFault({ exprKind }: CelExpression): string | undefined {
  switch (exprKind.case) {
    case 'constExpr':
    case 'listExpr':
    case 'selectExpr':
      return undefined;
    case 'identExpr':
      if (NAMES.has(exprKind.value.name)) return undefined;
      return `must name nothing but ${CONDITION_VARIABLES.join(', ')} and their members`;
    case 'callExpr':
      if (FUNCTIONS.has(exprKind.value.function)) return undefined;
      return exprKind.value.function === 'matches'
        ? 'must not use matches'
        : 'must call only functions that conditions have';
    case 'structExpr':
      return exprKind.value.messageName === '' ? undefined : 'must not make messages';
    case 'comprehensionExpr':
      return 'must not use a comprehension (all, exists, exists_one, filter, map)';
    case undefined:
      return 'must be CEL';
  }
}

function partsOf({ exprKind }: CelExpression): CelExpression[] {
  switch (exprKind.case) {
    case 'selectExpr':
      return present([exprKind.value.operand]);
    case 'callExpr':
      return present([exprKind.value.target, ...exprKind.value.args]);
    case 'listExpr':
      return exprKind.value.elements;
    case 'structExpr':
      return present(
        exprKind.value.entries.flatMap(({ keyKind, value }) => [
          keyKind.case === 'mapKey' ? keyKind.value : undefined,
          value,
        ]),
      );
    case 'constExpr':
    case 'identExpr':
    case 'comprehensionExpr':
    case undefined:
      return [];
  }
}

function present(expressions: readonly (CelExpression | undefined)[]): CelExpression[] {
  return expressions.filter((expression) => expression !== undefined);
}
