import { printable } from '../admin/terminal.js';
import type { SuretyError } from './surety-error.js';

/** What of a command a refusal is about, where its facts name no field: by reason and the rule among its facts. */
const ABOUT_OPTIONS: readonly (readonly [string, string, string])[] = [
  ['COMMAND_SIGNATURE_INVALID', 'key', "--signing-key: must be the key that the operator's record has now"],
];

/** A refusal for people: code, reason and sentence; then each field that breaks a rule, or the option that it is about. */
export function refusalLines({ code, reason, message, violations, metadata }: SuretyError): string[] {
  const facts = Object.entries(metadata).map(([name, value]) => `${name} ${value}`);
  const options = ABOUT_OPTIONS.filter(([of, rule]) => of === reason && rule === metadata['rule']);
  return [
    `${[code, reason].join(' ').trim()}: ${message}${facts.length > 0 ? ` (${facts.join(', ')})` : ''}`,
    ...violations.map(
      ({ field, description }) => `  ${field === '' ? 'the request' : field}: ${description}`,
    ),
    ...options.map(([, , line]) => `  ${line}`),
  ].map(printable);
}
