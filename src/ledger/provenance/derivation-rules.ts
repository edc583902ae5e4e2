import { sameDigest } from '../encoding.js';
import { type Refusal, refusal } from '../refusal.js';
import type { Digest } from '../types.js';
import type { Draft } from '../working-set.js';
import type { DerivedContent, StepFields } from './derivation.js';
import { ANY_SINK, OBSERVED_SLACK } from './origin.js';
import { ruleViolated } from './provenance-rule.js';
import type { ObjectType, ProvenanceRow, StepKind } from './records.js';
import { storedRecord } from './stored-record.js';
import { verifyReference } from './verify-reference.js';
import { predecessorFault } from './version-form.js';

/** What the last step must be for the types that say what made them; the others may be made by any kind. */
const LAST_KINDS: Readonly<Partial<Record<ObjectType, StepKind>>> = {
  model_output: 'model',
  tool_output: 'tool',
  parser_output: 'parser',
};

/** The parents of a derivation that keeps every rule, or why it does not. */
export type DerivationResult =
  | { readonly parents: readonly ProvenanceRow[]; readonly policyRevision: bigint }
  | { readonly refused: Refusal };

/**
 * Judges a derivation by every rule (provenance-audit-replay.md, Provenance: "A **derived** record"); the first that is
 * broken is told.
 *
 * Needs the read `provenance` of the parents and of the predecessor.
 *
 * @throws Refused DATA_CORRUPT where a parent or the predecessor is not what its digest says
 */
export function judgeDerivation(draft: Draft, content: DerivedContent): DerivationResult {
  const policyRevision = content.policyRevision ?? draft.domain.policyRevision;
  if (policyRevision > draft.domain.policyRevision) {
    const message = 'The policy revision named is later than the current one.';
    return { refused: ruleViolated('policy_revision', 'policy_revision', message) };
  }
  const found = findParents(draft, content, policyRevision);
  if ('refused' in found) return found;
  const { parents } = found;
  const refused =
    predecessorRefusal(draft, content) ??
    classificationRefusal(content, parents) ??
    sinkRefusal(content, parents) ??
    stepsRefusal(content, parents) ??
    timeRefusal(draft, content);
  return refused ? { refused } : { parents, policyRevision };
}

/** Parents exist, in the same domain, as their references say; none has a later policy revision. */
function findParents(
  draft: Draft,
  content: DerivedContent,
  policyRevision: bigint,
): { readonly parents: readonly ProvenanceRow[] } | { readonly refused: Refusal } {
  const parents: ProvenanceRow[] = [];
  for (const [index, reference] of content.parents.entries()) {
    const field = `parents[${index}]`;
    if (reference.domainId !== draft.domainId) {
      return { refused: ruleViolated('parent_domain', field, 'A parent is of another domain.') };
    }
    const record = storedRecord(draft, reference)?.record;
    if (!record) return { refused: ruleViolated('parent_missing', field, 'A parent is not recorded.') };
    const [differs] = verifyReference(draft.domainId, reference, { requiredSinks: [] }, record);
    if (differs !== undefined) {
      const path = differs.replace('reference', field);
      return { refused: ruleViolated('parent_mismatch', path, 'A parent is not what its reference says.') };
    }
    if (record.policyRevision > policyRevision) {
      return { refused: ruleViolated('parent_revision', field, 'A parent has a later policy revision.') };
    }
    parents.push(record);
  }
  return { parents };
}

function predecessorRefusal(draft: Draft, content: DerivedContent): Refusal | undefined {
  const fault = predecessorFault(draft, content);
  if (fault === 'missing') {
    return ruleViolated('predecessor_missing', 'version', 'The version before is not recorded.');
  }
  if (fault === 'mismatch') {
    const message = 'The version before has another digest than the predecessor named.';
    return ruleViolated('predecessor_mismatch', 'predecessor_digest', message);
  }
  return undefined;
}

function classificationRefusal(
  content: DerivedContent,
  parents: readonly ProvenanceRow[],
): Refusal | undefined {
  if (parents.every((parent) => parent.classification <= content.classification)) return undefined;
  return ruleViolated('classification_lowered', 'classification', "A parent's class is higher.");
}

/** The intersection of the parents' finite sets; `*` alone means any. */
function sinkRefusal(content: DerivedContent, parents: readonly ProvenanceRow[]): Refusal | undefined {
  const finite = parents.filter((parent) => !parent.allowedSinks.includes(ANY_SINK));
  const wider = content.allowedSinks.some((sink) =>
    finite.some((parent) => !parent.allowedSinks.includes(sink)),
  );
  return wider
    ? ruleViolated('sink_widened', 'allowed_sinks', 'A parent may not go to a sink named.')
    : undefined;
}

/** The chain: from exactly the parents' contents, each step from the one before, to the record's content. */
function stepsRefusal(content: DerivedContent, parents: readonly ProvenanceRow[]): Refusal | undefined {
  const { steps } = content;
  let inputs = parents.map((parent) => parent.contentDigest);
  let rule: 'first_inputs' | 'step_inputs' = 'first_inputs';
  for (const [index, step] of steps.entries()) {
    if (!sameSet(step.inputDigests, inputs)) {
      const message = "A step's inputs are not exactly what came before it.";
      return ruleViolated(rule, `steps[${index}].input_digests`, message);
    }
    inputs = [step.outputDigest];
    rule = 'step_inputs';
  }
  const last = steps.at(-1);
  if (!last || !sameDigest(last.outputDigest, content.contentDigest)) {
    const message = "The last step's output is not the record's content.";
    return ruleViolated('last_output', 'content_digest', message);
  }
  const kind = LAST_KINDS[content.objectType];
  if (kind === undefined || kind === last.kind) return undefined;
  const message = 'The last step does not make this type of object.';
  return ruleViolated('last_kind', `steps[${steps.length - 1}].kind`, message);
}

/** Within a step and from step to step times do not go back, and none lies ahead. */
function timeRefusal(draft: Draft, { steps }: DerivedContent): Refusal | undefined {
  let before = steps[0]?.startedAt ?? 0n;
  for (const [index, step] of steps.entries()) {
    const field = backwards(step, before);
    if (field !== undefined) {
      return ruleViolated('step_times', `steps[${index}].${field}`, 'Times go back in the chain of steps.');
    }
    before = step.completedAt;
  }
  if (before <= draft.now + OBSERVED_SLACK) return undefined;
  return refusal('EVIDENCE_TIME_OUTSIDE_WINDOW', 'A step ended in the future.', {
    metadata: { field: `steps[${steps.length - 1}].completed_time` },
  });
}

function backwards(step: StepFields, before: bigint): 'started_time' | 'completed_time' | undefined {
  if (step.startedAt < before) return 'started_time';
  return step.completedAt < step.startedAt ? 'completed_time' : undefined;
}

/** Whether two lists hold the same digests, each as often, in any order. */
function sameSet(a: readonly Digest[], b: readonly Digest[]): boolean {
  const [x, y] = [a, b].map((list) => [...list].sort((one, other) => Buffer.compare(one, other)));
  return x?.length === y?.length && x?.every((digest, index) => sameDigest(digest, y?.[index])) === true;
}
