import type { AdminSession } from '../client/admin-session.js';
import type { Channel } from '../client/service-client.js';
import type { RoleHandle } from './role-handle.js';
import type { RoleName } from './role-protocol.js';
import type { Undoing } from './undoing.js';

/** What a story is played on: a service with a domain, and processes for its parts. */
export interface Stage {
  readonly domainId: string;
  readonly admin: AdminSession;
  readonly operator: Channel;
  readonly auditor: Channel;
  /** Starts the process of a part, with the certificate of this path in the domain. */
  readonly role: (name: string, kind: RoleName) => Promise<RoleHandle>;
  readonly undoing: Undoing;
}
