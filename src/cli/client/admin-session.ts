import { randomBytes } from 'node:crypto';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { AdminService } from '../../gen/surety/authority/v1/admin_service_pb.js';
import {
  type AdminCommandSchema,
  type CommandHeader,
  CommandHeaderSchema,
  type CommandResult,
} from '../../gen/surety/authority/v1/command_pb.js';
import { type WhoAmIResponse, WorkloadService } from '../../gen/surety/identity/v1/workload_service_pb.js';
import { type SigningKey, signCommand } from '../../identity/sign.js';
import type { Channel } from './service-client.js';

/** What a command does: one case of the oneof. */
export type Mutation = NonNullable<MessageInitShape<typeof AdminCommandSchema>['mutation']>;

/** How long a command may be on its way, in milliseconds; the service allows 300 s. */
const VALIDITY_MS = 120_000;

/** What a command rests on besides what it says; 0, as if left out: not compared. */
export interface ExpectedRevisions {
  readonly expectedPolicyRevision?: bigint;
  readonly expectedEntityRevision?: bigint;
}

/**
 * The header of a command that is to be signed now, with a command id of its own.
 *
 * @param me what the service answered to this operator for the domain that the command acts in
 */
export function commandHeader(
  me: WhoAmIResponse,
  domainId: string,
  reason: string,
  expected: ExpectedRevisions = {},
): CommandHeader {
  const now = Number(me.nowTime?.seconds ?? 0n) * 1000;
  return create(CommandHeaderSchema, {
    audience: me.audience,
    incarnation: me.incarnation,
    domainId,
    commandId: randomBytes(18).toString('base64url'),
    ...expected,
    reason,
    issuedTime: timestampFromMs(now),
    expireTime: timestampFromMs(now + VALIDITY_MS),
  });
}

/** An operator at work: signs commands and sends them over its own connection. */
export class AdminSession {
  constructor(
    private readonly channel: Channel,
    private readonly key: SigningKey,
  ) {}

  /**
   * Signs and executes one command in a domain.
   *
   * @throws SuretyError where it is refused
   */
  async execute(domainId: string, mutation: Mutation, reason = 'set up'): Promise<CommandResult> {
    const commandJws = await this.sign(domainId, mutation, reason);
    const { result } = await this.channel.service(AdminService).executeCommand({ commandJws });
    if (!result) throw new Error('the service answered without a result');
    return result;
  }

  /** The signed command, for whoever wants to send it later or more than once. */
  async sign(
    domainId: string,
    mutation: Mutation,
    reason: string,
    expected: ExpectedRevisions = {},
  ): Promise<string> {
    const me = await this.channel.service(WorkloadService).whoAmI({ domainId });
    return signCommand({ header: commandHeader(me, domainId, reason, expected), mutation }, this.key);
  }
}
