import type { ClientBase } from 'pg';
import { MigrationError } from './migrate-error.js';
import { sqlState } from './store-error.js';

/** Serves. May not update or delete what is append-only; what it may is granted in the migrations. */
export const serviceRole = 'surety_service';

/** Archives by partition, after export. */
export const archiveRole = 'surety_archive';

/** Raised when another session makes the same role or membership at once. */
const madeMeanwhile: ReadonlySet<string> = new Set(['42710', '23505', 'XX000']);

const insufficientPrivilege = '42501';

/** The loser of that race finds the role at its next look. */
const maxTries = 10;

/** A plain identifier needs no quotes, and none can be smuggled in. */
const roleNamePattern = /^[a-z_][a-z0-9_]{0,62}$/;

/**
 * Makes a role that can own rights and cannot log in, unless it exists. Roles belong to the whole server, so
 * it may well exist from another database.
 *
 * @param client - outside of a transaction: a lost race must not abort one
 * @throws MigrationError ROLE_MISSING if it is not there and this login may not make it; the driver's error
 */
export async function ensureRole(client: ClientBase, roleName: string): Promise<void> {
  assertRoleName(roleName);
  await untilTrue(
    async () => (await client.query('SELECT FROM pg_roles WHERE rolname = $1', [roleName])).rowCount === 1,
    async () => void (await client.query(`CREATE ROLE ${roleName} NOLOGIN`)),
    `The role ${roleName} does not exist, and this login may not create it. ` +
      `Let an administrator run: CREATE ROLE ${roleName} NOLOGIN`,
  );
}

/**
 * Makes the role with which the service serves, or another of ours, and lets the current login take it with `SET ROLE`: what a
 * service does that was given one URL for both migrating and serving (architecture.md, Configuration and data).
 * Safe when several do it at once.
 *
 * @param client - outside of a transaction
 * @throws MigrationError ROLE_MISSING if this login may do neither; the driver's error
 */
export async function ensureServiceRole(client: ClientBase, roleName: string = serviceRole): Promise<void> {
  await ensureRole(client, roleName);
  // From 16 on, being a member and being allowed to SET ROLE are two things. A superuser may take every role.
  const { rows } = await client.query<{ apart: boolean }>(
    `SELECT current_setting('server_version_num')::int >= 160000 AS apart`,
  );
  const apart = rows[0]?.apart === true;
  const mayTake = `SELECT pg_has_role(CURRENT_USER, $1, '${apart ? 'SET' : 'MEMBER'}') AS may`;
  await untilTrue(
    async () => (await client.query<{ may: boolean }>(mayTake, [roleName])).rows[0]?.may === true,
    async () =>
      void (await client.query(`GRANT ${roleName} TO CURRENT_USER${apart ? ' WITH SET TRUE' : ''}`)),
    `This login may not take the role ${roleName}. Let an administrator grant it: GRANT ${roleName} TO <login>`,
  );
}

async function untilTrue(
  isTrue: () => Promise<boolean>,
  make: () => Promise<void>,
  refused: string,
): Promise<void> {
  for (let tries = 0; tries < maxTries; tries++) {
    if (await isTrue()) return;
    try {
      await make();
    } catch (error) {
      const state = sqlState(error);
      if (state === insufficientPrivilege) break;
      if (!madeMeanwhile.has(state ?? '')) throw error;
    }
  }
  throw new MigrationError('ROLE_MISSING', refused);
}

function assertRoleName(roleName: string): void {
  if (!roleNamePattern.test(roleName)) throw new RangeError('A role name is a plain lower-case identifier.');
}
