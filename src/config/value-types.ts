import { isIP } from 'node:net';
import { z } from 'zod';
import { parseFault } from '../lane/faults.js';

/** Where to listen: a host name or an address, and a port; 0 takes a free one. */
export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

const MAX_PORT = 65_535;

const listenPattern = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]\s]+)):(\d{1,5})$/;

/** `host:port`, an IPv6 address in brackets. */
export const listenAddress = z.string().transform((text, context): ListenAddress => {
  const [, inBrackets, plain, port] = listenPattern.exec(text) ?? [];
  const host = inBrackets ?? plain;
  const isRight =
    host !== undefined && (inBrackets === undefined || isIP(inBrackets) === 6) && Number(port) <= MAX_PORT;
  if (isRight) return { host, port: Number(port) };
  context.addIssue('must be host:port, an IPv6 address in brackets');
  return z.NEVER;
});

/** Whether only this machine can reach it. */
export function isLoopback({ host }: ListenAddress): boolean {
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'));
}

/** The admin port has no authentication: whoever reaches it may read it. */
export const loopbackAddress = listenAddress.refine(
  isLoopback,
  'must be a loopback address: this port has no authentication',
);

/** An integer in a range, in decimal. */
export function integer(min: number, max: number): z.ZodType<number, string> {
  return z.string().transform((text, context): number => {
    const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
    if (value >= min && value <= max) return value;
    context.addIssue(`must be an integer from ${min} to ${max}`);
    return z.NEVER;
  });
}

/** `0` or `1`. */
export const flag = z.enum(['0', '1'], 'must be 0 or 1').transform((text) => text === '1');

/** How much is logged. */
export const logLevel = z.enum(
  ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'],
  'must be trace, debug, info, warn, error, fatal or silent',
);

/** A Postgres URL. Everything that `PG*` could fill in elsewhere must be in it. */
export const databaseUrl = z
  .string()
  .refine(isPostgresUrl, 'must be a URL like postgres://user:password@host:5432/database');

/** A fault of the store, for tests (architecture.md, Time and faults in tests). */
export const fault = z.string().transform((text, context) => {
  const order = parseFault(text);
  if (order !== undefined) return order;
  context.addIssue(
    'must be <seam>:<crash|error|delay|hold> with a seam of after-gather, after-decide, in-commit-<n>, before-commit, ' +
      'after-commit; optionally @<command kind>, and for hold =<file>',
  );
  return z.NEVER;
});

/** A path. */
export const path = z.string().min(1, 'must not be empty');

function isPostgresUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname, pathname, username } = new URL(text);
  return /^postgres(ql)?:$/.test(protocol) && hostname !== '' && username !== '' && pathname.length > 1;
}
