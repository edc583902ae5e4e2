import { type DescMessage, type Message, toJson } from '@bufbuild/protobuf';
import { TimestampSchema } from '@bufbuild/protobuf/wkt';
import type { CommandHeader, CommandResult } from '../../gen/surety/authority/v1/command_pb.js';
import type { Target } from '../client/record-kinds.js';
import { flatFields } from './flat-fields.js';
import { columns, printable } from './terminal.js';

/** The header of a command, as lines. */
export function headerLines(header: CommandHeader): string[] {
  return columns(
    [
      ['audience', header.audience],
      ['incarnation', String(header.incarnation)],
      ['domain', header.domainId],
      ['expected policy revision', String(header.expectedPolicyRevision)],
      ['expected entity revision', entityRevision(header.expectedEntityRevision)],
      ['reason', printable(header.reason)],
      ['issued', header.issuedTime ? toJson(TimestampSchema, header.issuedTime) : ''],
      ['expires', header.expireTime ? toJson(TimestampSchema, header.expireTime) : ''],
    ],
    '  ',
  );
}

function entityRevision(expected: bigint): string {
  return expected === 0n ? '0: it must not be there' : String(expected);
}

/** What a record was and will be, field by field: `+` added, `-` taken away, `~` changed, or as it is. */
export function changeLines(
  schema: DescMessage,
  before: Message | undefined,
  after: Message | undefined,
): string[] {
  const old = before ? flatFields(schema, before) : new Map<string, string>();
  const now = after ? flatFields(schema, after) : new Map<string, string>();
  const names = [...new Set([...now.keys(), ...old.keys()])];
  return columns(
    names.map((name) => {
      const [was, becomes] = [old.get(name), now.get(name)];
      if (was === becomes) return [' ', name, was ?? ''];
      if (was === undefined) return ['+', name, becomes ?? ''];
      if (becomes === undefined) return ['-', name, was];
      return ['~', name, `${was} → ${becomes}`];
    }),
    '  ',
  );
}

/** A kind of record as the commands call it, for example `gate-shape`. */
export function kindName({ kind }: Pick<Target, 'kind'>): string {
  return kind.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/** A record in words. */
export function targetName({ kind, id }: Target): string {
  return `${kindName({ kind })} ${printable(id)}`.trimEnd();
}

/** What a command did, as lines. */
export function resultLines(target: Target, result: CommandResult): string[] {
  return columns(
    [
      [targetName(target), `revision ${result.entityRevision}`],
      ['audit position', String(result.auditPosition)],
      ['policy revision', String(result.policyRevision)],
      ['revocation epoch', String(result.revocationEpoch)],
      ['command id', printable(result.commandId)],
    ],
    '  ',
  );
}
