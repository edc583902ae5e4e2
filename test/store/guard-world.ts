import pg from 'pg';
import { seedWorkers, type Workers } from '../fault/effect-life.js';
import { type EffectWorld, openWorld, type Replica } from '../support/effect-world.js';

/** A store with workers, a replica that fills it, and somebody who writes to it by hand. */
export interface GuardWorld {
  readonly world: EffectWorld;
  readonly replica: Replica;
  readonly workers: Workers & { grantId: string };
  /** A plain client with the service's rights. */
  readonly service: pg.Client;
  close(): Promise<void>;
}

export async function openGuardWorld(): Promise<GuardWorld> {
  const world = await openWorld();
  const replica = world.replica();
  const workers = await seedWorkers(world);
  const service = new pg.Client({ connectionString: world.database.serviceUrl });
  await service.connect();
  return {
    world,
    replica,
    workers,
    service,
    close: async () => {
      await service.end();
      await world.close();
    },
  };
}
