import type { ActionRow } from './records.js';

/** What is not repeated in a snapshot: it never changes, and stands with the action. */
const OMITTED: ReadonlySet<string> = new Set(['payload']);

/**
 * An action as JSON, for its dead letter (actions.md, Contract and journal: "reason and the action's snapshot"): every column
 * but the payload, by its name, in order; times in microseconds and tokens as text, digests in hexadecimal.
 */
export function actionSnapshot(action: ActionRow): Buffer {
  const members = Object.entries(action)
    .filter(([field]) => !OMITTED.has(field))
    .map(([field, value]) => [memberName(field), plain(value)] as const)
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return Buffer.from(JSON.stringify(Object.fromEntries(members)), 'utf8');
}

function memberName(field: string): string {
  return field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function plain(value: unknown): unknown {
  if (typeof value === 'bigint') return value.toString();
  return value instanceof Uint8Array ? Buffer.from(value).toString('hex') : value;
}
