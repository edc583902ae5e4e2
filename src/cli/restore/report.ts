import type { RestoredAction } from '../../lane/restore-actions.js';
import type { RestoredEffect } from '../../lane/restore-effects.js';

/** A domain as the restore left it, or found it. */
export interface RestoredDomain {
  readonly domainId: string;
  /** Of a restore that is resumed: an operator may have ended the freeze since it was begun. */
  readonly frozen: boolean;
  readonly policyRevision: bigint;
  readonly revocationEpoch: bigint;
}

/** How much of what there was. */
export interface RestoreCounts {
  domains: number;
  /** PREPARED in the backup, UNKNOWN now; with `--dry-run`: PREPARED. */
  moved: number;
  executing: number;
  unknown: number;
  /** Governed actions that failed as ambiguous; with `--dry-run`: that would. */
  ended: number;
  /** Could not be moved or ended. */
  refused: number;
  /** Effects and actions that this run itself moved on: none where a restore that is resumed had come to its end. */
  changed: number;
}

/** Which restore is told of. */
export interface ReportKind {
  readonly dryRun: boolean;
  /** Goes on with one that was begun before. */
  readonly resume: boolean;
}

/** What a restore tells, piece by piece: nothing of it is kept. */
export interface RestoreReport {
  begun(incarnation: bigint): Promise<void>;
  domain(domain: RestoredDomain): Promise<void>;
  effect(domainId: string, effect: RestoredEffect): Promise<void>;
  action(domainId: string, action: RestoredAction): Promise<void>;
  done(incarnation: bigint, counts: RestoreCounts): Promise<void>;
}

/** Takes a whole line, without its line break; the next one waits for it. */
export type WriteLine = (line: string) => Promise<void>;

/** For programs: one JSON object a line. 64-bit integers are text, digests hexadecimal. */
export function jsonReport(write: WriteLine, { dryRun }: ReportKind): RestoreReport {
  const line = (fields: object): Promise<void> =>
    write(JSON.stringify(fields, (_, value) => (typeof value === 'bigint' ? value.toString() : value)));
  return {
    begun: (incarnation) => line({ type: 'restore', incarnation, dryRun }),
    domain: (domain) => line({ type: 'domain', ...domain }),
    effect: (domainId, { outcome, requestDigest, changed: _, ...effect }) =>
      line({
        type: 'effect',
        domainId,
        ...effect,
        requestDigest: requestDigest?.toString('hex') ?? null,
        ...(typeof outcome === 'string' ? { outcome } : { outcome: 'refused', reason: outcome.refused }),
      }),
    action: (domainId, { outcome, executionDigest, ...action }) =>
      line({
        type: 'action',
        domainId,
        ...action,
        executionDigest: executionDigest?.toString('hex') ?? null,
        ...(typeof outcome === 'string' ? { outcome } : { outcome: 'refused', reason: outcome.refused }),
      }),
    done: (incarnation, counts) => line({ type: 'done', incarnation, dryRun, ...counts }),
  };
}

/** For people. */
export function textReport(write: WriteLine, { dryRun, resume }: ReportKind): RestoreReport {
  let inDomain = 0;
  let began = false;
  const endDomain = async (): Promise<void> => {
    if (began && inDomain === 0) await write('  nothing in flight');
    inDomain = 0;
    began = true;
  };
  return {
    begun: (incarnation) =>
      write(
        dryRun
          ? `Nothing is changed. A restore would begin incarnation ${incarnation}. In flight:`
          : resume
            ? `The restore to incarnation ${incarnation} goes on. In flight:`
            : `Incarnation ${incarnation} has begun. In flight:`,
      ),
    domain: async ({ domainId, frozen, policyRevision, revocationEpoch }) => {
      await endDomain();
      const now = dryRun ? 'now at' : frozen ? 'frozen,' : 'not frozen any more,';
      await write(
        `\n${domainId}: ${now} policy revision ${policyRevision}, revocation epoch ${revocationEpoch}`,
      );
    },
    effect: (_domainId, effect) => {
      inDomain += 1;
      return write(`  ${stateText(effect, dryRun).padEnd(STATE_WIDTH)}  ${placeText(effect)}`);
    },
    action: (_domainId, { actionId, state, outcome, executionDigest }) => {
      inDomain += 1;
      const end =
        typeof outcome === 'string'
          ? outcome === 'ended'
            ? `${state}, now FAILED`
            : state
          : outcome.refused;
      const request = executionDigest === null ? '' : `  request ${executionDigest.toString('hex')}`;
      return write(`  ${end.padEnd(STATE_WIDTH)}  action ${actionId}${request}`);
    },
    done: async (_incarnation, counts) => {
      await endDomain();
      if (resume && counts.changed === 0) await write('\nThere was nothing left to go on with.');
      for (const text of summary(counts, dryRun)) await write(text);
    },
  };
}

const STATE_WIDTH = 'DISPATCHED, now FAILED'.length;

function stateText({ state, outcome }: RestoredEffect, dryRun: boolean): string {
  if (typeof outcome !== 'string') return outcome.refused;
  if (outcome === 'moved') return `${state}, now UNKNOWN`;
  return dryRun && state === 'PREPARED' ? 'PREPARED' : String(state);
}

function placeText({ effectId, sink, fence, requestDigest }: RestoredEffect): string {
  if (fence === null) return `${effectId}  (its pending work is there, the effect is not)`;
  return `${effectId}  ${sink}  fence ${fence}  request ${requestDigest?.toString('hex')}`;
}

function summary(counts: RestoreCounts, dryRun: boolean): string[] {
  const { domains, moved, executing, unknown, ended, refused } = counts;
  const actions =
    ended === 0
      ? ''
      : ` ${ended} governed actions GATED or DISPATCHED${dryRun ? '' : ', ended as ambiguous'}.`;
  const counted = `${executing} EXECUTING, ${unknown} UNKNOWN, in ${domains} domains.${actions}`;
  if (dryRun) return ['', `${moved} PREPARED, ${counted}`];
  return [
    '',
    `${moved} moved from PREPARED to UNKNOWN, ${counted}`,
    ...(refused === 0
      ? []
      : [
          `${refused} could not be moved: their rows contradict the log. They stay where they are, for ever blocked.`,
        ]),
    '',
    'What is left to do, for an operator of each domain (docs/restore.md):',
    '1. Start the service. What is EXECUTING goes to UNKNOWN by itself at its execution deadline.',
    '2. Find out from the systems outside what was done after the backup; the request digests above are theirs to compare.',
    '3. Register reconcilers anew, and let them settle everything that is UNKNOWN. That works while the domain is frozen.',
    '4. Put entitlements again and issue new grants: those from before are stale. Owners sign bounded grants anew.',
    '5. Only then: surety admin unfreeze --domain <domain> --reason <text>. Until it is done nothing new begins, and no',
    '   nonce is consumed; wait at least as long as the carriers of nonces that were spent after the backup are good for.',
  ];
}
