import { listenAddress } from '../config/value-types.js';
import { UsageError } from './failure.js';

/** Where the service listens, for `parseArgs`: two names for the same, of which the first one is documented. */
export const TARGET_OPTIONS = { target: { type: 'string' }, address: { type: 'string' } } as const;

/** Their values. */
export type TargetValues = { readonly [Name in keyof typeof TARGET_OPTIONS]?: string | undefined };

/**
 * The address that was given, by either name.
 *
 * @returns `host:port`; undefined where none was given
 * @throws {UsageError}
 */
export function readTarget({ target, address }: TargetValues): string | undefined {
  if (target !== undefined && address !== undefined) {
    throw new UsageError('--target and --address are two names for the same: one of them is given');
  }
  const given = target ?? address;
  if (given === undefined || listenAddress.safeParse(given).success) return given;
  const name = target === undefined ? '--address' : '--target';
  throw new UsageError(`${name}: must be host:port, an IPv6 address in brackets`);
}
