import { randomBytes } from 'node:crypto';
import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { AdminService } from '../../gen/surety/authority/v1/admin_service_pb.js';
import type { AdminCommandSchema, CommandResult } from '../../gen/surety/authority/v1/command_pb.js';
import { WorkloadService } from '../../gen/surety/identity/v1/workload_service_pb.js';
import { type SigningKey, signCommand } from '../../identity/sign.js';
import type { Channel } from './service-client.js';

/** What a command does: one case of the oneof. */
export type Mutation = NonNullable<MessageInitShape<typeof AdminCommandSchema>['mutation']>;

/** How long a command may be on its way, in milliseconds; the service allows 300 s. */
const VALIDITY_MS = 120_000;

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
  async sign(domainId: string, mutation: Mutation, reason: string): Promise<string> {
    const me = await this.channel.service(WorkloadService).whoAmI({ domainId });
    const now = Number(me.nowTime?.seconds ?? 0n) * 1000;
    return signCommand(
      {
        header: {
          audience: me.audience,
          incarnation: me.incarnation,
          domainId,
          commandId: randomBytes(18).toString('base64url'),
          reason,
          issuedTime: timestampFromMs(now),
          expireTime: timestampFromMs(now + VALIDITY_MS),
        },
        mutation,
      },
      this.key,
    );
  }
}
