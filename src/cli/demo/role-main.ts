import { readFileSync } from 'node:fs';
import { Channel } from '../client/service-client.js';
import { harnessActions } from './harness-role.js';
import { serveRole } from './role-process.js';
import { workloadActions } from './workload-role.js';

/** One process of the demo: `role-main <role> <target> <certificate> <key> <roots>`. */
const [role = '', target = '', certificate = '', key = '', roots = ''] = process.argv.slice(2);
const channel = new Channel(target, {
  certificate: readFileSync(certificate),
  key: readFileSync(key),
  roots: readFileSync(roots),
});
serveRole(role === 'harness' ? harnessActions(channel) : workloadActions(channel));
