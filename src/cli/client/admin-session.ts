import { randomBytes } from 'node:crypto';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { AdminService } from '../../gen/surety/authority/v1/admin_service_pb.js';
import {
  AdminCommandSchema,
  type CommandHeader,
  CommandHeaderSchema,
  type CommandResult,
} from '../../gen/surety/authority/v1/command_pb.js';
import { type WhoAmIResponse, WorkloadService } from '../../gen/surety/identity/v1/workload_service_pb.js';
import { type SigningKey, signCommand } from '../../identity/sign.js';
import { type CommandBasis, readBasis } from './current-revisions.js';
import type { Channel } from './service-client.js';
import { SuretyError } from './surety-error.js';

/** What a command does: one case of the oneof. */
export type Mutation = NonNullable<MessageInitShape<typeof AdminCommandSchema>['mutation']>;

/** How long a command may be on its way, in milliseconds; the service allows 300 s. */
const VALIDITY_MS = 120_000;

/** What a command rests on (authority.md, Signed commands); an entity revision of 0: there must be no such record. */
export type ExpectedRevisions = Pick<CommandBasis, 'expectedPolicyRevision' | 'expectedEntityRevision'>;

/** How often a command is built anew because what it rests on had changed when it came. */
const MAX_BUILDS = 5;

/**
 * The header of a command that is to be signed now, with a command id of its own.
 *
 * @param me what the service answered to this operator for the domain that the command acts in
 */
export function commandHeader(
  me: WhoAmIResponse,
  domainId: string,
  reason: string,
  { expectedPolicyRevision, expectedEntityRevision }: ExpectedRevisions,
): CommandHeader {
  const now = Number(me.nowTime?.seconds ?? 0n) * 1000;
  return create(CommandHeaderSchema, {
    audience: me.audience,
    incarnation: me.incarnation,
    domainId,
    commandId: randomBytes(18).toString('base64url'),
    expectedPolicyRevision,
    expectedEntityRevision,
    reason,
    issuedTime: timestampFromMs(now),
    expireTime: timestampFromMs(now + VALIDITY_MS),
  });
}

/**
 * An operator at work: signs commands and sends them over its own connection. Each command rests on the record as it
 * stands when it is signed.
 */
export class AdminSession {
  constructor(
    private readonly channel: Channel,
    private readonly key: SigningKey,
  ) {}

  /**
   * Signs and executes one command in a domain, whatever the record is by then: where that has changed in between, the
   * command is built on it anew.
   *
   * @throws SuretyError where it is refused
   */
  async execute(domainId: string, mutation: Mutation, reason = 'set up'): Promise<CommandResult> {
    let expected = await this.expected(domainId, mutation);
    for (let build = 1; ; build += 1) {
      try {
        return await this.executeOn(domainId, mutation, reason, expected);
      } catch (error) {
        if (!(error instanceof SuretyError && error.reason === 'REVISION_STALE')) throw error;
        const current = await this.expected(domainId, mutation);
        if (build === MAX_BUILDS || isSame(current, expected)) throw error;
        expected = current;
      }
    }
  }

  /**
   * Signs and executes one command that makes a record, which must not be there yet.
   *
   * @throws SuretyError REVISION_STALE or RECORD_EXISTS where it is there, or where it is refused
   */
  async make(domainId: string, mutation: Mutation, reason: string): Promise<CommandResult> {
    const expected = await this.expected(domainId, mutation);
    return this.executeOn(domainId, mutation, reason, { ...expected, expectedEntityRevision: 0n });
  }

  /**
   * Signs and executes one command that rests on these revisions.
   *
   * @throws SuretyError REVISION_STALE where they are not the current ones, or where it is refused
   */
  async executeOn(
    domainId: string,
    mutation: Mutation,
    reason: string,
    expected: ExpectedRevisions,
  ): Promise<CommandResult> {
    const commandJws = await this.signOn(domainId, mutation, reason, expected);
    const { result } = await this.channel.service(AdminService).executeCommand({ commandJws });
    if (!result) throw new Error('the service answered without a result');
    return result;
  }

  /** The signed command, for whoever wants to send it later or more than once. */
  async sign(
    domainId: string,
    mutation: Mutation,
    reason: string,
    expected: Partial<ExpectedRevisions> = {},
  ): Promise<string> {
    const current = await this.expected(domainId, mutation);
    return this.signOn(domainId, mutation, reason, { ...current, ...expected });
  }

  private async signOn(
    domainId: string,
    mutation: Mutation,
    reason: string,
    expected: ExpectedRevisions,
  ): Promise<string> {
    const me = await this.channel.service(WorkloadService).whoAmI({ domainId });
    return signCommand({ header: commandHeader(me, domainId, reason, expected), mutation }, this.key);
  }

  /** The revisions that are current; where they cannot be read, the command's own refusal will say why. */
  private async expected(domainId: string, mutation: Mutation): Promise<ExpectedRevisions> {
    const command = create(AdminCommandSchema, { mutation });
    try {
      const { expectedPolicyRevision, expectedEntityRevision } = await readBasis(
        this.channel,
        domainId,
        command.mutation,
      );
      return { expectedPolicyRevision, expectedEntityRevision };
    } catch (error) {
      if (!(error instanceof SuretyError)) throw error;
      return { expectedPolicyRevision: 0n, expectedEntityRevision: 0n };
    }
  }
}

function isSame(one: ExpectedRevisions, other: ExpectedRevisions): boolean {
  return (
    one.expectedPolicyRevision === other.expectedPolicyRevision &&
    one.expectedEntityRevision === other.expectedEntityRevision
  );
}
