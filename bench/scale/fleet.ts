import { Child } from '../measure/child.js';
import { Costs } from '../measure/costs.js';
import type { Measured } from '../measure/measured.js';
import { familyTimeMs, processTimeMs } from '../measure/processor-time.js';
import type { BenchWorld } from '../world/bench-world.js';
import { GrantLoader } from '../world/grant-supply.js';
import { DOMAIN, HARNESSES, harnessSpiffeId } from '../world/names.js';
import { ServiceProcess } from '../world/service-process.js';
import { EVEN_DOMAINS, mintEvenDomains, type ScaleParties, setUpEvenDomains } from './even-domains.js';
import type { ScaleConnection, ScaleDomain, ScaleOrder } from './messages.js';

export const MOST_REPLICAS = 4;
/** Where the load goes: all of it to one domain, or to sixteen evenly. */
export type Spread = 'hot' | 'even';

/**
 * Calls under way at once, over all replicas: as many against one as against four. Sixteen domains get four for each
 * connection: with one, a domain's batches would be of one command wherever it has four replicas.
 */
export const SCALE_CALLERS: Readonly<Record<Spread, number>> = { hot: 64, even: 256 };

const fleets = new WeakMap<BenchWorld, Promise<Fleet>>();

/** Several services on the world's database, and the process that loads them. */
export class Fleet {
  /** Processor time of a call on each tier, by how many replicas served it. */
  readonly costs: Costs;
  private current: readonly ServiceProcess[] = [];

  private constructor(
    private readonly world: BenchWorld,
    readonly replicas: readonly ServiceProcess[],
    private readonly load: Child<ScaleOrder>,
    private readonly parties: ReadonlyMap<string, ScaleParties>,
    private readonly loaders: ReadonlyMap<string, GrantLoader>,
  ) {
    this.costs = new Costs(() => ({
      postgres: () => familyTimeMs(world.postgres.pid),
      service: () => this.current.reduce((sum, { pid }) => sum + (processTimeMs(pid) ?? 0), 0),
    }));
  }

  /** The world's; started when it is asked for first. */
  static of(world: BenchWorld): Promise<Fleet> {
    const known = fleets.get(world);
    if (known) return known;
    const fleet = Fleet.start(world);
    fleets.set(world, fleet);
    return fleet;
  }

  private static async start(world: BenchWorld): Promise<Fleet> {
    const minted = await mintEvenDomains(world);
    const replicas: ServiceProcess[] = [];
    for (let i = 0; i < MOST_REPLICAS; i += 1) {
      const replica = await world.startFurtherService();
      replicas.push(replica);
    }
    const load = Child.start<ScaleOrder>('scale/scale-main.js', world.profile);
    world.undoing.add(() => load.stop());
    const parties = await setUpEvenDomains(world, (replicas[0] as ServiceProcess).target, minted);
    parties.set(DOMAIN, {
      identities: HARNESSES.map((id) => world.certificates.identity(harnessSpiffeId(DOMAIN, id))),
      events: world.events[DOMAIN] ?? [],
    });
    const loaders = new Map(
      [...parties.keys()].map((domainId) => [domainId, new GrantLoader(world, domainId)]),
    );
    return new Fleet(world, replicas, load, parties, loaders);
  }

  /** One round against the first so many replicas. `figures`: of each replica, as `messages.ts` says. */
  async measure(spread: Spread, replicas: number, seconds: number): Promise<Measured> {
    const domainIds = spread === 'hot' ? [DOMAIN] : EVEN_DOMAINS;
    const domains: Record<string, ScaleDomain> = {};
    for (const domainId of domainIds) {
      const grants = await this.loader(domainId).forSeconds(seconds);
      domains[domainId] = { grants, events: this.parties.get(domainId)?.events ?? [] };
    }
    const connections = domainIds.flatMap((domainId) => this.connections(domainId, replicas));
    this.current = this.replicas.slice(0, replicas);
    const call = `ReserveEffect, ${replicas} ${replicas === 1 ? 'process' : 'processes'}`;
    const order = { connections, domains, callers: SCALE_CALLERS[spread], seconds };
    const measured = await this.costs.during(call, ['service', 'postgres'], 'load client', () =>
      this.world.growth.during(`ReserveEffect, ${spread}`, () => this.load.measure(order)),
    );
    this.note(measured, domainIds);
    return measured;
  }

  /** One of each harness, in turn over the replicas, so that one replica has as many connections as four have. */
  private connections(domainId: string, replicas: number): ScaleConnection[] {
    const identities = this.parties.get(domainId)?.identities ?? [];
    return identities.map((identity, harness) => {
      const replica = harness % replicas;
      const { target } = this.replicas[replica] as ServiceProcess;
      return { target, replica, domainId, harness, identity };
    });
  }

  private loader(domainId: string): GrantLoader {
    return this.loaders.get(domainId) as GrantLoader;
  }

  private note(measured: Measured, domainIds: readonly string[]): void {
    for (const domainId of domainIds) {
      this.loader(domainId).note({ ...measured, calls: measured.calls / domainIds.length });
    }
  }
}
