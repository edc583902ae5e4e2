import { setImmediate as turn } from 'node:timers/promises';
import { auditCodec } from '../../src/lane/audit-codec.js';
import { Faults } from '../../src/lane/faults.js';
import { Lanes } from '../../src/lane/lanes.js';
import { type ReserveEffectCommand, reserveEffect } from '../../src/ledger/effect/reserve-effect.js';
import { sha256 } from '../../src/ledger/encoding.js';
import type { Caller } from '../../src/ledger/types.js';
import { newId } from '../../src/rpc/new-id.js';
import { ConnectionPool } from '../../src/store/connection-pool.js';
import { type Measured, measuredOf } from '../measure/measured.js';
import {
  ACTION,
  DATA_CLASS,
  HARNESSES,
  harnessSpiffeId,
  INPUT_SOURCE,
  RESOURCE,
  SINK,
} from '../world/names.js';
import { BatchFigures } from './batch-figures.js';
import { callerOf } from './caller.js';
import type { LaneMode, LaneOrder, LaneReserveOrder, OpenLaneOrder } from './messages.js';
import { rowsOnly } from './rows-only.js';
import { unchained, unlogged } from './unchained.js';

/** Of the service's own defaults. */
const LANE_CONNECTIONS = 8;
const QUEUE_LIMIT = 2_000;

const DECISIONS: Readonly<Record<LaneMode, (decision: typeof reserveEffect) => typeof reserveEffect>> = {
  whole: (decision) => decision,
  unchained,
  unlogged,
  rows: rowsOnly,
};

interface Open {
  readonly pool: ConnectionPool;
  readonly lanes: Lanes;
  readonly figures: BatchFigures;
}

/** The lane as the service has it, with callers in the same process and no RPC. */
export class LaneProcess {
  private open: Open | undefined;

  run(order: LaneOrder): Promise<Measured | undefined> {
    return order.kind === 'open' ? this.connect(order) : this.reserve(order);
  }

  private async connect({ url, role, batchLimit }: OpenLaneOrder): Promise<undefined> {
    await this.open?.lanes.drain();
    await this.open?.pool.close();
    const pool = new ConnectionPool({ url, role, applicationName: 'surety-bench' }, LANE_CONNECTIONS);
    const figures = new BatchFigures();
    const lanes = new Lanes({
      pool,
      codec: auditCodec,
      faults: new Faults(undefined),
      observer: figures.observer,
      laneId: newId('lane'),
      queueLimit: QUEUE_LIMIT,
      batchLimit,
    });
    this.open = { pool, lanes, figures };
    return undefined;
  }

  private async reserve(order: LaneReserveOrder): Promise<Measured> {
    if (!this.open) throw new Error('nothing is connected');
    const { lanes, figures } = this.open;
    const commands = commandsOf(order);
    const decision = DECISIONS[order.mode](reserveEffect);
    const latencies: number[] = [];
    let at = 0;
    await turn();
    figures.take();
    const usage = process.cpuUsage();
    const started = performance.now();
    const deadline = started + order.seconds * 1000;
    let last = started;
    const caller = async (): Promise<void> => {
      for (;;) {
        const begun = performance.now();
        const command = begun < deadline ? commands[at] : undefined;
        if (!command) return;
        at += 1;
        const outcome = await lanes.submit(decision, command);
        if (!outcome.ok) throw new Error(`a command was refused: ${outcome.refusal.reason}`);
        last = performance.now();
        latencies.push(last - begun);
      }
    };
    await Promise.all(Array.from({ length: order.callers }, caller));
    if (latencies.length === 0) throw new Error('there were no commands to run');
    const measured = measuredOf(latencies, last - started, process.cpuUsage(usage));
    return { ...measured, figures: figures.take() };
  }
}

/** Commands as the rpc layer makes them, one for each grant. */
function commandsOf({ domainId, grants, events }: LaneReserveOrder): ReserveEffectCommand[] {
  const callers = HARNESSES.map((harnessId) => callerOf(harnessSpiffeId(domainId, harnessId)));
  return Array.from({ length: grants.count }, (_, i) => {
    const harness = i % HARNESSES.length;
    const ofHarness = events[harness] ?? [];
    const grantId = `${grants.name}-${i}`;
    return {
      domainId,
      commandId: newId('cmd'),
      caller: callers[harness] as Caller,
      eventId: ofHarness[Math.floor(i / HARNESSES.length) % ofHarness.length] ?? '',
      grantId,
      action: ACTION,
      resource: RESOURCE,
      inputSource: INPUT_SOURCE,
      outputSink: SINK,
      dataClass: DATA_CLASS as number as ReserveEffectCommand['dataClass'],
      requestDigest: sha256(`request of ${grantId}`),
      effectKey: `refund:${grantId}`,
      repeatable: false,
      reservationTtl: null,
      executionDeadline: null,
      effectId: newId('eff'),
      decisionId: newId('dec'),
    };
  });
}
