import { type DescMessage, type DescMethod, fromBinary } from '@bufbuild/protobuf';
import { AdminCommandSchema } from '../gen/surety/authority/v1/command_pb.js';
import { decodeBase64url } from '../identity/base64url.js';
import type { MethodRow } from '../identity/method-table.js';
import { isTrustDomain } from '../identity/spiffe-id.js';
import type { FieldViolation } from '../ledger/refusal.js';
import type { CallerKind } from '../ledger/types.js';

/** The kinds that name the domain that they act in (identity.md, Callers). */
const NAMES_ITS_DOMAIN: ReadonlySet<CallerKind> = new Set(['operator', 'owner', 'auditor']);

/** Which domain a request is about. */
export interface RequestDomain {
  /** Well-formed; undefined where the request names none, or none that could exist. */
  readonly named?: string;
  /** What is wrong with the name for a caller of this kind. Told only to a caller who may call the method. */
  violation(kind: CallerKind): FieldViolation | undefined;
}

/** Finds the domain in a decoded request; undefined stands for one that could not be decoded. */
export type DomainFinder = (request: object | undefined) => RequestDomain;

const noViolation = (): undefined => undefined;

const NONE: RequestDomain = { violation: noViolation };

/** Prepares the search for a method's requests. @throws when the row names a field that the request does not have */
export function domainFinder(method: DescMethod, { domain }: MethodRow): DomainFinder {
  if (domain.from === 'own') return () => NONE;
  if (domain.from === 'command') return commandDomain;
  const read = textReader(method.input, domain.field);
  const { field, from } = domain;
  return (request) => {
    if (request === undefined) return NONE;
    const text = read(request);
    if (text === '') return { violation: (kind) => missing(field, from, kind) };
    if (isTrustDomain(text)) return { named: text, violation: noViolation };
    return { violation: () => ({ field, rule: 'must be the name of a trust domain' }) };
  };
}

function missing(
  field: string,
  from: 'named' | 'either' | 'optional',
  kind: CallerKind,
): FieldViolation | undefined {
  const required = from === 'named' || (from === 'either' && NAMES_ITS_DOMAIN.has(kind));
  return required ? { field, rule: 'must name the domain to act in' } : undefined;
}

/** Reads a text at a path of proto names; empty where a message on the way is absent. */
function textReader(schema: DescMessage, path: string): (request: object) => string {
  const names: string[] = [];
  let message: DescMessage | undefined = schema;
  for (const name of path.split('.')) {
    const field: DescMessage['fields'][number] | undefined = message?.fields.find((one) => one.name === name);
    if (field === undefined) throw new TypeError(`${schema.typeName} has no ${path}`);
    names.push(field.localName);
    message = field.message;
  }
  return (request) => {
    let value: unknown = request;
    for (const name of names) value = (value as Record<string, unknown> | undefined)?.[name];
    return typeof value === 'string' ? value : '';
  };
}

/**
 * The domain in the header of a signed command whose signature nobody has looked at yet: a selector. Where it cannot be
 * read, the method itself says what is wrong with the command.
 */
function commandDomain(request: object | undefined): RequestDomain {
  const token = request !== undefined && 'commandJws' in request ? String(request.commandJws) : '';
  const payload = decodeBase64url(token.split('.', 3)[1] ?? '');
  if (payload === undefined) return NONE;
  try {
    const named = fromBinary(AdminCommandSchema, payload, { readUnknownFields: false }).header?.domainId;
    return named !== undefined && isTrustDomain(named) ? { named, violation: noViolation } : NONE;
  } catch {
    return NONE;
  }
}
