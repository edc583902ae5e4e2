import type { AdminCommand } from '../../gen/surety/authority/v1/command_pb.js';
import { type WhoAmIResponse, WorkloadService } from '../../gen/surety/identity/v1/workload_service_pb.js';
import { MUTATION_KINDS } from './mutation-kinds.js';
import { type CurrentRecord, readRecord, type Target } from './record-kinds.js';
import type { Channel } from './service-client.js';

/** What a command that is to be signed now rests on. */
export interface CommandBasis {
  readonly me: WhoAmIResponse;
  readonly target: Target;
  /** The record as it stands; undefined where it is not there, or not for this operator to see. */
  readonly before: CurrentRecord | undefined;
  readonly expectedPolicyRevision: bigint;
  /** 0: the record must not be there (authority.md, Signed commands). */
  readonly expectedEntityRevision: bigint;
}

/**
 * Reads what a command rests on: the domain's policy revision and the record that the mutation makes or changes.
 *
 * @throws SuretyError
 */
export async function readBasis(
  channel: Channel,
  domainId: string,
  mutation: AdminCommand['mutation'],
): Promise<CommandBasis> {
  const me = await channel.service(WorkloadService).whoAmI({ domainId });
  if (mutation.case === undefined) throw new TypeError('a command has a mutation');
  const kind = MUTATION_KINDS[mutation.case];
  const target = kind.target(mutation.value, domainId);
  // A domain is read in itself, also where the command that makes it acts in another.
  const home = target.kind === 'domain' ? target.id : domainId;
  const before = target.id === '' ? undefined : await readRecord(channel, home, target);
  return {
    ...{ me, target, before },
    expectedPolicyRevision: me.policyRevision,
    expectedEntityRevision: kind.creates ? 0n : (before?.revision ?? 0n),
  };
}
