import { checkToolOutput, deriveToolOutput, type ToolOutputInput } from '../provenance/derive-tool-output.js';
import type { ProvenanceRow } from '../provenance/records.js';
import { refusal } from '../refusal.js';
import { Refused } from '../run-decision.js';
import type { Digest } from '../types.js';
import type { Draft } from '../working-set.js';
import type { EvidenceFields } from './evidence.js';
import { evidenceTime } from './rules/time-window.js';
import type { TransitionCase } from './transition-command.js';
import { releasePendingWork } from './pending-work.js';

/** What a terminal transition writes besides the effect's step: the output's provenance record; the pending work ends. */
export function settle(draft: Draft, at: TransitionCase): ProvenanceRow {
  releasePendingWork(draft, at.effect.effectId);
  return deriveToolOutput(draft, inputOf(draft, at, at.registration));
}

/** The output of an exact duplicate: found and checked again (provenance-audit-replay.md). */
export function checkedOutput(draft: Draft, at: TransitionCase): ProvenanceRow {
  const { effect } = at;
  const receipt = draft
    .find('transitionsOfEffect', effect.effectId)
    .find((row) => row.step === effect.stateStep && !row.late);
  if (!receipt) {
    throw new Refused(
      refusal('DATA_CORRUPT', 'The receipt of the terminal step is missing.', {
        metadata: { record: `transition/${effect.effectId}/${effect.stateStep}` },
      }),
    );
  }
  return checkToolOutput(draft, inputOf(draft, at, receipt));
}

function inputOf(
  draft: Draft,
  { effect, command }: TransitionCase,
  by: Pick<ToolOutputInput, 'role' | 'registrationId' | 'workloadId' | 'credentialEpoch'>,
): ToolOutputInput {
  const event = draft.get('events', effect.eventId);
  if (!event) {
    throw new Refused(
      refusal('DATA_CORRUPT', "The effect's event is missing.", {
        metadata: { record: `event/${effect.eventId}` },
      }),
    );
  }
  return {
    effect,
    event,
    parent: draft.get('provenance_records', event.objectType, event.eventId, 1n),
    role: by.role,
    registrationId: by.registrationId,
    workloadId: by.workloadId,
    credentialEpoch: by.credentialEpoch,
    outputDigest: outputOf(command.evidence.fields),
    completedTime: evidenceTime(command.evidence.fields),
    now: draft.now,
  };
}

function outputOf(fields: EvidenceFields[keyof EvidenceFields]): Digest {
  if ('externalReceiptDigest' in fields) return fields.externalReceiptDigest;
  if ('queryResponseDigest' in fields) return fields.queryResponseDigest;
  throw new Error('only terminal evidence has an output');
}
