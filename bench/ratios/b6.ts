import { runInterleaved } from '../measure/interleave.js';
import { perSecond } from '../measure/measured.js';
import { PEERS, type PeerKind } from '../peers/catalog.js';
import { LOAD_CLIENT } from '../sides/grpc.js';
import { LifeSide } from '../sides/lives.js';
import { PeerSide } from '../sides/peer.js';
import type { Ratio } from './ratio.js';

const CALLERS = 32;

/** A whole life against the same by others. */
export const b6: readonly Ratio[] = PEERS.map(againstPeer);

function againstPeer(peer: PeerKind): Ratio {
  return {
    id: 'B6',
    title: `a whole life ÷ ${peer.name}`,
    a: `ReserveEffect, StartExecution and AcknowledgeTerminal over mTLS gRPC, ${CALLERS} callers, two verified proofs, all rules, audit chain on; proofs are signed during the round`,
    b: `${peer.name}: ${peer.what}; ${CALLERS} callers`,
    unit: 'per second',
    goal: { at: 'least', value: peer.goal },
    needsPgbench: false,
    settings: {
      callers: CALLERS,
      load_client: LOAD_CLIENT,
      executor_connections: 4,
      peer_processes: peer.processes,
      peer_durability: peer.durability,
    },
    async measure({ world, plan, onStep, say }) {
      const lives = new LifeSide(world, CALLERS);
      const other = await PeerSide.open(world, peer, CALLERS, say);
      try {
        const sides = {
          a: async () => perSecond(await lives.measure(plan.seconds)),
          b: async () => perSecond(await other.measure(plan.seconds)),
        };
        const pairs = await runInterleaved(plan.rounds, sides, onStep);
        return { pairs, figures: lives.figures, versions: other.versions };
      } finally {
        await other.close();
      }
    },
  };
}
