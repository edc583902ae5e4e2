import { readFileSync } from 'node:fs';
import { Channel } from '../client/service-client.js';
import { harnessActions } from './harness-role.js';
import { ownerActions } from './owner-role.js';
import { serveRole } from './role-process.js';
import type { RoleAction, RoleName } from './role-protocol.js';
import { workerActions } from './worker-role.js';
import { workloadActions } from './workload-role.js';

/** One process of the demo: `role-main <role> <target> <certificate> <key> <roots> [<signing key>]`. */
const [role = '', target = '', certificate = '', key = '', roots = '', signingKey = ''] =
  process.argv.slice(2);
const channel = new Channel(target, {
  certificate: readFileSync(certificate),
  key: readFileSync(key),
  roots: readFileSync(roots),
});

const ROLES: Readonly<Record<RoleName, () => Readonly<Record<string, RoleAction>>>> = {
  harness: () => harnessActions(channel),
  workload: () => workloadActions(channel),
  owner: () => ownerActions(channel, readFileSync(signingKey, 'utf8')),
  worker: () => workerActions(channel),
};
serveRole(ROLES[role as RoleName]());
