import type { Micros } from '../../types.js';
import { ADMIN_ONLY, type MutationRule, nextRevision, requireRevision } from '../mutation-rule.js';
import type { SinkRow } from '../records.js';

/** An outside system that effects go to; its freeze is another command's. */
export interface PutSink {
  readonly kind: 'put_sink';
  readonly sink: string;
  readonly authoritySystems: readonly string[];
  readonly sendWindow: Micros;
  readonly settleTime: Micros;
  readonly breakerThreshold: number;
  readonly breakerReset: Micros;
  readonly unknownCeiling: number;
  readonly unknownAge: Micros;
}

/** Creates or changes a sink. Effects that were started keep the send window that they were started with. */
export const putSink: MutationRule<PutSink> = {
  roles: ADMIN_ONLY,
  reads: ({ sink }) => ({ sinks: [sink] }),
  apply: (draft, { kind: _, ...fields }, context) => {
    const before = draft.get('sinks', fields.sink);
    requireRevision(context, before);
    const row: SinkRow = {
      ...fields,
      frozen: before?.frozen ?? false,
      freezeReason: before?.freezeReason ?? null,
      revision: nextRevision(before),
    };
    draft.put('sinks', row);
    return { type: 'sink', id: row.sink, revision: row.revision };
  },
};
