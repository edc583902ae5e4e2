import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { Child } from '../measure/child.js';
import type { Measured } from '../measure/measured.js';
import type { PeerKind } from '../peers/catalog.js';
import { installPackages } from '../peers/install.js';
import type { PeerOrder } from '../peers/messages.js';
import { laterNode } from '../peers/node-22.js';
import { RatioBlocked } from '../ratios/ratio-blocked.js';
import type { BenchWorld } from '../world/bench-world.js';

/** A peer in a process of its own, with its callers. */
export class PeerSide {
  private constructor(
    private readonly world: BenchWorld,
    private readonly kind: PeerKind,
    private readonly callers: number,
    private readonly child: Child<PeerOrder>,
    /** Of its packages, and of the Node that it runs on where that is another one. */
    readonly versions: Readonly<Record<string, string>>,
  ) {}

  /**
   * Installs the peer where it is not yet, and starts it.
   *
   * @param say told of what takes long
   * @throws RatioBlocked where it cannot be had here
   */
  static async open(
    world: BenchWorld,
    kind: PeerKind,
    callers: number,
    say: (text: string) => void,
  ): Promise<PeerSide> {
    return orBlocked(kind, async () => {
      const onInstall = (): void => say(`installing ${kind.name} with npm, once`);
      const { folder: packages, versions } = await installPackages(kind.folder, onInstall);
      const node = kind.needsNode22 ? await laterNode(onInstall) : undefined;
      const main = `peers/${kind.folder}/${kind.folder}-main.js`;
      const child = Child.start<PeerOrder>(main, undefined, node?.execPath);
      world.undoing.add(() => child.stop());
      const folder = path.join(world.folder, kind.folder);
      await mkdir(folder, { recursive: true });
      try {
        await child.send({ kind: 'open', packages, databaseUrl: await createDatabase(world, kind), folder });
      } catch (error) {
        await child.stop();
        throw error;
      }
      const all = node ? { ...versions, 'node of the peer': node.version } : versions;
      return new PeerSide(world, kind, callers, child, all);
    });
  }

  /** @throws RatioBlocked where it failed, or did not do what its callers counted */
  measure(seconds: number): Promise<Measured> {
    const { world, kind, callers, child } = this;
    const round = (): Promise<Measured> => child.measure({ kind: 'round', callers, seconds });
    return orBlocked(kind, () => world.costs.during(kind.name, kind.tiers, 'process of its callers', round));
  }

  close(): Promise<void> {
    return this.child.stop();
  }
}

async function orBlocked<Result>({ name }: PeerKind, run: () => Promise<Result>): Promise<Result> {
  try {
    return await run();
  } catch (error) {
    const why = error instanceof Error ? error.message : 'failed';
    throw new RatioBlocked(`${name}: ${why}`, { cause: error });
  }
}

/** @returns its URL */
async function createDatabase({ sql, postgres }: BenchWorld, { folder }: PeerKind): Promise<string> {
  const name = `bench_${folder.replaceAll('-', '_')}`;
  await sql.query(`CREATE DATABASE ${name}`);
  const url = new URL(postgres.url);
  url.pathname = `/${name}`;
  return url.href;
}
