import { countRows } from '../count-rows.js';
import type { OpenPeerOrder } from '../messages.js';
import { loadPackage } from '../packages.js';
import type { Peer } from '../peer.js';
import { servePeer } from '../serve-peer.js';

/** What is used of the SDK. */
interface DbosModule {
  readonly DBOS: {
    setConfig(config: { name: string; systemDatabaseUrl: string; logLevel: string }): void;
    registerWorkflow<Args extends unknown[], Result>(
      run: (...args: Args) => Promise<Result>,
      config: { name: string },
    ): (...args: Args) => Promise<Result>;
    runStep<Result>(run: () => Promise<Result>, config: { name: string }): Promise<Result>;
    withNextWorkflowID<Result>(id: string, run: () => Promise<Result>): Promise<Result>;
    launch(): Promise<void>;
  };
}

/** A workflow that ended well, whose one step is stored. */
const DONE = `SELECT count(*) FROM dbos.workflow_status AS w JOIN dbos.operation_outputs AS o USING (workflow_uuid)
  WHERE w.status = 'SUCCESS'`;

/** A workflow with one step, called with an id of its own; all else is as the SDK has it. */
async function openDbos({ packages, databaseUrl }: OpenPeerOrder): Promise<Peer> {
  // What its use of the driver is warned of is not for who runs the benchmark.
  process.noDeprecation = true;
  const { DBOS } = await loadPackage<DbosModule>(packages, '@dbos-inc/dbos-sdk');
  DBOS.setConfig({ name: 'surety-bench', systemDatabaseUrl: databaseUrl, logLevel: 'error' });
  const life = DBOS.registerWorkflow(
    (key: string) => DBOS.runStep(() => Promise.resolve(`sent ${key}`), { name: 'send' }),
    { name: 'life' },
  );
  await DBOS.launch();
  return {
    async runOnce(key) {
      await DBOS.withNextWorkflowID(key, () => life(key));
    },
    countDone: () => countRows(databaseUrl, DONE),
  };
}

servePeer(openDbos);
